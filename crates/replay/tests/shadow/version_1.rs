//! Logs of version 1 in a shadow.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stateway_machine::{Data, Event, Fact, Failure, FailureCause, Plan, SkipCause, Task, decode};
use stateway_model::ErrorCategory::Timeout;
use stateway_replay::rederive;

use super::differences;
use crate::kit::Run;

/// A log of version 1: the time of an attempt counted from its start, and a silent worker failed it.
fn version_1(run: &Run, ends: Failure) -> Vec<Event> {
    let mut events = run.events.clone();
    let last = events.last_mut().unwrap();
    let Fact::StepStarted {
        due, heartbeat_due, ..
    } = &mut last.fact
    else {
        panic!("the log ends with {:?}", last.fact);
    };
    let later = run.now + Duration::from_secs(60);
    (*due, *heartbeat_due) = (Some(later), Some(later));
    let taken = Fact::TaskAssigned {
        task: Task::of("a", 1),
        worker: "w1".into(),
        identity: "".into(),
        due: None,
        heartbeat_due: None,
    };
    let failed = Fact::AttemptFailed {
        step: "a".into(),
        attempt: 1,
        failure: ends,
    };
    let skipped = Fact::StepSkipped {
        step: "a".into(),
        cause: SkipCause::Failure,
    };
    let output = Data::new(json!({}));
    let end = Fact::ExecutionCompleted { output };
    let after = [(30, taken), (62, failed), (62, skipped), (62, end)];
    for (seconds, fact) in after {
        let first = events[0].clone();
        events.push(Event {
            sequence: events.len() as u64 + 1,
            at: run.now + Duration::from_secs(seconds),
            fact,
            ..first
        });
    }
    events
}

#[test]
fn what_version_1_counted_from_the_start_of_an_attempt_is_replayed_as_its_answer() {
    let source = "name: one\nsteps: [{name: a, timeout: 1m, heartbeatTimeout: 1m, \
                  onFailure: skip}]";
    let run = Run::started(source);
    for cause in [FailureCause::TimedOut, FailureCause::WentSilent] {
        let failure = Failure {
            cause,
            ..Failure::reported(Timeout, "too long")
        };
        let events = version_1(&run, failure);
        let same = rederive(&run.plan, &events, &run.plan).unwrap();
        assert_eq!(differences(&same), [""; 0], "{cause}");
        let failed = |event: &&Event| matches!(event.fact, Fact::AttemptFailed { .. });
        let at = |events: &[Event]| events.iter().find(failed).map(|event| event.at);
        assert_eq!(at(&same.events), at(&events), "{cause}");
    }
}

/// Random executions that the build of version 1 recorded.
fn worlds() -> Vec<(Arc<Plan>, Vec<Event>)> {
    let mut found: Vec<(Arc<Plan>, Vec<Event>)> = Vec::new();
    for line in include_str!("../../../machine/tests/golden/worlds-v1.jsonl").lines() {
        if line.starts_with("{\"v\":") {
            let (_, events) = found.last_mut().unwrap();
            events.push(decode(line.as_bytes()).unwrap());
        } else if line.starts_with("{\"definition\":") {
            let mut value: Value = serde_json::from_str(line).unwrap();
            let definition = serde_json::from_value(value["definition"].take()).unwrap();
            found.push((Arc::new(Plan::new(definition).unwrap()), Vec::new()));
        }
    }
    found
}

/// Version 1 did not wait for work in flight before it compensated, and gave a compensation up at its
/// first failure.
#[test]
fn random_logs_of_version_1_come_out_as_recorded_but_for_the_new_rules_of_rollback() {
    let worlds = worlds();
    let differ = worlds
        .iter()
        .enumerate()
        .filter_map(|(at, (plan, events))| {
            let found = rederive(plan, events, plan).unwrap();
            Some((at, differences(&found).into_iter().next()?))
        });
    let expected = [
        (
            6,
            "path @15 s1: compensation, attempt 1, compensated | nothing more",
        ),
        (
            8,
            "path @29 s0: compensation failed | compensation failed, again after 1s, \
             compensation, attempt 2",
        ),
        (
            16,
            "path @14 s2: compensation failed | compensation failed, again after 1s, \
             compensation, attempt 2",
        ),
    ];
    let expected = expected.map(|(at, line)| (at, line.to_owned()));
    assert_eq!(differ.collect::<Vec<_>>(), expected);
    assert_eq!(worlds.len(), 20);
}
