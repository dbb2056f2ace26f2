//! Pausing and resuming: what is under way is recorded, nothing new starts.

use stateway_machine::ExecutionState::Paused;
use stateway_machine::{PauseCause, Rejection, StepTimer, Verb, sub_state, waits};
use stateway_model::ErrorCategory::{AgentError, Transient};
use stateway_model::SubState;

use crate::kit::Run;

#[test]
fn what_is_under_way_is_recorded_while_paused_and_nothing_new_starts() {
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
fn pausing_a_paused_execution_changes_nothing() {
    let mut run = Run::started("steps: [{name: a}]");
    run.pause();
    assert_eq!(run.pause(), Vec::<&str>::new());
}

#[test]
fn an_escalated_execution_is_not_resumed_but_decided_about() {
    let mut run = Run::started("steps: [{name: a, onFailure: escalate}]");
    run.fail("a", AgentError);
    let resume = Verb::Resume { by: "bob".into() };
    assert_eq!(run.refused(resume), Rejection::Escalated);
}

#[test]
fn a_wait_has_no_deadline_while_paused_because_its_timeout_stands_still() {
    let yaml = "steps: [{name: a, queueTimeout: 10m}, {name: go, signal: go, timeout: 5m}]";
    let mut run = Run::started(yaml);
    let deadlines = |run: &Run| -> Vec<bool> {
        let waits = waits(&run.state).into_iter();
        waits.map(|wait| wait.deadline.is_some()).collect()
    };
    assert_eq!(deadlines(&run), [true, true]);
    run.pause();
    assert_eq!(deadlines(&run), [false, false]);
    run.resume();
    assert_eq!(deadlines(&run), [true, true]);
}

#[test]
fn a_failure_while_paused_has_its_consequence_when_resumed() {
    let mut run = Run::started("steps: [{name: a}]");
    run.pause();
    assert_eq!(run.fail("a", AgentError), ["AttemptFailed"]);
    assert_eq!(run.resume(), ["ExecutionResumed", "ExecutionFailed"]);
}

#[test]
fn a_retry_does_not_start_while_paused_and_is_due_again_afterwards() {
    let mut run = Run::started("steps: [{name: a}]");
    run.fail("a", Transient);
    let (timer, due) = run.timers().remove(0);
    run.pause();
    assert_eq!(run.timers(), []);
    run.now = due;
    assert_eq!(run.refused(Verb::fire(timer)), Rejection::StaleTimer);
    run.resume();
    assert_eq!(run.fire("a", StepTimer::Retry), ["StepStarted"]);
}

#[test]
fn pausing_again_changes_nothing_and_the_first_pause_stands() {
    let mut run = Run::started("steps: [{name: a}]");
    run.pause();
    let again = Verb::Pause {
        by: "eve".into(),
        comment: "me too".into(),
    };
    assert_eq!(run.ok(again), Vec::<&str>::new());
    let Some(PauseCause::ByHand { by, .. }) = run.state.pause_cause() else {
        panic!("{:?}", run.state.pause_cause());
    };
    assert_eq!(&**by, "bob");
}
