//! Many executions, held to their logs.

use std::time::Instant;

use serde_json::json;

use crate::lab::Lab;

const EXECUTIONS: usize = 100_000;
/// How many are started at once.
const AT_ONCE: usize = 500;

#[tokio::test]
#[ignore = "takes minutes without optimisation; `cargo xtask bench verify` is the measurement"]
async fn a_hundred_thousand_executions_are_verified_and_nothing_is_found() {
    // The store stays for whoever wants to look at it from outside.
    let folder = std::env::var_os("STATEWAY_MANY");
    let lab = match &folder {
        Some(folder) => Lab::at(folder.as_ref()),
        None => Lab::new(),
    };
    lab.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let began = Instant::now();
    for _ in 0..EXECUTIONS / AT_ONCE {
        let starts = (0..AT_ONCE).map(|_| {
            let (engine, start) = (lab.engine.clone(), lab.start_of("gate", json!({"n": 1})));
            tokio::spawn(async move { engine.start(start).await.unwrap() })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await.unwrap();
        }
    }
    println!("made in {:.1?}", began.elapsed());
    let (began, mut after, mut checked) = (Instant::now(), 0, 0);
    loop {
        let page = lab.engine.verify_batch(after, 1_000).await.unwrap();
        assert!(page.wrong.is_empty(), "{:#?}", page.wrong);
        checked += page.executions;
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{checked} executions checked in {seconds:.1} s ({:.0}/s)",
        checked as f64 / seconds
    );
    assert_eq!(checked, EXECUTIONS as u64);
}
