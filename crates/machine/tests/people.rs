//! Signals, approvals, escalations, pauses, and definitions that change.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod kit;

use std::sync::Arc;
use std::time::Duration;

use kit::{Run, plan};
use serde_json::json;
use stateway_machine::ExecutionState::{
    AwaitingApproval, AwaitingSignal, Cancelled, Completed, Escalated, Failed, Paused, Running,
};
use stateway_machine::{
    Rejection, Resolution, StepState, StepTimer, Task, Verb, WaitFor, obligations, sub_state,
};
use stateway_model::ErrorCategory::{AgentError, Governance, Transient};
use stateway_model::SubState;

const SIGNALS: &str = "steps: [{name: a}, {name: s, dependsOn: [a], signal: paid}, {name: t, \
                       dependsOn: [s], signal: paid}]";
const GATE: &str = "steps: [{name: g, approval: {role: boss, expiresAfter: 1h}}]";

#[test]
fn an_execution_whose_steps_all_wait_is_awaiting() {
    let mut run = Run::started(SIGNALS);
    run.done("a");
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (AwaitingSignal, SubState::Waiting)
    );
    assert_eq!(Run::started(GATE).at(), AwaitingApproval);
}

#[test]
fn signals_that_come_early_are_kept_and_given_in_order() {
    let mut run = Run::started(SIGNALS);
    assert_eq!(run.signal("paid", "m1"), Ok(vec!["SignalReceived"]));
    assert_eq!(run.signal("paid", "m2"), Ok(vec!["SignalReceived"]));
    run.done("a");
    assert_eq!(run.at(), Completed);
    assert_eq!(**run.state.output().unwrap(), json!({"t": {"from": "m2"}}));
}

#[test]
fn a_signal_is_taken_once() {
    let mut run = Run::started(SIGNALS);
    run.done("a");
    run.signal("paid", "m1").unwrap();
    assert_eq!(
        (run.step("s"), run.step("t")),
        (StepState::Completed, StepState::Waiting)
    );
    assert_eq!(run.signal("paid", "m1"), Ok(vec![]));
    assert_eq!(run.step("t"), StepState::Waiting);
}

#[test]
fn stale_and_unknown_signals_are_refused() {
    let mut run = Run::started(SIGNALS);
    assert_eq!(
        run.signal("payed", "m"),
        Err(Rejection::UnknownSignal {
            name: "payed".into()
        })
    );
    run.signal("paid", "m1").unwrap();
    run.signal("paid", "m2").unwrap();
    assert_eq!(
        run.signal("paid", "m3"),
        Err(Rejection::StaleSignal {
            name: "paid".into()
        })
    );
    run.done("a");
    assert_eq!(
        run.signal("paid", "m4"),
        Err(Rejection::AlreadyFinished { state: Completed })
    );
}

#[test]
fn a_signal_that_does_not_come_fails_the_step() {
    let mut run = Run::started("steps: [{name: s, signal: go, timeout: 5m}]");
    assert_eq!(
        run.fire("s", StepTimer::Timeout),
        ["AttemptFailed", "ExecutionFailed"]
    );
    assert_eq!(run.at(), Failed);
}

/// Nobody answers for a signal, so there is nobody to correct it: no worker may be asked.
#[test]
fn a_payload_is_not_judged_and_no_worker_is_asked_to_correct_it() {
    let yaml = "steps: [{name: s, signal: go, outputSchema: {type: string}, \
                maxCorrectionAttempts: 2}, {name: g, approval: {role: boss}, outputSchema: {type: \
                string}, maxCorrectionAttempts: 2}]";
    let mut run = Run::started(yaml);
    run.signal("go", "m").unwrap();
    run.vote("g", 1, true, "bob").unwrap();
    assert_eq!(run.tasks(), []);
    assert_eq!(run.at(), Completed);
}

#[test]
fn a_sleep_ends_by_itself() {
    let mut run = Run::started("steps: [{name: z, sleep: 10m}]");
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (Running, SubState::Waiting)
    );
    assert_eq!(
        run.fire("z", StepTimer::Sleep),
        ["StepCompleted", "ExecutionCompleted"]
    );
}

#[test]
fn an_approval_needs_the_role_and_another_person() {
    let mut run = Run::started(GATE);
    assert_eq!(
        run.vote("g", 1, true, "ada"),
        Err(Rejection::SelfApproval { by: "ada".into() })
    );
    let without = Verb::DecideApproval {
        step: "g".into(),
        attempt: 1,
        grant: true,
        by: "bob".into(),
        roles: vec!["clerk".into()],
        comment: "".into(),
    };
    let rejection = run.refused(without);
    assert_eq!(
        rejection,
        Rejection::RoleRequired {
            step: "g".into(),
            role: "boss".into()
        }
    );
    let granted = vec!["ApprovalGranted", "StepCompleted", "ExecutionCompleted"];
    assert_eq!(run.vote("g", 1, true, "bob"), Ok(granted));
}

#[test]
fn the_first_decision_stands_and_its_repetition_is_no_news() {
    let mut run = Run::started(&format!("{GATE}\n").replace("]", ", {name: b}]"));
    run.vote("g", 1, true, "bob").unwrap();
    assert_eq!(run.vote("g", 1, true, "bob"), Ok(vec![]));
    let decided = Rejection::AlreadyDecided {
        step: "g".into(),
        by: "bob".into(),
    };
    assert_eq!(run.vote("g", 1, false, "eve"), Err(decided));
}

#[test]
fn a_rejection_cancels_unless_the_step_says_fail() {
    let mut run = Run::started(GATE);
    let events = run.vote("g", 1, false, "bob").unwrap();
    assert_eq!(events, ["ApprovalRejected", "ExecutionCancelled"]);
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "REJECTED"));

    let mut run = Run::started("steps: [{name: g, approval: {role: boss, onReject: fail}}]");
    assert_eq!(
        run.vote("g", 1, false, "bob").unwrap(),
        ["ApprovalRejected", "ExecutionFailed"]
    );
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "REJECTED"));
}

#[test]
fn an_approval_that_expires_is_never_given_but_escalated() {
    let mut run = Run::started(GATE);
    assert_eq!(
        run.fire("g", StepTimer::Expiry),
        ["ApprovalExpired", "ExecutionEscalated"]
    );
    assert_eq!(run.at(), Escalated);
    let stale = Rejection::StaleApproval {
        step: "g".into(),
        attempt: 1,
    };
    assert_eq!(run.vote("g", 1, true, "bob"), Err(stale));
}

#[test]
fn a_decision_after_the_expiry_is_refused_however_late_the_timer_is() {
    let mut run = Run::started(GATE);
    run.wait(Duration::from_secs(3600));
    let expired = Rejection::ApprovalExpired { step: "g".into() };
    assert_eq!(run.vote("g", 1, true, "bob"), Err(expired.clone()));
    assert_eq!(run.vote("g", 1, false, "bob"), Err(expired));
    run.fire("g", StepTimer::Expiry);
    assert_eq!(run.at(), Escalated);
}

#[test]
fn an_expired_approval_is_asked_for_again_when_a_person_resumes() {
    let mut run = Run::started(GATE);
    run.fire("g", StepTimer::Expiry);
    assert_eq!(
        run.resolve("g", Resolution::Resume),
        ["EscalationResolved", "StepWaiting"]
    );
    let stale = Rejection::StaleApproval {
        step: "g".into(),
        attempt: 1,
    };
    assert_eq!(
        run.vote("g", 1, true, "bob"),
        Err(stale),
        "the old request stays over"
    );
    run.vote("g", 2, true, "bob").unwrap();
    assert_eq!(run.at(), Completed);
}

#[test]
fn expiry_can_fail_or_cancel() {
    for (word, end) in [("fail", Failed), ("cancel", Cancelled)] {
        let yaml = GATE.replace("1h", &format!("1h, onExpiry: {word}"));
        let mut run = Run::started(&yaml);
        run.fire("g", StepTimer::Expiry);
        assert_eq!(
            (run.at(), run.reason().as_str()),
            (end, "TIMED_OUT"),
            "{word}"
        );
    }
}

#[test]
fn a_person_resumes_reassigns_or_cancels_what_is_escalated() {
    let escalated = || {
        let mut run = Run::started("steps: [{name: a, agent: clerk}, {name: b}]");
        run.fail("a", Governance);
        run
    };
    let mut run = escalated();
    run.resolve("a", Resolution::Resume);
    assert_eq!((run.at(), run.task("a")), (Running, Task::of("a", 2)));

    let mut run = escalated();
    run.resolve(
        "a",
        Resolution::Reassign {
            role: "chief".into(),
        },
    );
    let role = obligations(&run.state)
        .into_iter()
        .find_map(|obligation| match obligation {
            stateway_machine::Obligation::Task(order) if &*order.key.task.step == "a" => {
                Some(order.role)
            }
            _ => None,
        });
    assert_eq!(role.as_deref(), Some("chief"));

    let mut run = escalated();
    let events = run.resolve("a", Resolution::Cancel);
    assert_eq!(events, ["EscalationResolved", "ExecutionCancelled"]);

    let mut run = escalated();
    let resolution = Resolution::Resume;
    let (by, comment) = ("bob".into(), "".into());
    let other = Verb::ResolveEscalation {
        step: "b".into(),
        resolution,
        by,
        comment,
    };
    assert_eq!(
        run.refused(other),
        Rejection::NotEscalated { step: "b".into() }
    );
}

#[test]
fn what_was_under_way_is_recorded_while_held_and_nothing_new_begins() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    run.pause();
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (Paused, SubState::Waiting)
    );
    assert_eq!(run.done("a"), ["StepCompleted"]);
    assert_eq!(run.at(), Paused);
    assert_eq!(run.resume(), ["ExecutionResumed", "StepStarted"]);
}

#[test]
fn a_failure_while_held_has_its_consequence_when_resumed() {
    let mut run = Run::started("steps: [{name: a}]");
    run.pause();
    assert_eq!(run.fail("a", AgentError), ["AttemptFailed"]);
    assert_eq!(run.resume(), ["ExecutionResumed", "ExecutionFailed"]);
}

#[test]
fn a_retry_does_not_start_while_held_and_is_due_again_afterwards() {
    let mut run = Run::started("steps: [{name: a}]");
    run.fail("a", Transient);
    let (timer, due) = run.timers().remove(0);
    run.pause();
    assert_eq!(run.timers(), []);
    run.now = due;
    assert_eq!(
        run.refused(Verb::FireTimer { timer }),
        Rejection::StaleTimer
    );
    run.resume();
    assert_eq!(run.fire("a", StepTimer::Retry), ["StepStarted"]);
}

fn offer(run: &mut Run, yaml: &str) -> Result<Vec<&'static str>, Rejection> {
    let definition = Arc::new(plan(yaml).definition().clone());
    run.send(Verb::OfferDefinition { definition })
}

#[test]
fn a_compatible_revision_is_followed() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    let longer =
        "steps: [{name: z, dependsOn: [b]}, {name: a}, {name: b, dependsOn: [a], timeout: 9m}]";
    assert_eq!(offer(&mut run, longer), Ok(vec!["RevisionAdopted"]));
    run.done("a");
    run.done("b");
    assert_eq!(run.step("z"), StepState::Running);
    run.done("z");
    assert_eq!(run.at(), Completed);
}

#[test]
fn a_revision_that_changes_what_has_begun_pauses() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    assert_eq!(
        offer(&mut run, "steps: [{name: b}]"),
        Ok(vec!["ExecutionPaused"])
    );
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (Paused, SubState::Error)
    );
    let rejection = offer(&mut run, "steps: [{name: c}]").unwrap_err();
    assert!(matches!(rejection, Rejection::Incompatible { .. }));
    run.resume();
    run.done("a");
    assert_eq!(
        run.step("b"),
        StepState::Running,
        "it goes on with its own revision"
    );
}

#[test]
fn a_fitting_revision_ends_the_pause_of_a_mismatch() {
    let mut run = Run::started("steps: [{name: a}]");
    offer(&mut run, "steps: [{name: b}]").unwrap();
    let fitting = "steps: [{name: a}, {name: b, dependsOn: [a]}]";
    assert_eq!(
        offer(&mut run, fitting),
        Ok(vec!["RevisionAdopted", "ExecutionResumed"])
    );
}

#[test]
fn the_same_revision_is_no_news() {
    let mut run = Run::started("steps: [{name: a}]");
    assert_eq!(
        offer(&mut run, "steps:\n  - name: a # the same\n"),
        Ok(vec![])
    );
}

#[test]
fn an_execution_goes_from_trigger_to_queue_to_slot() {
    let mut run = Run::created("steps: [{name: w, signal: go}]");
    run.refused(Verb::GrantSlot);
    assert_eq!(
        run.ok(Verb::Trigger { by: "ada".into() }),
        ["ExecutionQueued"]
    );
    assert_eq!(
        obligations(&run.state),
        [stateway_machine::Obligation::Slot]
    );
    assert_eq!(run.ok(Verb::GrantSlot), ["ExecutionStarted", "StepWaiting"]);
    assert!(matches!(
        &run.events.last().unwrap().fact,
        stateway_machine::Fact::StepWaiting { wait: WaitFor::Signal(name), .. } if &**name == "go"
    ));
}
