//! Rolling back: completed steps only, the last completed first, one at a time; and what the end of a
//! rollback reports.

use std::time::Duration;

use serde_json::json;
use stateway_machine::ExecutionState::{Compensating, Failed, RolledBack};
use stateway_machine::{
    CancelMode, Fact, Failure, Rejection, StepState, StepTimer, Task, Verb, last_error, sub_state,
    task_input, waits,
};
use stateway_model::ErrorCategory::{AgentError, External, Governance, Transient, Validation};
use stateway_model::{SubState, WaitKind};

use crate::kit::Run;

pub(crate) const CHAIN: &str = "steps:\n  - {name: a}\n  - {name: b, dependsOn: [a]}\n  - {name: c, \
                                dependsOn: [b]}\n  - {name: d, dependsOn: [c], onFailure: \
                                compensate}\ncompensation: [{step: a}, {step: b}, {step: c}, {step: \
                                d}]";

pub(crate) fn failed_at_d(yaml: &str) -> Run {
    let mut run = Run::started(yaml);
    for step in ["a", "b", "c"] {
        run.complete(step, json!({"made": step}));
    }
    run.fail("d", AgentError);
    run
}

#[test]
fn the_last_completed_step_is_compensated_first_and_one_at_a_time() {
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
    assert_eq!(run.state.left_behind(), []);
}

#[test]
fn a_compensation_is_given_the_output_of_its_step() {
    let run = failed_at_d(CHAIN);
    assert_eq!(
        *task_input(&run.state, &run.task("c")).unwrap(),
        json!({"made": "c"})
    );
}

#[test]
fn parallel_steps_are_compensated_in_reverse_order_of_completion() {
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
fn only_completed_steps_are_compensated() {
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
fn read_only_steps_are_not_compensated_and_not_named_as_left() {
    let yaml = CHAIN.replace("{name: b, ", "{name: b, readOnly: true, ");
    let mut run = failed_at_d(&yaml);
    run.done("c");
    assert_eq!(run.tasks(), [Task::undo("a", 1)]);
    assert_eq!(run.step("b"), StepState::Completed);
    run.done("a");
    assert_eq!(run.at(), RolledBack);
    assert_eq!(run.state.left_behind(), []);
}

/// "Everything was rolled back" is only true when nothing is named here.
#[test]
fn a_rollback_names_the_completed_steps_that_have_no_compensation() {
    let yaml = CHAIN.replace("{step: b}, ", "");
    let mut run = failed_at_d(&yaml);
    run.done("c");
    run.done("a");
    assert_eq!(run.at(), RolledBack);
    assert_eq!(run.state.left_behind(), ["b".into()]);
    let Fact::ExecutionRolledBack { left, .. } = run.fact("ExecutionRolledBack") else {
        unreachable!()
    };
    assert_eq!(left[..], ["b".into()]);
}

#[test]
fn waits_and_decisions_have_no_effects_and_are_not_named_as_left() {
    let yaml = "steps: [{name: nap, sleep: 1m}, {name: s, dependsOn: [nap], signal: go}, {name: b, \
                dependsOn: [s], onFailure: compensate}]";
    let mut run = Run::started(yaml);
    run.fire("nap", StepTimer::Sleep);
    run.signal("go", "m").unwrap();
    run.fail("b", AgentError);
    assert_eq!(run.at(), RolledBack);
    assert_eq!(run.state.left_behind(), []);
}

#[test]
fn a_compensation_without_a_policy_is_retried_with_back_off() {
    let mut run = failed_at_d(CHAIN);
    for (category, seconds) in [(Transient, 1), (External, 2), (Transient, 4)] {
        assert_eq!(run.fail("c", category), ["StepCompensationFailed"]);
        assert_eq!(run.at(), Compensating);
        assert_eq!(run.due_in("c", StepTimer::UndoRetry), Some(seconds));
        assert_eq!(run.tasks(), []);
        run.fire("c", StepTimer::UndoRetry);
    }
    assert_eq!(
        run.fail("c", Transient),
        ["StepCompensationFailed", "ExecutionFailed"],
        "three retries by default"
    );
}

#[test]
fn a_compensation_that_times_out_is_retried_by_default() {
    let yaml = CHAIN.replace("{step: c}", "{step: c, timeout: 1m, queueTimeout: 2m}");
    let mut run = failed_at_d(&yaml);
    run.assign("c", "w");
    assert_eq!(
        run.fire("c", StepTimer::UndoTimeout),
        ["StepCompensationFailed"]
    );
    run.fire("c", StepTimer::UndoRetry);
    assert_eq!(
        run.fire("c", StepTimer::UndoQueue),
        ["StepCompensationFailed"]
    );
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.native_code, "QUEUE_TIMEOUT");
    run.fire("c", StepTimer::UndoRetry);
    assert_eq!(run.task("c"), Task::undo("c", 3));
}

/// What is left of the workflow's timeout; and the whole of it where the timeout began the rollback.
#[test]
fn a_compensation_waits_for_a_worker_as_long_as_the_workflow_allows() {
    let yaml = format!("timeout: 1h\n{CHAIN}");
    let mut run = Run::started(&yaml);
    run.done("a");
    run.wait(Duration::from_secs(600));
    run.ok(Verb::Cancel {
        mode: CancelMode::Compensate,
        by: "eve".into(),
        comment: "".into(),
    });
    assert_eq!(run.due_in("a", StepTimer::UndoQueue), Some(3000));
    assert_eq!(
        run.fire("a", StepTimer::UndoQueue),
        ["StepCompensationFailed", "ExecutionFailed"],
        "the workflow allows no retry"
    );
    assert_eq!(run.state.left_behind(), ["a".into()]);
    let error = last_error(&run.state).unwrap();
    assert_eq!(
        (error.native_code.as_str(), error.message.as_str()),
        (
            "QUEUE_TIMEOUT",
            "no worker took the task within the workflow's timeout of 1h"
        )
    );

    let mut run = Run::started(&yaml.replace("steps:", "failurePolicy: compensate\nsteps:"));
    run.done("a");
    run.expire();
    assert_eq!(run.due_in("a", StepTimer::UndoQueue), Some(3600));
}

#[test]
fn a_compensation_of_a_workflow_without_a_timeout_waits_for_a_worker_without_a_limit() {
    let yaml = CHAIN.replace("{step: c}", "{step: c, agent: undoer, timeout: 1m}");
    let run = failed_at_d(&yaml);
    assert_eq!(run.timers(), []);
    let wait = waits(&run.state).remove(0);
    assert_eq!(
        (wait.kind, wait.name.as_str(), wait.deadline),
        (WaitKind::Capacity, "undoer", None)
    );
}

#[test]
fn other_failures_of_a_compensation_are_not_retried_by_default() {
    for category in [AgentError, Validation, Governance] {
        let mut run = failed_at_d(CHAIN);
        assert_eq!(
            run.fail("c", category),
            ["StepCompensationFailed", "ExecutionFailed"],
            "{category}"
        );
    }
    let mut run = failed_at_d(CHAIN);
    let failure = Failure {
        no_retry: true,
        ..Failure::reported(Transient, "gone for good")
    };
    let task = run.task("c");
    assert_eq!(
        run.ok(Verb::fail(task, failure)),
        ["StepCompensationFailed", "ExecutionFailed"]
    );
}

#[test]
fn a_failed_compensation_ends_partially_rolled_back_and_names_what_was_left() {
    let mut run = failed_at_d(CHAIN);
    run.done("c");
    let events = run.fail("b", AgentError);
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
    assert_eq!(run.state.left_behind(), ["b".into(), "a".into()]);
}

#[test]
fn a_compensations_own_policy_replaces_the_default() {
    let policy = "{step: c, retryPolicy: {maxRetries: 1, initialDelay: 9s}}";
    let mut run = failed_at_d(&CHAIN.replace("{step: c}", policy));
    assert_eq!(
        run.fail("c", AgentError),
        ["StepCompensationFailed"],
        "a policy without `retryOn` retries everything but governance failures"
    );
    assert_eq!(run.due_in("c", StepTimer::UndoRetry), Some(9));
    run.fire("c", StepTimer::UndoRetry);
    assert_eq!(
        run.fail("c", AgentError),
        ["StepCompensationFailed", "ExecutionFailed"]
    );
}

#[test]
fn a_workers_retry_after_puts_a_compensation_off_too() {
    let mut run = failed_at_d(CHAIN);
    let failure = Failure {
        retry_after: Some(Duration::from_secs(70)),
        ..Failure::reported(Transient, "busy")
    };
    let task = run.task("c");
    run.ok(Verb::fail(task, failure));
    assert_eq!(run.due_in("c", StepTimer::UndoRetry), Some(70));
}

#[test]
fn a_compensation_that_is_answered_twice_counts_once() {
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
fn an_execution_that_rolls_back_cannot_be_resumed_or_paused() {
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
fn the_compensation_that_is_with_a_worker_is_reported() {
    let mut run = failed_at_d(CHAIN);
    assert_eq!(run.state.compensation_in_hands(), None);
    run.assign("c", "w7");
    assert_eq!(
        run.state.compensation_in_hands(),
        Some(("c".into(), "w7".into()))
    );
    run.fail("c", Transient);
    assert_eq!(run.state.compensation_in_hands(), None);
}
