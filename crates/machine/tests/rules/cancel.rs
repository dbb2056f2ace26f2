//! Cancelling, by every way there is: the failure policy decides unless the caller does.

use stateway_machine::ExecutionState::{Cancelled, Cancelling, Compensating, Failed};
use stateway_machine::{
    CancelMode, Event, Fact, Rejection, Resolution, StepState, StepTimer, Task, TurnCause, Verb,
};
use stateway_model::ErrorCategory::{AgentError, Governance};

use super::rollback::{CHAIN, failed_at_d};
use crate::kit::Run;

fn policy(policy: &str) -> Run {
    let mut run = Run::started(&format!("failurePolicy: {policy}\n{CHAIN}"));
    run.done("a");
    run
}

fn cancel(mode: CancelMode) -> Verb {
    Verb::Cancel {
        mode,
        by: "bob".into(),
        comment: "".into(),
    }
}

#[test]
fn cancel_without_a_choice_follows_the_failure_policy() {
    let mut run = policy("abort");
    assert_eq!(run.cancel(CancelMode::Policy), ["ExecutionCancelled"]);
    assert_eq!(run.step("a"), StepState::Completed);
    let mut run = policy("compensate");
    assert_eq!(
        run.cancel(CancelMode::Policy),
        ["CompensationStarted", "StepCompensationStarted"]
    );
    run.done("a");
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "CANCELLED"));
}

#[test]
fn the_callers_choice_overrides_the_failure_policy() {
    let mut run = policy("compensate");
    assert_eq!(run.cancel(CancelMode::Stop), ["ExecutionCancelled"]);
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "CANCELLED"));
    assert_eq!(
        (run.step("a"), run.step("b")),
        (StepState::Completed, StepState::Cancelled)
    );
    assert_eq!(run.state.left_behind(), ["a".into()]);
    let mut run = policy("abort");
    run.cancel(CancelMode::Stop);
    assert!(
        run.state.left_behind().is_empty(),
        "nothing would compensate"
    );
    let mut run = policy("abort");
    assert_eq!(
        run.cancel(CancelMode::Compensate),
        ["CompensationStarted", "StepCompensationStarted"]
    );
}

#[test]
fn a_cancellation_that_compensates_records_who_and_why() {
    let mut run = policy("abort");
    run.cancel(CancelMode::Compensate);
    let why = TurnCause::Cancelled {
        by: "bob".into(),
        comment: "enough".into(),
        reason: None,
    };
    let turned = |event: &Event| matches!(&event.fact, Fact::CompensationStarted { cause, .. } if *cause == why);
    assert!(run.events.iter().any(turned));
    assert_eq!(run.done("a"), ["StepCompensated", "ExecutionCancelled"]);
    let cancellation = run.state.cancellation().unwrap();
    assert_eq!(
        (&*cancellation.by, &*cancellation.comment),
        ("bob", "enough")
    );
}

#[test]
fn an_execution_that_has_not_started_is_cancelled_without_compensation() {
    for mut run in [Run::created(CHAIN), Run::queued(CHAIN)] {
        assert_eq!(run.cancel(CancelMode::Compensate), ["ExecutionCancelled"]);
    }
}

#[test]
fn cancelling_again_changes_nothing() {
    let mut run = policy("compensate");
    run.assign("b", "w");
    run.cancel(CancelMode::Stop);
    assert_eq!(run.at(), Cancelling);
    for mode in [CancelMode::Policy, CancelMode::Stop, CancelMode::Compensate] {
        assert_eq!(run.ok(cancel(mode)), Vec::<&str>::new(), "{mode}");
    }
    run.done("b");
    assert_eq!(run.at(), Cancelled);
    for mode in CancelMode::ALL {
        assert_eq!(run.ok(cancel(*mode)), Vec::<&str>::new(), "{mode}");
    }

    let mut run = policy("compensate");
    run.cancel(CancelMode::Policy);
    assert_eq!(run.at(), Compensating);
    assert_eq!(run.ok(cancel(CancelMode::Policy)), Vec::<&str>::new());
}

#[test]
fn a_rollback_after_a_failure_cannot_be_cancelled_but_killed() {
    let mut run = failed_at_d(CHAIN);
    for mode in [CancelMode::Policy, CancelMode::Stop, CancelMode::Compensate] {
        assert_eq!(run.refused(cancel(mode)), Rejection::RollingBack);
    }
    run.cancel(CancelMode::Kill);
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "KILLED"));
    assert_eq!(
        run.state.left_behind(),
        ["c".into(), "b".into(), "a".into()]
    );
}

const GATE: &str = "steps: [{name: a}, {name: g, dependsOn: [a], approval: {role: boss, \
                    expiresAfter: 1h}}]\ncompensation: [{step: a}]";

fn at_gate(yaml: &str) -> Run {
    let mut run = Run::started(yaml);
    run.done("a");
    run
}

#[test]
fn a_rejected_approval_follows_the_failure_policy() {
    let mut run = at_gate(GATE);
    assert_eq!(
        run.vote("g", 1, false, "bob").unwrap(),
        ["ApprovalRejected", "ExecutionCancelled"]
    );
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "REJECTED"));
    assert_eq!(run.step("a"), StepState::Completed);
    let why = stateway_machine::not_retried(&run.state, "g");
    assert_eq!(why.as_deref(), Some("not retried: a person rejected it"));

    let mut run = at_gate(&format!("failurePolicy: compensate\n{GATE}"));
    assert_eq!(
        run.vote("g", 1, false, "bob").unwrap(),
        [
            "ApprovalRejected",
            "CompensationStarted",
            "StepCompensationStarted"
        ]
    );
    run.done("a");
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "REJECTED"));
    assert_eq!(run.step("a"), StepState::Compensated);
    let cancellation = run.state.cancellation().unwrap();
    assert_eq!(
        (&*cancellation.by, &*cancellation.comment),
        ("bob", "the approval `g` was rejected")
    );
}

#[test]
fn a_rejection_that_fails_the_step_follows_the_failure_policy_too() {
    let fails = GATE.replace("1h", "1h, onReject: fail");
    let mut run = at_gate(&fails);
    assert_eq!(
        run.vote("g", 1, false, "bob").unwrap(),
        ["ApprovalRejected", "ExecutionFailed"]
    );
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "REJECTED"));
    let mut run = at_gate(&format!("failurePolicy: compensate\n{fails}"));
    run.vote("g", 1, false, "bob").unwrap();
    assert_eq!(run.at(), Compensating);
}

#[test]
fn an_expiry_that_cancels_or_fails_follows_the_failure_policy() {
    for (word, end) in [("fail", Failed), ("cancel", Cancelled)] {
        let yaml = GATE.replace("1h", &format!("1h, onExpiry: {word}"));
        let mut run = at_gate(&yaml);
        run.fire("g", StepTimer::Expiry);
        assert_eq!(
            (run.at(), run.reason().as_str()),
            (end, "TIMED_OUT"),
            "{word}"
        );
        let mut run = at_gate(&format!("failurePolicy: compensate\n{yaml}"));
        run.fire("g", StepTimer::Expiry);
        assert_eq!(run.tasks(), [Task::undo("a", 1)], "{word}");
    }
}

fn escalated(policy: &str) -> Run {
    let yaml = format!(
        "failurePolicy: {policy}\nsteps: [{{name: a}}, {{name: b, dependsOn: [a]}}]\n\
         compensation: [{{step: a}}]"
    );
    let mut run = Run::started(&yaml);
    run.done("a");
    run.fail("b", Governance);
    run
}

#[test]
fn a_person_who_cancels_an_escalation_chooses_the_compensation() {
    for (policy, choice, last) in [
        ("abort", true, "StepCompensationStarted"),
        ("compensate", false, "ExecutionCancelled"),
    ] {
        let mut run = escalated(policy);
        let mut verb = run.resolution("b", Resolution::Cancel, "bob", &["operator"]);
        if let Verb::ResolveEscalation { compensate, .. } = &mut verb {
            *compensate = Some(choice);
        }
        assert_eq!(run.ok(verb).last(), Some(&last), "{policy}");
    }
}

#[test]
fn an_escalation_that_is_cancelled_follows_the_failure_policy() {
    let mut run = escalated("abort");
    assert_eq!(
        run.resolve("b", Resolution::Cancel),
        ["EscalationResolved", "ExecutionCancelled"]
    );
    let mut run = escalated("compensate");
    assert_eq!(
        run.resolve("b", Resolution::Cancel),
        [
            "EscalationResolved",
            "CompensationStarted",
            "StepCompensationStarted"
        ]
    );
    run.done("a");
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "CANCELLED"));
}

#[test]
fn every_way_of_cancelling_awaits_work_in_flight() {
    let yaml = "steps: [{name: g, approval: {role: boss}}, {name: busy}]";
    let mut run = Run::started(yaml);
    run.assign("busy", "w");
    assert_eq!(
        run.vote("g", 1, false, "bob").unwrap(),
        ["ApprovalRejected", "CancellationStarted"]
    );
    run.done("busy");
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "REJECTED"));
}

#[test]
fn a_failed_execution_gives_up_what_is_in_flight_without_waiting() {
    let mut run = Run::started("steps: [{name: a}, {name: busy}]");
    run.assign("busy", "w");
    run.fail("a", AgentError);
    assert_eq!((run.at(), run.step("busy")), (Failed, StepState::Cancelled));
}
