//! Tasks that a worker has: what becomes of them when the worker is lost, when their time is over,
//! when their execution ends, and when the worker rules out another attempt.

use serde_json::{Value, json};
use stateway_engine::{Clock, View};
use stateway_machine::ExecutionState;
use stateway_proto::v1;
use stateway_proto::v1::work_request::Message as Said;
use stateway_proto::v1::work_response::Message as Told;

use crate::support::{BuiltInRig, TestWorker, by};

const BEATS: &str = "\
name: beats
steps:
  - {name: a, agent: w, timeout: 5m, heartbeatTimeout: 4s}
";

const SAGA: &str = "\
name: saga
failurePolicy: compensate
steps:
  - {name: a, agent: w, timeout: 5m}
compensation:
  - {step: a, agent: u, timeout: 5m}
";

fn offer(id: &str, role: &str) -> v1::Offer {
    v1::Offer {
        worker_id: id.into(),
        roles: vec![role.into()],
        capacity: 1,
        ..v1::Offer::default()
    }
}

async fn rig(definition: &str) -> (BuiltInRig, Clock) {
    let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let hand = clock.clone();
    let rig = BuiltInRig::with(|config| config.clock = clock).await;
    rig.apply(definition).await;
    (rig, hand)
}

/// The execution `e1` of a definition, and the worker that has its first task.
async fn taken(rig: &BuiltInRig, definition: &str) -> (TestWorker, v1::Task) {
    let mut worker = rig.work(offer("first", "w")).await.unwrap();
    rig.begin(definition, "e1", "ada", Value::Null).await;
    let task = worker.task().await;
    (worker, task)
}

/// Why the task is withdrawn.
async fn withdrawn(worker: &mut TestWorker) -> String {
    loop {
        if let Told::Withdrawn(withdrawn) = worker.next().await.expect("a message") {
            return withdrawn.reason;
        }
    }
}

fn is(state: ExecutionState) -> impl Fn(&View) -> bool {
    move |view| view.state == state
}

async fn cancel(rig: &BuiltInRig, mode: v1::cancel_execution_request::Mode) {
    let request = v1::CancelExecutionRequest {
        name: "providers/b/executions/e1".into(),
        mode: mode.into(),
        ..v1::CancelExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client
        .cancel_execution(by("ada", "", request))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_task_of_a_killed_worker_goes_to_another_worker() {
    let (rig, _clock) = rig(BEATS).await;
    let (killed, task) = taken(&rig, "beats").await;
    let mut other = rig.work(offer("other", "w")).await.unwrap();
    drop(killed);
    let again = other.task().await;
    assert_eq!((&again.step, again.attempt), (&task.step, 1));
    other.complete(&again, &json!(1));
    rig.until("e1", is(ExecutionState::Completed)).await;
}

#[tokio::test]
async fn a_task_without_a_heartbeat_is_withdrawn_and_goes_to_another_worker() {
    let (rig, clock) = rig(BEATS).await;
    let (mut silent, task) = taken(&rig, "beats").await;
    let mut other = rig.work(offer("other", "w")).await.unwrap();
    // The gateway answers an offer when the worker is known.
    other.next().await.expect("a welcome");
    clock.advance(4_000);
    assert_eq!(withdrawn(&mut silent).await, "WORKER_LOST");
    let again = other.task().await;
    assert_eq!((&again.step, again.attempt), (&task.step, 1));
    other.complete(&again, &json!(1));
    rig.until("e1", is(ExecutionState::Completed)).await;
}

#[tokio::test]
async fn a_task_that_takes_too_long_is_withdrawn() {
    let (rig, clock) = rig(SAGA).await;
    let (mut worker, _) = taken(&rig, "saga").await;
    clock.advance(5 * 60_000);
    assert_eq!(withdrawn(&mut worker).await, "TIMED_OUT");
}

#[tokio::test]
async fn a_task_of_a_killed_execution_is_withdrawn() {
    let (rig, _clock) = rig(SAGA).await;
    let (mut worker, _) = taken(&rig, "saga").await;
    cancel(&rig, v1::cancel_execution_request::Mode::Kill).await;
    assert_eq!(withdrawn(&mut worker).await, "CANCELLED");
}

#[tokio::test]
async fn a_compensation_is_marked_where_the_worker_of_its_step_was_lost() {
    let (rig, _clock) = rig(SAGA).await;
    let (mut worker, _) = taken(&rig, "saga").await;
    cancel(&rig, v1::cancel_execution_request::Mode::Graceful).await;
    assert!(matches!(worker.next().await, Some(Told::Cancelled(_))));
    drop(worker);
    let mut undoes = rig.work(offer("undoes", "u")).await.unwrap();
    let undo = undoes.task().await;
    assert!(undo.compensation && undo.outcome_unknown, "{undo:?}");
    undoes.complete(&undo, &json!(null));
    rig.until("e1", is(ExecutionState::Cancelled)).await;
}

#[tokio::test]
async fn a_task_that_failed_for_good_is_not_retried() {
    let (rig, _clock) = rig(
        "name: once\nsteps: [{name: a, agent: w, timeout: 5m, retryPolicy: {maxRetries: 5}}]\n",
    )
    .await;
    let (worker, task) = taken(&rig, "once").await;
    worker.say(Said::Failed(v1::TaskFailed {
        task_token: task.task_token,
        category: "transient".into(),
        message: "the account is closed".into(),
        no_retry: true,
        ..v1::TaskFailed::default()
    }));
    let view = rig.until("e1", is(ExecutionState::Failed)).await;
    let error = view.last_error.expect("an error");
    assert_eq!(
        (error.message.as_str(), error.attempt),
        ("the account is closed", 1)
    );
}
