//! `stateway verify --store`: a file that no gateway has open.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stateway_engine::{
    ApplyDefinition, Config, Engine, Fate, Faults, RequestKey, Start, Steer, Write,
};

use crate::binary::{Answer, command, finish};

fn verify(folder: &Path, more: &[&str]) -> Answer {
    let mut arguments = vec!["verify", "--store", "store.db"];
    arguments.extend(more);
    finish(command(folder).args(arguments), "")
}

/// A store with one execution that has ended; where asked for, its row did not learn of that.
async fn store(folder: &Path, forget: bool) {
    let armed = Arc::new(AtomicBool::new(false));
    let mut config = Config::new(folder.join("store.db"));
    let trap = Arc::clone(&armed);
    config.faults = Faults::by(move |write| {
        let lost = write == Write::Status && trap.load(Ordering::Relaxed);
        if lost { Fate::Lost } else { Fate::Done }
    });
    let engine = Engine::open(&config).unwrap();
    let apply = ApplyDefinition {
        source: "name: gate\nsteps: [{name: a, signal: go}]".to_owned(),
        source_name: "gate.yaml".to_owned(),
        request: None,
    };
    engine.apply(apply).await.unwrap();
    let key = |id: &str| RequestKey {
        id: id.into(),
        body: [1; 16],
    };
    let start = Start {
        definition: "gate".into(),
        id: Some("g-1".into()),
        input: Arc::default(),
        labels: Default::default(),
        not_before: None,
        actor: "ada".into(),
        request: key("r1"),
    };
    engine.start(start).await.unwrap();
    armed.store(forget, Ordering::Relaxed);
    let signal = Steer::Signal {
        name: "go".into(),
        payload: Arc::default(),
    };
    let signalled = engine.steer("g-1".into(), signal, "ada".into(), key("r2"));
    signalled.await.unwrap();
}

#[tokio::test]
async fn a_clean_file_reports_nothing() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), false).await;
    let answer = verify(folder.path(), &[]).exits(0);
    assert!(
        answer.out.starts_with("1 executions checked in "),
        "{answer:?}"
    );
    assert!(answer.out.ends_with(": no problem found\n"), "{answer:?}");
}

#[tokio::test]
async fn what_contradicts_a_log_is_told_with_what_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), true).await;
    let answer = verify(folder.path(), &[]).exits(8);
    let said = [
        "A3  the execution has ended in the log, not in the row",
        "row: branch 0, awaiting_signal (waiting)",
        "log: branch 0, completed (succeeded)",
        "to do: repair from the log; no step runs again",
        "1 of them differs from its log",
    ];
    for said in said {
        assert!(answer.out.contains(said), "{said}: {}", answer.out);
    }
    let json = verify(folder.path(), &["-o", "json"]).exits(8).json();
    assert_eq!(json["verdicts"][0]["findings"][0]["code"], "A3");
    assert_eq!(json["verdicts"][0]["remedy"]["kind"], "repair");
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let answer = verify(folder.path(), &[]).exits(2);
    assert!(
        answer.err.contains("there is no file `store.db`"),
        "{answer:?}"
    );
    std::fs::write(folder.path().join("store.db"), "this is a letter").unwrap();
    let answer = verify(folder.path(), &[]).exits(4);
    assert!(answer.err.contains("store.db"), "{answer:?}");
}
