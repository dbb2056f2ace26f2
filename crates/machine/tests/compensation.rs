//! Seed 000, section 4, to the letter; and cancelling.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod kit;

use kit::Run;
use serde_json::json;
use stateway_machine::ExecutionState::{Cancelled, Compensating, Failed, RolledBack};
use stateway_machine::{
    CancelMode, Event, Fact, Rejection, StepState, StepTimer, Task, TurnCause, Verb, sub_state,
    task_input,
};
use stateway_model::ErrorCategory::{AgentError, Transient};
use stateway_model::SubState;

const CHAIN: &str = "steps:\n  - {name: a}\n  - {name: b, dependsOn: [a]}\n  - {name: c, dependsOn: \
                     [b]}\n  - {name: d, dependsOn: [c], onFailure: compensate}\ncompensation: \
                     [{step: a}, {step: b}, {step: c}, {step: d}]";

fn failed_at_d(yaml: &str) -> Run {
    let mut run = Run::started(yaml);
    for step in ["a", "b", "c"] {
        run.complete(step, json!({"made": step}));
    }
    run.fail("d", AgentError);
    run
}

#[test]
fn the_last_completed_step_is_undone_first_and_one_at_a_time() {
    let mut run = failed_at_d(CHAIN);
    assert_eq!(
        (run.at(), run.reason().as_str()),
        (Compensating, "COMPENSATING")
    );
    for step in ["c", "b", "a"] {
        assert_eq!(run.tasks(), [Task::undo(step, 1)]);
        assert_eq!(run.step(step), StepState::Compensating);
        run.done(step);
        assert_eq!(run.step(step), StepState::Compensated);
    }
    assert_eq!(
        (run.at(), run.reason().as_str()),
        (RolledBack, "ROLLED_BACK")
    );
    assert_eq!(sub_state(&run.state).0, SubState::Failed);
    assert_eq!(run.step("d"), StepState::Failed);
}

#[test]
fn an_undo_is_given_what_the_step_answered() {
    let run = failed_at_d(CHAIN);
    assert_eq!(
        *task_input(&run.state, &run.task("c")).unwrap(),
        json!({"made": "c"})
    );
}

#[test]
fn parallel_steps_are_undone_in_reverse_order_of_completion() {
    let yaml = "failurePolicy: compensate\nsteps: [{name: a}, {name: b}, {name: c}]\ncompensation: \
                [{step: a}, {step: b}]";
    let mut run = Run::started(yaml);
    run.done("b");
    run.done("a");
    run.fail("c", AgentError);
    assert_eq!(run.tasks(), [Task::undo("a", 1)]);
    run.done("a");
    assert_eq!(run.tasks(), [Task::undo("b", 1)]);
}

#[test]
fn only_completed_steps_are_undone() {
    let yaml = "failurePolicy: compensate\nsteps: [{name: a, onFailure: skip}, {name: b}, {name: c}, \
                {name: d, dependsOn: [c]}]\ncompensation: [{step: a}, {step: b}, {step: c}, {step: d}]";
    let mut run = Run::started(yaml);
    run.fail("a", AgentError);
    run.fail("b", AgentError);
    assert_eq!(run.at(), RolledBack);
    let steps = ["a", "b", "c", "d"].map(|step| run.step(step));
    use StepState::{Cancelled, Failed, Pending, Skipped};
    assert_eq!(steps, [Skipped, Failed, Cancelled, Pending]);
}

#[test]
fn read_only_steps_are_left_out() {
    let yaml = CHAIN.replace("{name: b, ", "{name: b, readOnly: true, ");
    let mut run = failed_at_d(&yaml);
    run.done("c");
    assert_eq!(run.tasks(), [Task::undo("a", 1)]);
    assert_eq!(run.step("b"), StepState::Completed);
}

#[test]
fn a_failing_undo_ends_partially_rolled_back_and_starts_no_other() {
    let mut run = failed_at_d(CHAIN);
    run.done("c");
    let events = run.fail("b", Transient);
    assert_eq!(events, ["StepCompensationFailed", "ExecutionFailed"]);
    assert_eq!(
        (run.at(), run.reason().as_str()),
        (Failed, "PARTIALLY_ROLLED_BACK")
    );
    let steps = ["a", "b", "c"].map(|step| run.step(step));
    assert_eq!(
        steps,
        [
            StepState::Completed,
            StepState::Failed,
            StepState::Compensated
        ]
    );
}

#[test]
fn an_undo_is_repeated_where_it_has_a_policy() {
    let yaml = CHAIN.replace(
        "{step: c}",
        "{step: c, timeout: 1m, retryPolicy: {maxRetries: 1}}",
    );
    let mut run = failed_at_d(&yaml);
    assert_eq!(run.fail("c", Transient), ["StepCompensationFailed"]);
    assert!(run.tasks().is_empty());
    assert_eq!(
        run.fire("c", StepTimer::UndoRetry),
        ["StepCompensationStarted"]
    );
    assert_eq!(run.task("c"), Task::undo("c", 2));
    let events = run.fire("c", StepTimer::UndoTimeout);
    assert_eq!(events, ["StepCompensationFailed", "ExecutionFailed"]);
}

#[test]
fn an_undo_that_is_answered_twice_counts_once() {
    let mut run = failed_at_d(CHAIN);
    let task = run.task("c");
    run.done("c");
    let again = Verb::complete(task, json!(null).into());
    let state = StepState::Compensated;
    let stale = Rejection::StaleAttempt {
        step: "c".into(),
        attempt: 1,
        state,
    };
    assert_eq!(run.refused(again), stale);
}

#[test]
fn what_is_being_undone_cannot_be_resumed_or_paused() {
    let mut run = failed_at_d(CHAIN);
    let wrong = Rejection::WrongState {
        state: Compensating,
    };
    assert_eq!(run.refused(Verb::Resume { by: "bob".into() }), wrong);
    assert_eq!(
        run.refused(Verb::Pause {
            by: "bob".into(),
            comment: "".into()
        }),
        wrong
    );
}

#[test]
fn cancel_stops_and_leaves_what_was_done() {
    let mut run = Run::started(CHAIN);
    run.done("a");
    assert_eq!(run.cancel(CancelMode::Stop), ["ExecutionCancelled"]);
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "CANCELLED"));
    assert_eq!(
        (run.step("a"), run.step("b")),
        (StepState::Completed, StepState::Cancelled)
    );
}

#[test]
fn cancel_can_undo_what_was_done() {
    let mut run = Run::started(CHAIN);
    run.done("a");
    let events = run.cancel(CancelMode::Compensate);
    assert_eq!(events, ["CompensationStarted", "StepCompensationStarted"]);
    let why = TurnCause::Cancelled {
        by: "bob".into(),
        comment: "enough".into(),
    };
    let turned = |event: &Event| event.fact == Fact::CompensationStarted { cause: why.clone() };
    assert!(run.events.iter().any(turned), "who cancelled it, and why");
    assert_eq!(run.done("a"), ["StepCompensated", "ExecutionCancelled"]);
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "CANCELLED"));
}

#[test]
fn kill_ends_even_an_undoing() {
    let mut run = failed_at_d(CHAIN);
    let stop = Verb::Cancel {
        mode: CancelMode::Stop,
        by: "bob".into(),
        comment: "".into(),
    };
    assert_eq!(
        run.refused(stop),
        Rejection::WrongState {
            state: Compensating
        }
    );
    run.cancel(CancelMode::Kill);
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "KILLED"));
}
