//! An execution that rolls back or is cancelled while work is in flight: tasks that no worker has are
//! withdrawn; tasks in a worker's hands are asked to cancel, awaited, and compensated if they complete.

use serde_json::json;
use stateway_machine::ExecutionState::{Cancelled, Cancelling, Compensating, RolledBack};
use stateway_machine::{
    CancelMode, ChildOrder, Fact, Failure, Obligation, Rejection, StepState, StepTimer, Task, Verb,
    last_error, obligations, step_views,
};
use stateway_model::ErrorCategory::{AgentError, Transient};
use stateway_model::{Reason, SubState, Usage};

use crate::kit::Run;

const SIBLINGS: &str = "failurePolicy: compensate\nsteps: [{name: first}, {name: bad, dependsOn: \
                        [first]}, {name: busy, dependsOn: [first], timeout: 5m}, {name: idle, \
                        dependsOn: [first]}, {name: next, dependsOn: [busy]}]\ncompensation: [{step: \
                        first}, {step: busy}, {step: idle}]";

/// `busy` is with a worker and `idle` waits for one when `bad` fails.
fn turned(yaml: &str) -> Run {
    let mut run = Run::started(yaml);
    run.done("first");
    run.assign("busy", "w1");
    run.fail("bad", AgentError);
    run
}

#[test]
fn a_rollback_awaits_tasks_in_workers_hands_and_withdraws_the_others() {
    let run = turned(SIBLINGS);
    assert_eq!(run.at(), Compensating);
    let Fact::CompensationStarted { awaited, .. } = run.fact("CompensationStarted") else {
        unreachable!()
    };
    assert_eq!(awaited[..], ["busy".into()]);
    assert_eq!(
        run.tasks(),
        [Task::of("busy", 1)],
        "nothing is compensated yet"
    );
    assert!(run.order("busy").cancel, "its worker is asked to cancel");
    assert_eq!(run.step("idle"), StepState::Cancelled);
}

#[test]
fn what_is_completed_after_the_turn_is_compensated_first() {
    let mut run = turned(SIBLINGS);
    let task = run.task("busy");
    let events = run.ok(Verb::complete(task, json!({"made": "busy"}).into()));
    assert_eq!(events, ["StepCompleted", "StepCompensationStarted"]);
    assert_eq!(run.tasks(), [Task::undo("busy", 1)]);
    run.done("busy");
    assert_eq!(run.tasks(), [Task::undo("first", 1)]);
    run.done("first");
    assert_eq!(run.at(), RolledBack);
    assert_eq!(run.state.left_behind(), []);
    assert_eq!(run.step("next"), StepState::Pending, "nothing new starts");
}

#[test]
fn what_fails_or_is_given_back_after_the_turn_is_not_compensated_and_not_retried() {
    let mut run = turned(SIBLINGS);
    let events = run.fail("busy", Transient);
    assert_eq!(events, ["AttemptFailed", "StepCompensationStarted"]);
    assert_eq!(run.step("busy"), StepState::Cancelled);
    assert_eq!(run.tasks(), [Task::undo("first", 1)]);

    let mut run = turned(SIBLINGS);
    assert_eq!(
        run.release("busy"),
        ["TaskReleased", "StepCompensationStarted"]
    );
    assert_eq!(run.step("busy"), StepState::Cancelled);
}

#[test]
fn a_worker_lost_after_the_turn_leaves_an_unknown_outcome_that_is_compensated() {
    let mut run = turned(SIBLINGS);
    let events = run.lose("busy");
    assert_eq!(
        events,
        ["TaskReleased", "OutcomeUnknown", "StepCompensationStarted"]
    );
    let Fact::OutcomeUnknown { compensate, .. } = run.fact("OutcomeUnknown") else {
        unreachable!()
    };
    assert!(compensate);
    let order = run.order("busy");
    assert_eq!(order.key.task, Task::undo("busy", 1));
    assert!(
        order.unknown,
        "the worker is told that the outcome is unknown"
    );
    run.done("busy");
    assert_eq!(run.step("busy"), StepState::Compensated);
    assert!(!run.order("first").unknown);
    run.done("first");
    assert_eq!(run.at(), RolledBack);
    assert_eq!(run.state.left_behind(), []);
}

#[test]
fn an_unknown_outcome_is_not_compensated_where_the_definition_excludes_it_and_is_named_as_left() {
    let yaml = SIBLINGS.replace("{step: busy}", "{step: busy, compensateUnknown: false}");
    let mut run = turned(&yaml);
    run.lose("busy");
    assert_eq!(run.step("busy"), StepState::Cancelled);
    assert_eq!(run.tasks(), [Task::undo("first", 1)]);
    run.done("first");
    assert_eq!(run.at(), RolledBack);
    assert_eq!(run.state.left_behind(), ["busy".into()]);
}

#[test]
fn an_unknown_outcome_without_a_compensation_is_named_as_left() {
    let mut run = turned(&SIBLINGS.replace("{step: busy}, ", ""));
    run.lose("busy");
    run.done("first");
    assert_eq!(run.state.left_behind(), ["busy".into()]);
}

/// `busy` has lost its worker and waits for another one when `bad` fails.
fn lost_before_the_turn(yaml: &str) -> Run {
    let mut run = Run::started(yaml);
    run.done("first");
    run.assign("busy", "w1");
    run.lose("busy");
    run.fail("bad", AgentError);
    run
}

#[test]
fn work_that_was_lost_before_the_turn_is_compensated_too() {
    let mut run = lost_before_the_turn(SIBLINGS);
    let Fact::OutcomeUnknown {
        step, compensate, ..
    } = run.fact("OutcomeUnknown")
    else {
        unreachable!()
    };
    assert_eq!((&**step, *compensate), ("busy", true));
    assert!(run.order("busy").unknown);
    run.done("busy");
    run.done("first");
    assert_eq!(run.at(), RolledBack);
    assert_eq!(run.state.left_behind(), []);
    assert_eq!(run.step("idle"), StepState::Cancelled, "no worker had it");
}

#[test]
fn work_that_was_lost_before_the_turn_is_named_as_left_where_it_is_not_compensated() {
    for without in ["{step: busy, compensateUnknown: false}, ", ""] {
        let mut run = lost_before_the_turn(&SIBLINGS.replace("{step: busy}, ", without));
        run.done("first");
        assert_eq!(run.at(), RolledBack);
        assert_eq!(run.state.left_behind(), ["busy".into()]);
    }
    let mut run = lost_before_the_turn(
        &SIBLINGS
            .replace("{step: busy}, ", "")
            .replace("timeout: 5m", "readOnly: true"),
    );
    run.done("first");
    assert_eq!(run.state.left_behind(), [], "it has no effects");
}

#[test]
fn a_lost_attempt_that_another_worker_completes_is_compensated_once() {
    let mut run = Run::started(SIBLINGS);
    run.done("first");
    run.assign("busy", "w1");
    run.lose("busy");
    run.done("busy");
    run.fail("bad", AgentError);
    assert!(!run.order("busy").unknown);
    run.done("busy");
    run.done("first");
    assert_eq!(run.at(), RolledBack);
}

/// The step that causes the rollback may itself have taken effect.
#[test]
fn a_step_that_fails_in_a_workers_hands_without_an_answer_is_compensated() {
    let yaml = "failurePolicy: compensate\nsteps: [{name: a, timeout: 1m, maxHandOuts: 1, retryPolicy: \
                {maxRetries: 0}}]\ncompensation: [{step: a}]";
    let mut lost = Run::started(yaml);
    lost.assign("a", "w1");
    assert_eq!(
        lost.lose("a"),
        [
            "TaskReleased",
            "AttemptFailed",
            "CompensationStarted",
            "OutcomeUnknown",
            "StepCompensationStarted"
        ]
    );
    let mut late = Run::started(yaml);
    late.assign("a", "w1");
    assert_eq!(
        late.fire("a", StepTimer::Timeout),
        [
            "AttemptFailed",
            "CompensationStarted",
            "OutcomeUnknown",
            "StepCompensationStarted"
        ]
    );
    for mut run in [lost, late] {
        run.done("a");
        assert_eq!(
            (run.at(), run.step("a")),
            (RolledBack, StepState::Compensated)
        );
        assert!(last_error(&run.state).is_some());
    }
    let mut reported = Run::started(yaml);
    reported.assign("a", "w1");
    assert_eq!(
        reported.fail("a", AgentError),
        [
            "AttemptFailed",
            "CompensationStarted",
            "ExecutionRolledBack"
        ],
        "a worker that reports a failure knows that the step did not complete"
    );
}

#[test]
fn a_step_that_was_skipped_after_its_worker_was_lost_is_compensated() {
    let yaml = SIBLINGS.replace(
        "timeout: 5m",
        "maxHandOuts: 1, retryPolicy: {maxRetries: 0}, onFailure: skip",
    );
    let mut run = Run::started(&yaml);
    run.done("first");
    run.assign("busy", "w1");
    run.lose("busy");
    assert_eq!(run.step("busy"), StepState::Skipped);
    run.fail("bad", AgentError);
    assert_eq!(run.tasks(), [Task::undo("busy", 1)]);
}

#[test]
fn work_in_flight_is_awaited_no_longer_than_its_own_timeout() {
    let mut run = turned(SIBLINGS);
    let events = run.fire("busy", StepTimer::Timeout);
    assert_eq!(events, ["OutcomeUnknown", "StepCompensationStarted"]);
    assert_eq!(run.tasks(), [Task::undo("busy", 1)]);
}

#[test]
fn a_silent_worker_is_awaited_no_longer_than_its_heartbeat() {
    let mut run = turned(&SIBLINGS.replace("timeout: 5m", "heartbeatTimeout: 30s"));
    let events = run.fire("busy", StepTimer::Heartbeat);
    assert_eq!(
        events,
        ["TaskReleased", "OutcomeUnknown", "StepCompensationStarted"]
    );
}

#[test]
fn an_answer_after_the_outcome_was_declared_unknown_is_refused() {
    let mut run = turned(SIBLINGS);
    let task = run.task("busy");
    run.lose("busy");
    let rejection = run.refused(Verb::complete(task, json!({}).into()));
    assert!(matches!(rejection, Rejection::StaleAttempt { .. }));
}

#[test]
fn a_task_that_is_to_be_cancelled_goes_to_no_other_worker() {
    let mut run = turned(SIBLINGS);
    let task = run.task("busy");
    let taken = run.refused(Verb::AssignTask {
        task,
        worker: "w2".into(),
        identity: "".into(),
    });
    assert!(matches!(taken, Rejection::AlreadyAssigned { .. }));
}

#[test]
fn a_workflow_timeout_awaits_work_in_flight_too() {
    let mut run = Run::started(&format!("timeout: 4m\n{SIBLINGS}"));
    run.done("first");
    run.assign("busy", "w1");
    run.expire();
    let Fact::CompensationStarted { awaited, .. } = run.fact("CompensationStarted") else {
        unreachable!()
    };
    assert_eq!(awaited[..], ["busy".into()]);
    run.done("busy");
    assert_eq!(run.tasks(), [Task::undo("busy", 1)]);
}

#[test]
fn a_cancelled_execution_is_cancelling_until_work_in_flight_has_ended() {
    let mut run = Run::started(SIBLINGS);
    run.done("first");
    run.assign("busy", "w1");
    assert_eq!(run.cancel(CancelMode::Stop), ["CancellationStarted"]);
    assert_eq!(
        (run.at(), run.reason().as_str()),
        (Cancelling, "CANCELLING")
    );
    assert_eq!(
        stateway_machine::sub_state(&run.state),
        (SubState::Running, Some(Reason::Cancelling))
    );
    assert_eq!(run.tasks(), [Task::of("busy", 1)]);
    assert!(run.order("busy").cancel);
    assert_eq!(
        run.done("busy"),
        ["StepCompleted", "ExecutionCancelled"],
        "it stays completed: nothing is compensated"
    );
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "CANCELLED"));
    assert_eq!(run.step("busy"), StepState::Completed);
}

#[test]
fn a_worker_lost_while_cancelling_ends_the_execution_with_the_outcome_on_record() {
    let mut run = Run::started(SIBLINGS);
    run.done("first");
    run.assign("busy", "w1");
    run.cancel(CancelMode::Stop);
    assert_eq!(
        run.lose("busy"),
        ["TaskReleased", "OutcomeUnknown", "ExecutionCancelled"]
    );
    let Fact::OutcomeUnknown { compensate, .. } = run.fact("OutcomeUnknown") else {
        unreachable!()
    };
    assert!(!compensate);
}

#[test]
fn nothing_is_handed_out_while_cancelling() {
    let mut run = Run::started(SIBLINGS);
    run.done("first");
    run.assign("busy", "w1");
    let idle = run.task("idle");
    run.cancel(CancelMode::Stop);
    let assign = Verb::AssignTask {
        task: idle,
        worker: "w2".into(),
        identity: "".into(),
    };
    let wrong = Rejection::WrongState { state: Cancelling };
    assert_eq!(run.refused(assign), wrong);
}

/// Nobody waits for the worker any more, so its step may still take effect.
#[test]
fn a_kill_during_a_rollback_names_the_work_in_flight() {
    let mut run = turned(SIBLINGS);
    run.cancel(CancelMode::Kill);
    assert_eq!(run.at(), Cancelled);
    assert_eq!(run.state.left_behind(), ["first".into(), "busy".into()]);
}

#[test]
fn kill_ends_a_cancelling_execution_without_waiting() {
    let mut run = Run::started(SIBLINGS);
    run.done("first");
    run.assign("busy", "w1");
    run.cancel(CancelMode::Stop);
    assert_eq!(run.cancel(CancelMode::Kill), ["ExecutionCancelled"]);
    assert_eq!((run.at(), run.reason().as_str()), (Cancelled, "KILLED"));
    assert_eq!(run.step("busy"), StepState::Cancelled);
}

const PARENT: &str = "failurePolicy: compensate\nsteps: [{name: bad}, {name: kid, workflow: \
                      child}]\ncompensation: [{step: kid}]";

fn child(run: &Run) -> Option<ChildOrder> {
    obligations(&run.state)
        .into_iter()
        .find_map(|one| match one {
            Obligation::Child(order) => Some(order),
            _ => None,
        })
}

fn finish(outcome: Result<stateway_machine::Data, Failure>) -> Verb {
    Verb::FinishChild {
        step: "kid".into(),
        attempt: 1,
        outcome,
        usage: Usage::default(),
    }
}

#[test]
fn a_child_is_cancelled_and_awaited_and_compensated_if_it_completes() {
    let mut run = Run::started(PARENT);
    assert!(!child(&run).unwrap().cancel);
    run.fail("bad", AgentError);
    assert!(child(&run).unwrap().cancel);
    assert_eq!(run.at(), Compensating);
    let events = run.ok(finish(Ok(json!(1).into())));
    assert_eq!(events, ["StepCompleted", "StepCompensationStarted"]);
    assert_eq!(run.tasks(), [Task::undo("kid", 1)]);
}

#[test]
fn a_child_that_was_cancelled_is_not_compensated() {
    let mut run = Run::started(PARENT);
    run.fail("bad", AgentError);
    let failure = Failure::reported(AgentError, "the child was cancelled");
    let events = run.ok(finish(Err(failure)));
    assert_eq!(events, ["AttemptFailed", "ExecutionRolledBack"]);
    assert_eq!(run.step("kid"), StepState::Cancelled);
}

/// A child that is cancelled without compensation, or fails so, leaves the effects of its steps.
#[test]
fn a_child_that_left_effects_is_compensated() {
    let left = || Failure {
        effects_unknown: true,
        ..Failure::reported(AgentError, "the child was cancelled")
    };
    let mut run = Run::started(PARENT);
    run.fail("bad", AgentError);
    assert_eq!(
        run.ok(finish(Err(left()))),
        ["AttemptFailed", "OutcomeUnknown", "StepCompensationStarted"]
    );
    run.done("kid");
    assert_eq!(
        (run.at(), run.step("kid")),
        (RolledBack, StepState::Compensated)
    );

    let mut run = Run::started(PARENT);
    run.ok(finish(Err(left())));
    assert_eq!(run.step("kid"), StepState::Compensating);
}

#[test]
fn steps_that_never_start_are_shown_as_not_started() {
    let run = turned(SIBLINGS);
    let next = step_views(&run.state).pop().unwrap();
    assert_eq!(next.name, "next");
    assert_eq!(
        (next.sub_state, next.reason),
        (SubState::Waiting, Some(Reason::NotStarted))
    );
}
