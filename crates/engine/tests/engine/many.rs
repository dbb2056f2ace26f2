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

#[tokio::test]
async fn a_list_replays_no_log() {
    let lab = Lab::new();
    lab.apply("name: one\nsteps: [{name: go, signal: go}]")
        .await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(lab.start("one", serde_json::json!(1)).await.id);
    }
    let (open, done) = ids.split_at(5);
    let go = || stateway_engine::Steer::Signal {
        name: "go".into(),
        payload: std::sync::Arc::new(serde_json::json!(2)),
    };
    for id in done {
        lab.steer(id, go()).await.unwrap();
        lab.ended(id).await;
    }
    let list = async || {
        let query = stateway_engine::ListQuery {
            limit: 100,
            ..Default::default()
        };
        let before = lab.engine.list_replays();
        let page = lab.engine.list(query).await.unwrap();
        (page.items, lab.engine.list_replays() - before)
    };
    let (first, replays) = list().await;
    assert_eq!(replays, 0, "open and finished executions are in their rows");
    for listed in &first {
        let read = lab.engine.get(listed.id.clone()).await.unwrap();
        assert_eq!(*listed, read);
    }
    let (second, _) = list().await;
    let shown = |views: &[stateway_engine::View]| -> Vec<_> {
        let views = views.iter();
        views
            .map(|view| (view.id.clone(), view.sub_state, view.times.ended))
            .collect()
    };
    assert_eq!(shown(&first), shown(&second));
    // A finished execution that is run again is not shown as it was.
    let again = stateway_engine::Steer::Cancel {
        mode: stateway_machine::CancelMode::Kill,
        cause: "".into(),
    };
    lab.steer(&open[0], again).await.unwrap();
    list().await;
    let from = stateway_engine::RetryFrom {
        from_start: true,
        ..Default::default()
    };
    let actor = "ada".into();
    let reopened = lab
        .engine
        .retry_from(open[0].clone(), from, actor, lab.key(1))
        .await
        .unwrap();
    assert!(!reopened.state.is_terminal());
    let (third, _) = list().await;
    let found = third.iter().find(|view| view.id == open[0]).unwrap();
    assert_eq!(found.state, reopened.state);
}
