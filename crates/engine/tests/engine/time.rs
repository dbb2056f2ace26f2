//! What counts as time: an attempt's timeout in a worker's hands, the wait for a worker by its own
//! limit, and neither of them while the execution is paused.

use std::sync::Arc;

use serde_json::json;
use stateway_engine::{Clock, Steer, View, WorkerMessage};
use stateway_model::{ErrorCategory, ExecutionError, Reason, SubState};

use crate::lab::Lab;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Moves the clock. Every timer that is due then has fired when this returns: the youngest execution
/// sleeps until that moment, and timers fire in the order of their times.
pub(crate) async fn pass(lab: &Lab, clock: &Clock, milliseconds: i64) {
    let nap = format!("name: nap\nsteps: [{{name: a, sleep: {milliseconds}ms}}]");
    lab.apply(&nap).await;
    let nap = lab.start("nap", json!(null)).await;
    clock.advance(milliseconds);
    lab.ended(&nap.id).await;
}

fn error(view: &View) -> &ExecutionError {
    view.last_error.as_ref().expect("an error")
}

async fn pause(lab: &Lab, id: &Arc<str>) {
    let cause = "maintenance".into();
    lab.steer(id, Steer::Pause { cause }).await.unwrap();
}

async fn resume(lab: &Lab, id: &Arc<str>) {
    lab.steer(id, Steer::Resume).await.unwrap();
}

#[tokio::test]
async fn a_steps_timeout_counts_from_the_moment_a_worker_has_the_task() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1m}]")
        .await;
    let started = lab.start("one", json!(null)).await;
    pass(&lab, &clock, HOUR).await;
    let view = lab.get(&started.id).await;
    assert_eq!(
        (view.sub_state, view.reason),
        (SubState::Waiting, Some(Reason::NoWorker))
    );
    let mut worker = lab.worker("w1", &["x"], 1);
    let task = worker.task().await;
    assert_eq!(task.task.attempt, 1);
    pass(&lab, &clock, MINUTE - SECOND).await;
    assert_eq!(lab.get(&started.id).await.sub_state, SubState::Running);
    pass(&lab, &clock, SECOND).await;
    let view = lab.ended(&started.id).await;
    assert_eq!(view.reason, Some(Reason::TimedOut));
    assert_eq!(error(&view).message, "the attempt took longer than 1m");
    let WorkerMessage::Withdrawn { reason, .. } = worker.message().await else {
        panic!("the task is withdrawn");
    };
    assert_eq!(reason, "TIMED_OUT");
}

#[tokio::test]
async fn a_heartbeat_is_not_due_while_no_worker_has_the_task() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 4s}]")
        .await;
    let started = lab.start("one", json!(null)).await;
    pass(&lab, &clock, HOUR).await;
    assert_eq!(lab.get(&started.id).await.last_error, None);
    let mut worker = lab.worker("w1", &["x"], 1);
    let task = worker.task().await;
    assert_eq!(task.task.attempt, 1);
    worker.done(&task, json!(1));
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn a_queue_timeout_fails_the_attempt_and_names_the_connected_workers() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, queueTimeout: 5m, retryPolicy: {maxRetries: 0}}]")
        .await;
    let nobody = lab.start("one", json!(null)).await;
    pass(&lab, &clock, 5 * MINUTE).await;
    let view = lab.ended(&nobody.id).await;
    assert_eq!(
        (view.sub_state, view.reason),
        (SubState::Failed, Some(Reason::TimedOut))
    );
    let why = error(&view);
    assert_eq!(why.native_code, "QUEUE_TIMEOUT");
    assert_eq!(why.category, Some(ErrorCategory::Timeout));
    assert_eq!(
        why.message,
        "no worker of role `x` took the task within 5m: no worker of role `x` is connected"
    );
    let mut worker = lab.worker("w1", &["x"], 1);
    lab.start("one", json!(null)).await;
    let busy = worker.task().await;
    let waits = lab.start("one", json!(null)).await;
    pass(&lab, &clock, 5 * MINUTE).await;
    let view = lab.ended(&waits.id).await;
    assert_eq!(
        error(&view).message,
        "no worker of role `x` took the task within 5m: 1 worker of role `x` is connected"
    );
    worker.done(&busy, json!(1));
}

#[tokio::test]
async fn a_queue_timeout_is_retried_without_a_retry_policy() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nqueueTimeout: 5m\nsteps: [{name: a, agent: x, timeout: 1h}]")
        .await;
    let started = lab.start("one", json!(null)).await;
    pass(&lab, &clock, 5 * MINUTE).await;
    let view = lab.get(&started.id).await;
    assert_eq!(view.sub_state, SubState::BackingOff);
    assert_eq!(error(&view).native_code, "QUEUE_TIMEOUT");
    pass(&lab, &clock, MINUTE).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let task = worker.task().await;
    assert_eq!(task.task.attempt, 2);
    worker.done(&task, json!(1));
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn a_pause_stops_the_clock_of_an_attempt() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1m}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    worker.task().await;
    pass(&lab, &clock, 20 * SECOND).await;
    pause(&lab, &started.id).await;
    pass(&lab, &clock, HOUR).await;
    let paused = lab.get(&started.id).await;
    assert_eq!(
        (paused.sub_state, paused.reason),
        (SubState::Waiting, Some(Reason::Paused))
    );
    resume(&lab, &started.id).await;
    pass(&lab, &clock, 39 * SECOND).await;
    assert_eq!(lab.get(&started.id).await.sub_state, SubState::Running);
    pass(&lab, &clock, SECOND).await;
    assert_eq!(lab.ended(&started.id).await.reason, Some(Reason::TimedOut));
}

#[tokio::test]
async fn a_pause_stops_the_clock_of_the_queue() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1m, queueTimeout: 1m, retryPolicy: {maxRetries: 0}}]")
        .await;
    let started = lab.start("one", json!(null)).await;
    pass(&lab, &clock, 20 * SECOND).await;
    pause(&lab, &started.id).await;
    pass(&lab, &clock, HOUR).await;
    resume(&lab, &started.id).await;
    pass(&lab, &clock, 39 * SECOND).await;
    assert_eq!(lab.get(&started.id).await.last_error, None);
    pass(&lab, &clock, SECOND).await;
    let view = lab.ended(&started.id).await;
    assert_eq!(error(&view).native_code, "QUEUE_TIMEOUT");
}

#[tokio::test]
async fn a_pause_does_not_stop_the_clock_of_the_workflow() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\ntimeout: 1m\nsteps: [{name: a, agent: x, timeout: 5s}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    worker.task().await;
    pause(&lab, &started.id).await;
    pass(&lab, &clock, MINUTE).await;
    let view = lab.ended(&started.id).await;
    assert_eq!(
        (view.sub_state, view.reason),
        (SubState::Failed, Some(Reason::TimedOut))
    );
    let WorkerMessage::Withdrawn { reason, .. } = worker.message().await else {
        panic!("the task is withdrawn");
    };
    assert_eq!(reason, "TIMED_OUT");
}
