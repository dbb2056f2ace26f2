//! The form of a state: a golden file for the version that is written, and what is refused.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use crate::kit;

use std::sync::Arc;

use kit::history::histories;
use kit::{Run, plan};
use serde_json::{Value, json};
use stateway_machine::{
    CancelMode, SNAPSHOT_VERSION, SnapshotError, State, Task, Verb, evolve, restore, snapshot,
    snapshot_revision,
};
use stateway_model::ErrorCategory::{Governance, Transient};
use stateway_model::{Progress, Usage};

const BUSY: &str = include_str!("busy.yaml");
const GOLDEN: &str = include_str!("golden/snapshot-v4.json");
/// Written by a build that knew only version 1. It never changes.
const VERSION_1: &str = include_str!("golden/snapshot-v1.json");
const VERSION_2: &str = include_str!("golden/snapshot-v2.json");
const VERSION_3: &str = include_str!("golden/snapshot-v3.json");

/// Something of every sort: completed, open, backing off, waiting, escalated, a signal kept.
fn busy() -> Run {
    let mut run = Run::started(BUSY);
    run.signal("go", "first").unwrap();
    run.signal("go", "kept").unwrap();
    let usage = Some(Usage {
        output_tokens: 12,
        ..Usage::default()
    });
    run.ok(Verb::CompleteTask {
        task: Task::of("a", 1),
        output: json!({"id": 7.25}).into(),
        usage,
    });
    let task = run.task("b");
    run.ok(Verb::AssignTask {
        task,
        worker: "w1".into(),
        identity: "".into(),
    });
    run.ok(Verb::RecordHeartbeat {
        step: "b".into(),
        attempt: 1,
        progress: Progress::new(0.1, "reading"),
    });
    run.fail("flaky", Transient);
    run.fail("risky", Governance);
    run
}

type Edit = fn(&mut Value);

fn change(edit: impl FnOnce(&mut Value)) -> Result<State, SnapshotError> {
    let mut written: Value = serde_json::from_str(GOLDEN).unwrap();
    edit(&mut written);
    restore(plan(BUSY), written.to_string().as_bytes())
}

#[test]
fn version_4_is_written_as_it_always_was() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/snapshot-v4.json");
    let written = String::from_utf8(snapshot(&busy().state)).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &written).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), written);
}

#[test]
fn version_4_is_read() {
    let read = restore(plan(BUSY), GOLDEN.trim_end().as_bytes()).unwrap();
    assert_eq!(read, busy().state);
}

/// A snapshot is a cache: the log is replayed instead.
#[test]
fn older_versions_are_refused_by_their_version() {
    for (version, written) in [(1, VERSION_1), (2, VERSION_2), (3, VERSION_3)] {
        let error = restore(plan(BUSY), written.trim_end().as_bytes()).unwrap_err();
        assert!(matches!(error, SnapshotError::UnknownVersion { found } if found == version));
        let error = snapshot_revision(written.as_bytes()).unwrap_err();
        assert!(matches!(error, SnapshotError::UnknownVersion { found } if found == version));
    }
}

#[test]
fn every_state_of_every_history_is_restored() {
    for run in histories() {
        let mut state = State::new(Arc::clone(&run.plan));
        for event in &run.events {
            state = evolve(state, event);
            let read = restore(Arc::clone(state.plan()), &snapshot(&state)).unwrap();
            assert_eq!(read, state, "after {}", event.fact.name());
        }
    }
    let mut cancelled = busy();
    cancelled.cancel(CancelMode::Stop);
    let read = restore(plan(BUSY), &snapshot(&cancelled.state)).unwrap();
    assert_eq!(read, cancelled.state);
}

#[test]
fn a_state_before_the_creation_is_restored() {
    let absent = Run::absent(BUSY).state;
    assert_eq!(restore(plan(BUSY), &snapshot(&absent)).unwrap(), absent);
}

#[test]
fn a_payload_as_deep_as_an_event_allows_is_restored() {
    let mut run = Run::started(BUSY);
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    run.ok(Verb::SendSignal {
        name: "go".into(),
        id: "m1".into(),
        payload: Arc::new(deep),
        by: "shop".into(),
    });
    let event = run.events.last().unwrap();
    stateway_machine::decode(&stateway_machine::encode(event)).unwrap();
    assert_eq!(
        restore(plan(BUSY), &snapshot(&run.state)).unwrap(),
        run.state
    );
}

#[test]
fn another_revision_is_refused_and_the_right_one_is_named() {
    let run = busy();
    let error = restore(plan("steps: [{name: z}]"), &snapshot(&run.state)).unwrap_err();
    assert!(matches!(error, SnapshotError::OtherRevision { .. }));
    let wanted = snapshot_revision(&snapshot(&run.state)).unwrap();
    assert_eq!(wanted, run.plan.revision());
}

#[test]
fn another_version_is_named() {
    let error = change(|written| {
        written["v"] = json!(SNAPSHOT_VERSION + 1);
        written["something"] = json!("new");
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "snapshot version 5 is unknown; this build reads version 4"
    );
}

#[test]
fn bytes_that_are_no_snapshot_are_refused() {
    for bytes in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"v":4}"#,
        &GOLDEN[..GOLDEN.len() / 2],
    ] {
        assert!(restore(plan(BUSY), bytes.as_bytes()).is_err(), "{bytes}");
    }
    let unknown = change(|written| written["head"]["more"] = json!(1)).unwrap_err();
    assert!(matches!(unknown, SnapshotError::Malformed(_)));
}

#[test]
fn an_inconsistent_snapshot_is_refused() {
    let edits: [(&str, Edit); 12] = [
        ("a step too few", |s| {
            drop(s["steps"].as_array_mut().unwrap().pop());
        }),
        ("an open step that does not exist", |s| {
            s["head"]["open"] = json!([99]);
        }),
        ("an unsorted list", |s| {
            s["head"]["open"].as_array_mut().unwrap().reverse();
        }),
        ("a step twice in a list", |s| {
            s["head"]["open"] = json!([1, 1]);
        }),
        ("nothing open", |s| s["head"]["open"] = json!([])),
        ("a ready step that is done", |s| {
            s["head"]["ready"] = json!([0]);
        }),
        ("a failed step that is done", |s| {
            s["head"]["unsettled"] = json!([0]);
        }),
        ("an escalated step that is done", |s| {
            s["head"]["escalated"] = json!([0]);
        }),
        ("too many waits", |s| {
            s["head"]["awaiting_signal"] = json!(7);
        }),
        ("too many steps left", |s| s["head"]["left"] = json!(700)),
        ("a ring of completions", |s| {
            s["steps"][0]["completed_before"] = json!(0);
        }),
        ("a signal from nowhere", |s| {
            s["waiting"] = json!([["go", "other", 1, "shop"]]);
        }),
    ];
    for (name, edit) in edits {
        let error = change(edit).expect_err(name);
        assert!(
            matches!(error, SnapshotError::Inconsistent(_)),
            "{name}: {error}"
        );
    }
}
