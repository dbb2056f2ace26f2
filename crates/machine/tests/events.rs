//! The form of the log: a golden file for each version, and what cannot be read.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use crate::kit;

use std::collections::BTreeSet;
use std::sync::Arc;

use kit::history::{EVERY_FACT, histories, long_history};
use kit::{Run, plan};
use serde_json::{Value, json};
use stateway_machine::{
    CancelMode, DecodeError, Event, EventHeader, ExecutionState, Fact, Failure, FailureCause,
    PauseCause, PolicyDecision, Redo, ReplayError, Resolution, SkipCause, Task, TurnCause, WaitFor,
    decode, decode_row, encode, encode_after, replay,
};
use stateway_model::ErrorCategory::Validation;
use stateway_model::{Fraction, Reason, Usage};

const VERSION_1: &str = include_str!("golden/events-v1.jsonl");
const VERSION_2: &str = include_str!("golden/events-v2.jsonl");

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

/// Every detail that a fact can have and that no history above has.
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
            no_retry: false,
            effects_unknown: false,
            retry_after: None,
        },
    };
    let skipped = |cause| Fact::StepSkipped {
        step: step(),
        cause,
    };
    let turned = |cause| Fact::CompensationStarted {
        cause,
        message: "".into(),
        awaited: Vec::new(),
    };
    let mut facts = vec![
        skipped(SkipCause::Condition),
        skipped(SkipCause::Upstream("b".into())),
        skipped(SkipCause::Failure),
        turned(TurnCause::StepFailed {
            step: step(),
            reason: Reason::RetriesExhausted,
        }),
        turned(TurnCause::TimedOut),
        turned(TurnCause::OutputTooLarge),
        turned(TurnCause::Cancelled {
            by: "bob".into(),
            comment: "enough".into(),
            reason: None,
        }),
        turned(TurnCause::Cancelled {
            by: "bob".into(),
            comment: "enough".into(),
            reason: Some(Reason::Rejected),
        }),
        Fact::CompensationStarted {
            cause: TurnCause::TimedOut,
            message: "the execution took longer than its timeout of 10m".into(),
            awaited: vec![step()],
        },
        Fact::CancellationStarted {
            by: "bob".into(),
            reason: Reason::Rejected,
            comment: "no".into(),
            awaited: vec![step()],
        },
        Fact::ExecutionFailed {
            step: None,
            reason: Reason::TimedOut,
            message: "the execution took longer than its timeout of 10m".into(),
            left: vec![step()],
        },
        Fact::ExecutionRolledBack {
            reason: Reason::RolledBack,
            left: vec![step()],
        },
        Fact::ExecutionCancelled {
            by: "bob".into(),
            reason: Reason::Killed,
            comment: "".into(),
            left: vec![step()],
        },
        Fact::OutcomeUnknown {
            step: step(),
            attempt: 1,
            compensate: false,
        },
        Fact::PolicyDecided {
            task: Task::of("a", 1),
            rule: "spending".into(),
            decision: PolicyDecision::Allow,
        },
        Fact::PolicyDecided {
            task: Task::of("a", 1),
            rule: "spending".into(),
            decision: PolicyDecision::Deny {
                message: "too expensive".into(),
            },
        },
        Fact::PolicyDecided {
            task: Task::of("a", 1),
            rule: "spending".into(),
            decision: PolicyDecision::RequireApproval {
                role: "boss".into(),
                due: None,
            },
        },
        Fact::AttemptFailed {
            step: step(),
            attempt: 1,
            failure: Failure {
                no_retry: true,
                effects_unknown: true,
                retry_after: Some(std::time::Duration::from_millis(1_500)),
                ..Failure::reported(Validation, "broke")
            },
        },
        Fact::ExecutionReopened {
            by: "bob".into(),
            from: ExecutionState::RolledBack,
        },
        Fact::ExecutionPaused {
            cause: PauseCause::RevisionMismatch {
                offered: "r2".into(),
                conflicts: vec!["step `a` has begun".into()],
            },
        },
        Fact::EscalationResolved {
            step: step(),
            attempt: 2,
            resolution: Resolution::Cancel,
            by: "bob".into(),
            comment: "no".into(),
        },
        Fact::ExecutionCreated {
            execution: "parent~call~1~b1".into(),
            branch: 0,
            revision: "r1".into(),
            initiator: "ada".into(),
            input: Arc::new(Value::Null),
            redone_by: vec!["bob".into()],
        },
        Fact::TaskAssigned {
            task: Task::of("a", 1),
            worker: "worker-1f3a".into(),
            identity: "bob@example.org".into(),
            due: None,
            heartbeat_due: None,
        },
        Fact::TaskReleased {
            task: Task::undo("a", 1),
            lost: true,
            queue_due: Some(jiff::Timestamp::UNIX_EPOCH),
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
        spent: Usage::default(),
        spent_by_step: std::collections::BTreeMap::new(),
    }));
    let event = |fact| Event {
        sequence: 1,
        at: jiff::Timestamp::UNIX_EPOCH,
        causation: "c1".into(),
        cause: None,
        actor: "".into(),
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

fn read(golden: &str) -> Vec<Event> {
    let lines = golden.lines();
    lines.map(|line| decode(line.as_bytes()).unwrap()).collect()
}

fn names(events: &[Event]) -> BTreeSet<&'static str> {
    events.iter().map(|event| event.fact.name()).collect()
}

#[test]
fn version_2_is_written_as_it_always_was() {
    let mut events: Vec<Event> = histories().into_iter().flat_map(|run| run.events).collect();
    events.extend(endings());
    events.extend(details());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/events-v2.jsonl");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, lines(&events)).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), lines(&events));
}

#[test]
fn version_2_is_read_and_holds_every_fact() {
    let events = read(VERSION_2);
    assert_eq!(lines(&events), VERSION_2);
    assert_eq!(names(&events).len(), 40, "{:?}", names(&events));
}

/// The file was written by a build that knew only version 1. It never changes.
#[test]
fn version_1_is_still_read_and_holds_every_fact_that_it_knew() {
    let events = read(VERSION_1);
    assert!(VERSION_1.lines().all(|line| line.starts_with("{\"v\":1,")));
    assert_eq!(names(&events).len(), 35, "{:?}", names(&events));
    for event in &events {
        assert_eq!((event.cause, &*event.actor), (None, ""));
    }
}

#[test]
fn an_event_of_version_1_is_written_again_as_version_2_and_means_the_same() {
    for (line, event) in VERSION_1.lines().zip(read(VERSION_1)) {
        let written = String::from_utf8(encode(&event)).unwrap();
        let version_2 = line.replacen("{\"v\":1,", "{\"v\":2,", 1);
        assert_eq!(written, version_2);
        assert_eq!(decode(written.as_bytes()).unwrap(), event);
    }
}

#[test]
fn the_history_of_version_1_replays_to_the_state_it_led_to() {
    let whole = read(VERSION_1);
    let events: Vec<&Event> = (1..)
        .zip(&whole)
        .take_while(|(sequence, event)| event.sequence == *sequence)
        .map(|(_, event)| event)
        .collect();
    assert_eq!(events.len(), 45);
    let state = replay(plan(EVERY_FACT), events).unwrap();
    assert_eq!(state.state(), ExecutionState::RolledBack);
    let steps: Vec<_> = state
        .step_states()
        .map(|(step, state)| format!("{step} {state}"))
        .collect();
    assert_eq!(
        steps,
        [
            "a compensated",
            "opt skipped",
            "s completed",
            "g completed",
            "risky completed",
            "g2 failed",
            "later pending"
        ]
    );
}

#[test]
fn a_history_that_was_read_leads_to_the_state_that_was_recorded() {
    for run in histories() {
        let read: Vec<Event> = run
            .events
            .iter()
            .map(|event| decode(&encode(event)).unwrap())
            .collect();
        assert_eq!(replay(Arc::clone(&run.plan), &read).unwrap(), run.state);
    }
}

#[test]
fn an_unknown_version_is_named() {
    let first = encode(&long_history().events[0]);
    let mut newer: Value = serde_json::from_slice(&first).unwrap();
    newer["v"] = json!(4);
    newer["something"] = json!("new");
    let error = decode(newer.to_string().as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "event version 4 is unknown; this build reads versions 1 to 3"
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

const VERSION_3: &str = include_str!("golden/events-v3.jsonl");

/// The events of a history as one row of a log: the first whole, the others short.
fn row(events: &[Event]) -> String {
    let (mut bytes, mut before) = (Vec::new(), None);
    for event in events {
        encode_after(before.as_ref(), event, &mut bytes);
        bytes.push(b'\n');
        before = Some(EventHeader::from(event));
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_row_of_short_events_is_read_as_it_was_written() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    run.done("a");
    let written = row(&run.events);
    assert_eq!(written, VERSION_3);
    assert_eq!(decode_row(written.as_bytes()).unwrap(), run.events);
    for history in histories() {
        let written = row(&history.events);
        assert_eq!(decode_row(written.as_bytes()).unwrap(), history.events);
    }
}

#[test]
fn what_differs_from_the_event_before_is_written() {
    let mut run = Run::started("steps: [{name: a}]");
    let mut next = run.events.last().unwrap().clone();
    next.sequence += 1;
    (next.cause, next.actor) = (None, "".into());
    next.causation = "other".into();
    run.events.push(next.clone());
    // Not the next one: written whole.
    next.sequence += 7;
    run.events.push(next);
    let written = row(&run.events);
    assert_eq!(decode_row(written.as_bytes()).unwrap(), run.events);
    assert!(written.lines().last().unwrap().starts_with(r#"{"v":2"#));
}

#[test]
fn a_short_event_without_the_one_before_is_refused() {
    let short = VERSION_3.lines().nth(1).unwrap();
    assert!(matches!(
        decode(short.as_bytes()),
        Err(DecodeError::NothingBefore)
    ));
    let (nth, error) = decode_row(short.as_bytes()).unwrap_err();
    assert!(nth == 0 && matches!(error, DecodeError::NothingBefore));
}
