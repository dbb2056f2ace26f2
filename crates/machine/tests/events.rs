//! The log's own form: a golden file for version 1, and what cannot be read.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod kit;

use std::collections::BTreeSet;
use std::sync::Arc;

use kit::history::long_history;
use kit::{Run, plan};
use serde_json::{Value, json};
use stateway_machine::{
    CancelMode, DecodeError, Event, Fact, Failure, FailureCause, PauseCause, Redo, ReplayError,
    Resolution, SkipCause, Task, TurnCause, WaitFor, decode, encode, replay,
};
use stateway_model::ErrorCategory::Validation;
use stateway_model::{Fraction, Reason, Usage};

fn endings() -> Vec<Event> {
    let mut done = Run::started("steps: [{name: a}]");
    done.done("a");
    let mut failed = Run::started("steps: [{name: a}]");
    failed.fail("a", Validation);
    let mut cancelled = Run::started("steps: [{name: a}]");
    cancelled.cancel(CancelMode::Kill);
    [done, failed, cancelled]
        .iter()
        .map(|run| run.events.last().unwrap().clone())
        .collect()
}

/// Every detail that a fact can have and that no history above has: their words are kept too.
fn details() -> Vec<Event> {
    let step = || Arc::<str>::from("a");
    let wait = |wait| Fact::StepWaiting {
        step: step(),
        attempt: 1,
        wait,
        due: None,
    };
    let failed = |cause| Fact::AttemptFailed {
        step: step(),
        attempt: 1,
        failure: Failure {
            category: Validation,
            cause,
            message: "broke".into(),
            code: "E1".into(),
            retry_after: None,
        },
    };
    let skipped = |cause| Fact::StepSkipped {
        step: step(),
        cause,
    };
    let turned = |cause| Fact::CompensationStarted { cause };
    let mut facts = vec![
        skipped(SkipCause::Condition),
        skipped(SkipCause::Upstream("b".into())),
        skipped(SkipCause::Failure),
        turned(TurnCause::StepFailed {
            step: step(),
            reason: Reason::RetriesExhausted,
        }),
        turned(TurnCause::TimedOut),
        turned(TurnCause::Cancelled {
            by: "bob".into(),
            comment: "enough".into(),
        }),
        Fact::ExecutionPaused {
            cause: PauseCause::RevisionMismatch {
                offered: "r2".into(),
                conflicts: vec!["step `a` has begun".into()],
            },
        },
        Fact::EscalationResolved {
            step: step(),
            resolution: Resolution::Cancel,
            by: "bob".into(),
            comment: "no".into(),
        },
        Fact::TaskReleased {
            task: Task::undo("a", 1),
        },
        Fact::ProgressReported {
            step: step(),
            attempt: 1,
            progress: Fraction::new(0.25).unwrap(),
            detail: "reading".into(),
        },
        Fact::ProgressReported {
            step: step(),
            attempt: 1,
            progress: Fraction::new(1.0).unwrap(),
            detail: "".into(),
        },
        Fact::UsageReported {
            task: Task::of("a", 1),
            usage: Usage {
                input_tokens: 1_200,
                output_tokens: 300,
                cost_micros: 4_500,
            },
        },
        Fact::UsageReported {
            task: Task::undo("a", 2),
            usage: Usage {
                cost_micros: u64::MAX,
                ..Usage::default()
            },
        },
    ];
    let waits = [WaitFor::Timer, WaitFor::Child("c".into()), WaitFor::Person];
    facts.extend(waits.into_iter().map(wait));
    facts.extend(FailureCause::ALL.iter().copied().map(failed));
    facts.extend(
        [Vec::new(), vec![step()]].map(|again| Fact::ExecutionRecovered {
            reason: "A1: the row waits for a person".into(),
            from: 0,
            branch: 1,
            cutoff: 9,
            left: again.iter().map(|_| 17).collect(),
            again,
            by: "bob".into(),
        }),
    );
    let redos = [
        Redo::from("a"),
        Redo {
            input: Some(Arc::new(Value::Null)),
            ..Redo::from("a")
        },
        Redo {
            input: Some(Arc::new(json!({"n": 2}))),
            feedback: "shorter".into(),
            ..Redo::from("a")
        },
    ];
    facts.extend(redos.map(|redo| Fact::BranchOpened {
        branch: 1,
        parent: 0,
        cutoff: 9,
        by: "bob".into(),
        redo: Some(Box::new(redo)),
    }));
    let event = |fact| Event {
        sequence: 1,
        at: jiff::Timestamp::UNIX_EPOCH,
        causation: "c1".into(),
        correlation: "order-7".into(),
        fact,
    };
    facts.into_iter().map(event).collect()
}

fn lines(events: &[Event]) -> String {
    events
        .iter()
        .map(|event| String::from_utf8(encode(event)).unwrap() + "\n")
        .collect()
}

#[test]
fn version_1_is_written_as_it_always_was() {
    let mut events = long_history().events;
    events.extend(endings());
    events.extend(details());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/events-v1.jsonl");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, lines(&events)).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), lines(&events));
}

#[test]
fn version_1_is_read_and_holds_every_fact() {
    let golden = include_str!("golden/events-v1.jsonl");
    let events: Vec<Event> = golden
        .lines()
        .map(|line| decode(line.as_bytes()).unwrap())
        .collect();
    assert_eq!(lines(&events), golden);
    let names: BTreeSet<&str> = events.iter().map(|event| event.fact.name()).collect();
    assert_eq!(names.len(), 35, "{names:?}");
}

#[test]
fn a_history_that_was_read_leads_to_the_state_that_was_lived() {
    let run = long_history();
    let read: Vec<Event> = run
        .events
        .iter()
        .map(|event| decode(&encode(event)).unwrap())
        .collect();
    assert_eq!(replay(Arc::clone(&run.plan), &read).unwrap(), run.state);
}

#[test]
fn every_event_names_its_cause_and_its_correlation() {
    let run = long_history();
    for event in &run.events {
        assert!(event.causation.starts_with('c'));
        assert_eq!(&*event.correlation, "order-7");
    }
    let causes: Vec<_> = run
        .events
        .iter()
        .take(4)
        .map(|event| &*event.causation)
        .collect();
    assert_eq!(causes, ["c1", "c2", "c3", "c3"]);
}

#[test]
fn an_unknown_version_is_named() {
    let first = encode(&long_history().events[0]);
    let mut newer: Value = serde_json::from_slice(&first).unwrap();
    newer["v"] = json!(2);
    newer["something"] = json!("new");
    let error = decode(newer.to_string().as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event version 2 is unknown; this build reads version 1"
    );
}

#[test]
fn unknown_fields_and_facts_are_refused() {
    let first = encode(&long_history().events[1]);
    let mut extra: Value = serde_json::from_slice(&first).unwrap();
    extra["fact"]["ExecutionQueued"]["more"] = json!(1);
    assert!(matches!(
        decode(extra.to_string().as_bytes()),
        Err(DecodeError::Malformed(_))
    ));
    extra["fact"] = json!({"ExecutionDreamt": {}});
    assert!(matches!(
        decode(extra.to_string().as_bytes()),
        Err(DecodeError::Malformed(_))
    ));
}

#[test]
fn a_log_with_a_gap_or_of_another_revision_is_refused() {
    let run = long_history();
    let gap: Vec<&Event> = run
        .events
        .iter()
        .skip_while(|event| event.sequence == 1)
        .collect();
    assert_eq!(
        replay(Arc::clone(&run.plan), gap).unwrap_err(),
        ReplayError::Gap {
            expected: 1,
            found: 2
        }
    );
    let other = replay(plan("steps: [{name: z}]"), &run.events).unwrap_err();
    assert!(matches!(other, ReplayError::OtherRevision { .. }));
}
