//! The golden trajectories, over objects in memory whose time passes like real time.

use std::time::Duration;

use futures::StreamExt as _;
use jiff::SignedDuration;
use stateway_provider_api::table::compiled_in;
use stateway_provider_builtin::{BuiltinProvider, Config};
use stateway_trajectory_kit::{
    DIFFERENCES, Difference, Engine, SCENARIOS, conform, play_random, sources, table,
};

use crate::lab::Lab;
use crate::provider::provider;

/// How often the alarms that are due fire.
const TICK: Duration = Duration::from_millis(5);

/// Lets the time pass like real time.
async fn pass(lab: Lab) {
    let mut last = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(TICK).await;
        let now = tokio::time::Instant::now();
        lab.pass(SignedDuration::try_from(now - last).unwrap());
        last = now;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosted_executions_show_the_golden_trajectories() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let passing = tokio::spawn(pass(lab));
    // A host in memory refuses what a host inside an engine refuses.
    conform(Engine::Restate, &provider, SCENARIOS.len()).await;
    passing.abort();
}

/// Every scenario has a golden file, and the table has a row for it. `cargo xtask docs` writes the page again.
#[test]
fn page_of_the_trajectories_is_current() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let golden = format!("{root}/crates/trajectory-kit/golden");
    let files = std::fs::read_dir(&golden).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.collect();
    let names = SCENARIOS.iter().map(|it| format!("{}.txt", it.name));
    let mut names: Vec<_> = names.collect();
    files.sort();
    names.sort();
    assert_eq!(files, names);
    let is_scenario = |it: &Difference| SCENARIOS.iter().any(|other| other.name == it.scenario);
    assert!(DIFFERENCES.iter().all(is_scenario));
    let path = format!("{root}/docs/reference/trajectories.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, rest) = page.split_once(BEGIN).unwrap();
    let (_, end) = rest.split_once(END).unwrap();
    let current = format!("{begin}{BEGIN}\n{}{END}{end}", table());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, current).unwrap();
        return;
    }
    assert!(
        page == current,
        "{path} is not current: run `cargo xtask docs`"
    );
}

const BEGIN: &str = "<!-- generated: trajectories -->";
const END: &str = "<!-- end -->";

/// How many random definitions are compared, and how many at a time.
const DEFINITIONS: u64 = 60;
const AT_A_TIME: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn random_definitions_have_the_trajectories_of_the_built_in_engine() {
    // The clock of the laboratory begins at another time; alarms are compared with the real one.
    let lab = Lab::at(jiff::Timestamp::now());
    let hosted = provider(&lab);
    let passing = tokio::spawn(pass(lab));
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        path: folder.path().join("store.db"),
        ..Config::default()
    };
    let table = compiled_in("builtin").unwrap();
    let builtin = BuiltinProvider::new(&"builtin".parse().unwrap(), &config, table).unwrap();
    let played = futures::stream::iter(1..=DEFINITIONS).map(|seed| {
        let (hosted, builtin) = (&hosted, &builtin);
        async move {
            let both = (play_random(builtin, seed), play_random(hosted, seed));
            (seed, tokio::join!(both.0, both.1))
        }
    });
    let mut played = std::pin::pin!(played.buffer_unordered(AT_A_TIME));
    let mut wrong = Vec::new();
    while let Some((seed, (here, there))) = played.next().await {
        if here.is_err() || here != there {
            wrong.push(format!("{seed}: {here:?}\n{there:?}\n{}", sources(seed)[0]));
        }
    }
    passing.abort();
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
