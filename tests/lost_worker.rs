//! Tasks that a worker has: what becomes of them when the worker is lost, when their time is over,
//! when their execution ends, and when the worker rules out another attempt.

use serde_json::{Value, json};
use stateway_client::v1;
use stateway_client::v1::stream_tasks_request::Message as Said;
use stateway_client::v1::stream_tasks_response::Message as Told;
use stateway_engine::Clock;

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
async fn withdrawn(worker: &mut TestWorker) -> &'static str {
    loop {
        if let Told::Withdrawn(withdrawn) = worker.next().await.expect("a message") {
            return withdrawn.reason().as_str_name();
        }
    }
}

fn is(state: &'static str) -> impl Fn(&v1::Execution) -> bool {
    move |view| view.native_state == state
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
    rig.until("e1", is("completed")).await;
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
    rig.until("e1", is("completed")).await;
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
    rig.until("e1", is("cancelled")).await;
}

const SIBLINGS: &str = "\
name: siblings
failurePolicy: compensate
steps:
  - {name: pay, agent: w, timeout: 5m}
  - {name: bad, agent: v, timeout: 5m}
compensation:
  - {step: pay, agent: u, timeout: 5m}
";

async fn get(rig: &BuiltInRig) -> v1::Execution {
    let request = v1::GetExecutionRequest {
        name: "providers/b/executions/e1".into(),
        view: v1::ExecutionView::Full.into(),
    };
    let mut client = rig.gateway.executions().await;
    client.get_execution(request).await.unwrap().into_inner()
}

/// Fails the step `bad`, which turns the execution to compensation.
async fn turn(rig: &BuiltInRig) {
    let mut worker = rig.work(offer("fails", "v")).await.unwrap();
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::AgentError);
    rig.until("e1", is("compensating")).await;
}

/// The lost worker may have paid, so `pay` is compensated, and the end is a complete rollback.
async fn is_compensated(rig: &BuiltInRig) {
    let mut undoes = rig.work(offer("undoes", "u")).await.unwrap();
    let undo = undoes.task().await;
    assert_eq!(undo.step, "pay");
    assert!(undo.compensation && undo.outcome_unknown, "{undo:?}");
    undoes.complete(&undo, &json!(null));
    rig.until("e1", is("rolled_back")).await;
    assert_eq!(get(rig).await.not_rolled_back, Vec::<String>::new());
}

#[tokio::test]
async fn work_whose_worker_was_lost_before_the_rollback_is_compensated() {
    let (rig, clock) = rig(SIBLINGS).await;
    let (killed, _) = taken(&rig, "siblings").await;
    drop(killed);
    // The worker does not reconnect in time.
    clock.advance(60_000);
    rig.until("e1", |view| {
        let pay = view.steps.iter().find(|step| step.name == "pay");
        pay.is_some_and(|pay| pay.waits.iter().any(|wait| wait.name == "w"))
    })
    .await;
    turn(&rig).await;
    is_compensated(&rig).await;
}

/// The worker takes no other task.
fn leaving() -> Said {
    Said::Offer(v1::Offer {
        capacity: 0,
        ..offer("first", "w")
    })
}

#[tokio::test]
async fn work_that_a_worker_began_and_gave_back_is_compensated() {
    let (rig, _clock) = rig(SIBLINGS).await;
    let (worker, task) = taken(&rig, "siblings").await;
    worker.say(leaving());
    worker.say(Said::Released(v1::TaskReleased {
        task_token: task.task_token,
        begun: true,
    }));
    turn(&rig).await;
    is_compensated(&rig).await;
}

#[tokio::test]
async fn work_that_a_worker_gave_back_before_it_began_is_not_compensated() {
    let (rig, _clock) = rig(SIBLINGS).await;
    let (worker, task) = taken(&rig, "siblings").await;
    drop(rig.work(offer("undoes", "u")).await.unwrap());
    worker.say(leaving());
    worker.say(Said::Released(v1::TaskReleased {
        task_token: task.task_token,
        begun: false,
    }));
    let mut fails = rig.work(offer("fails", "v")).await.unwrap();
    let bad = fails.task().await;
    fails.fail(&bad, v1::ErrorCategory::AgentError);
    rig.until("e1", is("rolled_back")).await;
    assert_eq!(get(&rig).await.not_rolled_back, Vec::<String>::new());
}

#[tokio::test]
async fn a_step_that_times_out_in_a_workers_hands_is_compensated() {
    let (rig, clock) = rig(SIBLINGS).await;
    let (_worker, _) = taken(&rig, "siblings").await;
    clock.advance(5 * 60_000);
    rig.until("e1", is("compensating")).await;
    is_compensated(&rig).await;
    let execution = get(&rig).await;
    let error = execution.last_error.expect("the timeout");
    assert_eq!(
        (error.step.as_str(), error.category().label()),
        ("pay", "timeout")
    );
}

#[tokio::test]
async fn a_failure_that_may_have_taken_effect_is_compensated() {
    let (rig, _clock) = rig(SIBLINGS).await;
    let (worker, task) = taken(&rig, "siblings").await;
    worker.say(Said::Failed(v1::TaskFailed {
        task_token: task.task_token,
        category: v1::ErrorCategory::AgentError.into(),
        message: "killed".into(),
        effects_unknown: true,
        ..v1::TaskFailed::default()
    }));
    rig.until("e1", is("compensating")).await;
    is_compensated(&rig).await;
}

const PARENT: &str = "\
name: parent
failurePolicy: compensate
steps:
  - {name: pay, workflow: child, timeout: 5m}
  - {name: bad, agent: v, timeout: 5m}
compensation:
  - {step: pay, agent: u, timeout: 5m}
";

const CHILD: &str = "\
name: child
failurePolicy: abort
steps:
  - {name: charge, agent: w, timeout: 5m}
  - {name: wait, signal: go, dependsOn: [charge]}
";

/// The child completed a step and is cancelled without compensation: its effects are left.
#[tokio::test]
async fn a_child_that_leaves_effects_is_compensated_by_its_parent() {
    let (rig, _clock) = rig(CHILD).await;
    rig.apply(PARENT).await;
    let (worker, task) = taken(&rig, "parent").await;
    worker.complete(&task, &json!(1));
    rig.until("e1~pay~1", is("awaiting_signal")).await;
    turn(&rig).await;
    is_compensated(&rig).await;
}

#[tokio::test]
async fn the_end_by_the_workflows_timeout_says_that_there_was_no_worker() {
    let (rig, clock) =
        rig("name: alone\ntimeout: 1m\nsteps: [{name: a, agent: w, timeout: 5m}]\n").await;
    rig.begin("alone", "e1", "ada", Value::Null).await;
    clock.advance(61_000);
    rig.until("e1", is("failed")).await;
    let error = get(&rig).await.last_error.expect("the timeout");
    assert_eq!(
        error.message,
        "the execution took longer than its timeout of 1m: step `a` waited for a worker of role `w`: \
         no worker of role `w` is connected"
    );
}

const RETRIED: &str = "\
name: retried
failurePolicy: compensate
steps:
  - {name: pay, agent: w, timeout: 5m}
  - {name: bad, agent: v, timeout: 5m, dependsOn: [pay]}
compensation:
  - {step: pay, agent: u, timeout: 5m, retryPolicy: {maxRetries: 5, initialDelay: 30s}}
";

/// The figures are those of the compensation, and `RetryNow` cuts its back-off short.
#[tokio::test]
async fn a_compensation_that_is_retried_is_backing_off() {
    let (rig, _clock) = rig(RETRIED).await;
    let (worker, task) = taken(&rig, "retried").await;
    worker.complete(&task, &json!(1));
    turn(&rig).await;
    let mut undoes = rig.work(offer("undoes", "u")).await.unwrap();
    let undo = undoes.task().await;
    undoes.fail(&undo, v1::ErrorCategory::Transient);
    rig.until("e1", |view| view.sub_state() == v1::SubState::BackingOff)
        .await;
    let execution = get(&rig).await;
    assert_eq!(execution.reason().label(), "COMPENSATING");
    let retry = execution.retry.expect("retry figures");
    assert_eq!((retry.attempt, retry.max_attempt_count), (1, Some(6)));
    assert!(retry.next_attempt_time.is_some());
    let request = v1::RetryNowRequest {
        name: "providers/b/executions/e1".into(),
        ..v1::RetryNowRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.retry_now(by("ada", "", request)).await.unwrap();
    let again = undoes.task().await;
    assert!(again.compensation);
    undoes.complete(&again, &json!(null));
    rig.until("e1", is("rolled_back")).await;
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
        category: v1::ErrorCategory::Transient.into(),
        message: "the account is closed".into(),
        no_retry: true,
        ..v1::TaskFailed::default()
    }));
    let view = rig.until("e1", is("failed")).await;
    let error = view.last_error.expect("an error");
    assert_eq!(
        (error.message.as_str(), error.attempt),
        ("the account is closed", 1)
    );
}
