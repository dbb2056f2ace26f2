//! Every event names the command that led to it, the event that caused it, who acted, and the
//! correlation it belongs to.

use serde_json::json;
use stateway_machine::{PolicyDecision, Resolution, StepTimer, Task, Verb};
use stateway_model::ErrorCategory::{AgentError, Governance, Transient};

use crate::kit::Run;
use crate::kit::history::long_history;

/// Name, cause and actor of each event since a place in the log.
fn since(run: &Run, sequence: usize) -> Vec<(&'static str, Option<u64>, &str)> {
    let each = run.events[sequence..].iter();
    each.map(|event| (event.fact.name(), event.cause, &*event.actor))
        .collect()
}

#[test]
fn every_event_names_its_command_and_its_correlation() {
    let run = long_history();
    for event in &run.events {
        assert!(event.causation.starts_with('c'));
        assert_eq!(&*event.correlation, "order-7");
    }
    let commands: Vec<_> = run.events.iter().take(4).map(|e| &*e.causation).collect();
    assert_eq!(commands, ["c1", "c2", "c3", "c3"]);
}

#[test]
fn a_cause_comes_before_its_effect() {
    for event in &long_history().events {
        let cause = event.cause.unwrap_or(0);
        assert!(cause < event.sequence, "{event:?}");
    }
}

#[test]
fn only_what_a_person_or_a_caller_does_has_no_cause() {
    for event in &long_history().events {
        if event.cause.is_none() {
            assert!(!event.actor.is_empty(), "{event:?}");
        }
    }
}

#[test]
fn starting_an_execution_is_a_chain_of_causes() {
    let run = Run::started("steps: [{name: a}, {name: b}]");
    assert_eq!(
        since(&run, 0),
        [
            ("ExecutionCreated", None, "ada"),
            ("ExecutionQueued", None, "ada"),
            ("ExecutionStarted", Some(2), ""),
            ("StepStarted", Some(3), ""),
            ("StepStarted", Some(3), ""),
        ]
    );
}

#[test]
fn what_a_worker_does_is_caused_by_the_newest_event_of_the_step() {
    let mut run = Run::started("steps: [{name: a}, {name: z}]");
    run.assign("z", "w2");
    run.assign("a", "w1");
    run.complete("a", json!({}));
    assert_eq!(
        since(&run, 5),
        [
            ("TaskAssigned", Some(5), "w2"),
            ("TaskAssigned", Some(4), "w1"),
            ("StepCompleted", Some(7), "w1"),
        ]
    );
}

#[test]
fn a_step_is_caused_by_its_last_dependency_to_settle() {
    let mut run = Run::started("steps: [{name: a}, {name: b}, {name: c, dependsOn: [a, b]}]");
    run.done("b");
    run.done("a");
    assert_eq!(
        since(&run, 5),
        [
            ("StepCompleted", Some(5), ""),
            ("StepCompleted", Some(4), ""),
            ("StepStarted", Some(7), ""),
        ]
    );
}

#[test]
fn a_retry_is_caused_by_its_schedule_and_that_by_the_failure() {
    let mut run = Run::started("steps: [{name: a}]");
    run.assign("a", "w");
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    assert_eq!(
        since(&run, 5),
        [
            ("AttemptFailed", Some(5), "w"),
            ("RetryScheduled", Some(6), "w"),
            ("StepStarted", Some(7), ""),
        ]
    );
}

#[test]
fn a_rollback_is_a_chain_from_the_failure_to_the_end() {
    let yaml = "steps: [{name: a}, {name: b, dependsOn: [a], onFailure: compensate}]\n\
                compensation: [{step: a}]";
    let mut run = Run::started(yaml);
    run.done("a");
    run.fail("b", AgentError);
    run.assign("a", "undoer");
    run.done("a");
    assert_eq!(
        since(&run, 6),
        [
            ("AttemptFailed", Some(6), ""),
            ("CompensationStarted", Some(7), ""),
            ("StepCompensationStarted", Some(8), ""),
            ("TaskAssigned", Some(9), "undoer"),
            ("StepCompensated", Some(10), "undoer"),
            ("ExecutionRolledBack", Some(11), "undoer"),
        ]
    );
}

#[test]
fn what_a_person_decides_has_no_cause_and_names_the_person() {
    let mut run = Run::started("steps: [{name: a}, {name: g, approval: {role: boss}}]");
    run.vote("g", 1, true, "eve").unwrap();
    run.pause();
    run.resume();
    run.fail("a", Governance);
    run.resolve("a", Resolution::Resume);
    run.fail("a", Transient);
    run.ok(Verb::RetryNow {
        step: "a".into(),
        by: "eve".into(),
    });
    let people: Vec<_> = since(&run, 5)
        .into_iter()
        .filter(|(_, _, actor)| !actor.is_empty())
        .collect();
    assert_eq!(
        people,
        [
            ("ApprovalGranted", None, "eve"),
            ("StepCompleted", Some(6), "eve"),
            ("ExecutionPaused", None, "bob"),
            ("ExecutionResumed", None, "bob"),
            ("EscalationResolved", None, "bob"),
            ("StepStarted", Some(12), "bob"),
            ("StepStarted", None, "eve"),
        ]
    );
}

#[test]
fn a_lost_worker_does_not_act() {
    let mut run = Run::started("steps: [{name: a}]");
    run.assign("a", "w");
    run.lose("a");
    assert_eq!(since(&run, 5), [("TaskReleased", Some(5), "")]);
    run.assign("a", "w");
    run.release("a");
    assert_eq!(since(&run, 7), [("TaskReleased", Some(7), "w")]);
}

#[test]
fn a_policy_decision_is_the_engines_and_caused_by_the_attempt() {
    let mut run = Run::started("steps: [{name: a}]");
    run.ok(Verb::DecidePolicy {
        task: Task::of("a", 1),
        rule: "r".into(),
        decision: PolicyDecision::Allow,
    });
    assert_eq!(since(&run, 4), [("PolicyDecided", Some(4), "")]);
}
