//! A worker that is lost with a task: the task goes to another worker, and only several lost workers in
//! a row fail the attempt.

use stateway_machine::ExecutionState::{Failed, RolledBack, Running};
use stateway_machine::{Fact, FailureCause, Rejection, StepState, StepTimer, Task, Verb, waits};
use stateway_model::ErrorCategory::{AgentError, Transient};
use stateway_model::WaitKind;

use crate::kit::Run;

const PLAIN: &str = "steps: [{name: a, agent: clerk}]";

fn assign(worker: &str) -> Verb {
    Verb::AssignTask {
        task: Task::of("a", 1),
        worker: worker.into(),
        identity: "".into(),
    }
}

#[test]
fn a_worker_keeps_its_task_and_another_cannot_take_it() {
    let mut run = Run::started(PLAIN);
    assert_eq!(run.ok(assign("w1")), ["TaskAssigned"]);
    assert_eq!(run.ok(assign("w1")), Vec::<&str>::new());
    let taken = Rejection::AlreadyAssigned {
        step: "a".into(),
        attempt: 1,
        worker: "w1".into(),
    };
    assert_eq!(run.refused(assign("w2")), taken);
    assert_eq!(run.release("a"), ["TaskReleased"]);
    assert_eq!(run.ok(assign("w2")), ["TaskAssigned"]);
}

#[test]
fn the_task_of_a_lost_worker_waits_for_another_as_the_same_attempt() {
    let mut run = Run::started(PLAIN);
    run.assign("a", "w1");
    assert_eq!(run.lose("a"), ["TaskReleased"]);
    assert_eq!((run.at(), run.step("a")), (Running, StepState::Running));
    let wait = waits(&run.state).remove(0);
    assert_eq!(
        (wait.kind, wait.name.as_str()),
        (WaitKind::Capacity, "clerk")
    );
    assert_eq!(run.task("a"), Task::of("a", 1));
    run.assign("a", "w2");
    run.done("a");
}

#[test]
fn a_silent_worker_is_a_lost_worker_and_its_attempt_does_not_fail() {
    let mut run = Run::started("steps: [{name: a, heartbeatTimeout: 30s}]");
    run.assign("a", "w1");
    assert_eq!(run.fire("a", StepTimer::Heartbeat), ["TaskReleased"]);
    let Fact::TaskReleased { lost, .. } = run.fact("TaskReleased") else {
        unreachable!()
    };
    assert!(lost);
    run.assign("a", "w2");
    assert_eq!(run.task("a"), Task::of("a", 1));
}

#[test]
fn three_lost_workers_in_a_row_fail_the_attempt_as_transient() {
    let mut run = Run::started(PLAIN);
    for worker in ["w1", "w2"] {
        run.assign("a", worker);
        assert_eq!(run.lose("a"), ["TaskReleased"]);
    }
    run.assign("a", "w3");
    assert_eq!(
        run.lose("a"),
        ["TaskReleased", "AttemptFailed", "RetryScheduled"]
    );
    let Fact::AttemptFailed { failure, .. } = run.fact("AttemptFailed") else {
        unreachable!()
    };
    assert_eq!(
        (failure.category, failure.cause),
        (Transient, FailureCause::WorkerLost)
    );
    assert_eq!(
        &*failure.message,
        "the worker was lost 3 times in a row: it disconnected or stopped responding"
    );
}

#[test]
fn max_hand_outs_is_how_many_workers_may_be_lost() {
    let mut run = Run::started("steps: [{name: a, maxHandOuts: 1}]");
    run.assign("a", "w1");
    assert_eq!(
        run.lose("a"),
        ["TaskReleased", "AttemptFailed", "RetryScheduled"]
    );
    let mut run = Run::started("steps: [{name: a, maxHandOuts: 5}]");
    for _ in 0..4 {
        run.assign("a", "w");
        assert_eq!(run.lose("a"), ["TaskReleased"]);
    }
}

#[test]
fn a_worker_that_gives_the_task_back_ends_the_row_of_lost_ones() {
    let mut run = Run::started(PLAIN);
    for _ in 0..2 {
        run.assign("a", "w");
        run.lose("a");
    }
    run.assign("a", "w");
    run.release("a");
    for _ in 0..2 {
        run.assign("a", "w");
        assert_eq!(run.lose("a"), ["TaskReleased"]);
    }
}

#[test]
fn each_attempt_counts_its_own_lost_workers() {
    let mut run = Run::started("steps: [{name: a, maxHandOuts: 2}]");
    for attempt in 1..=2 {
        assert_eq!(run.task("a").attempt, attempt);
        run.assign("a", "w");
        assert_eq!(run.lose("a"), ["TaskReleased"]);
        run.assign("a", "w");
        run.lose("a");
        run.fire("a", StepTimer::Retry);
    }
}

#[test]
fn attempts_that_lose_their_workers_end_with_retries_exhausted() {
    let yaml = "steps: [{name: a, maxHandOuts: 1, retryPolicy: {maxRetries: 1}}]";
    let mut run = Run::started(yaml);
    run.assign("a", "w");
    run.lose("a");
    run.fire("a", StepTimer::Retry);
    run.assign("a", "w");
    run.lose("a");
    assert_eq!(
        (run.at(), run.reason().as_str()),
        (Failed, "RETRIES_EXHAUSTED")
    );
}

#[test]
fn an_answer_of_a_lost_worker_is_accepted_while_the_attempt_is_open() {
    let mut run = Run::started(PLAIN);
    run.assign("a", "w1");
    run.lose("a");
    assert_eq!(run.done("a"), ["StepCompleted", "ExecutionCompleted"]);
}

#[test]
fn losing_a_worker_that_nobody_knows_changes_nothing() {
    let mut run = Run::started(PLAIN);
    assert_eq!(run.lose("a"), Vec::<&str>::new());
}

#[test]
fn a_compensation_goes_to_another_worker_too_and_is_retried_after_three() {
    let yaml = "steps: [{name: a}, {name: b, dependsOn: [a], onFailure: compensate}]\n\
                compensation: [{step: a}]";
    let mut run = Run::started(yaml);
    run.done("a");
    run.fail("b", AgentError);
    for _ in 0..2 {
        run.assign("a", "w");
        assert_eq!(run.lose("a"), ["TaskReleased"]);
        assert_eq!(run.task("a"), Task::undo("a", 1));
    }
    run.assign("a", "w");
    assert_eq!(run.lose("a"), ["TaskReleased", "StepCompensationFailed"]);
    run.fire("a", StepTimer::UndoRetry);
    assert_eq!(run.task("a"), Task::undo("a", 2));
    run.done("a");
    assert_eq!(run.at(), RolledBack);
}
