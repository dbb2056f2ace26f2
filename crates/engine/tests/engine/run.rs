//! Executions run: chains, failures, children, signals, restarts.

use std::sync::Arc;

use serde_json::json;
use stateway_engine::{ErrorKind, Steer, WorkerMessage};
use stateway_model::{ErrorCategory, Reason, SubState};

use crate::lab::Lab;

const CHAIN: &str = "
name: chain
steps:
  - {name: a, agent: x, timeout: 1m}
  - {name: b, agent: x, dependsOn: [a], timeout: 1m}
  - {name: c, agent: x, dependsOn: [b], timeout: 1m}
";

#[tokio::test]
async fn a_chain_runs_to_its_end() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    lab.worker("w1", &["x"], 4).diligent();
    let started = lab.start("chain", json!({"n": 1})).await;
    let ended = lab.ended(&started.id).await;
    assert_eq!(ended.sub_state, SubState::Succeeded);
    assert_eq!(*ended.output.unwrap(), json!({"c": {"did": "c"}}));
    let history = lab
        .engine
        .history(started.id.clone(), 0, 100)
        .await
        .unwrap();
    let names: Vec<_> = history
        .iter()
        .map(|record| record.event.fact.name())
        .collect();
    assert_eq!(
        names,
        [
            "ExecutionCreated",
            "ExecutionQueued",
            "ExecutionStarted",
            "StepStarted",
            "TaskAssigned",
            "StepCompleted",
            "StepStarted",
            "TaskAssigned",
            "StepCompleted",
            "StepStarted",
            "TaskAssigned",
            "StepCompleted",
            "ExecutionCompleted"
        ]
    );
}

#[tokio::test]
async fn a_task_that_no_connected_worker_can_take_waits_for_one() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let started = lab.start("chain", json!(null)).await;
    assert_eq!(
        (started.sub_state, started.reason),
        (SubState::Waiting, Some(Reason::NoWorker))
    );
    assert_eq!(
        waits(&started),
        [("capacity", "x", "no worker of role `x` is connected")]
    );
    let listed = lab.engine.list(stuck()).await.unwrap().items;
    assert_eq!(listed.len(), 1, "the row is found by its sub-state too");

    // A worker of the role that is busy is no reason to wait for one: the next task is its own turn.
    let mut worker = lab.worker("w1", &["x"], 1);
    let task = worker.task().await;
    let second = lab.start("chain", json!(null)).await;
    assert_eq!(second.sub_state, SubState::Running);
    assert_eq!(
        waits(&second),
        [("capacity", "x", "1 worker of role `x` is connected")]
    );
    assert_eq!(lab.engine.list(stuck()).await.unwrap().items.len(), 0);

    // When the last worker of the role has gone, its task and the other are waiting again.
    drop(task);
    drop(worker);
    for id in [started.id, second.id] {
        let view = lab.until(&id, |view| view.reason == Some(Reason::NoWorker));
        assert_eq!(view.await.sub_state, SubState::Waiting);
    }
}

fn waits(view: &stateway_engine::View) -> Vec<(&str, &str, &str)> {
    let waits = view.waits.iter();
    waits
        .map(|wait| (wait.kind.as_str(), wait.name.as_str(), wait.detail.as_str()))
        .collect()
}

/// The executions whose row shows that they wait.
fn stuck() -> stateway_engine::ListQuery {
    stateway_engine::ListQuery {
        sub_states: vec![SubState::Waiting],
        limit: 9,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_restart_takes_up_what_was_left() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("chain", json!(null)).await;
    let task = worker.task().await;
    worker.done(&task, json!(1));
    let second = worker.task().await;
    assert_eq!(&*second.task.step, "b");
    drop(worker);
    let lab = lab.restart();
    // The same worker comes back with its answer, and its answer counts.
    let mut worker = lab.worker("w1", &["x"], 1).remembers(&second);
    worker.done(&second, json!(2));
    assert_eq!(&*worker.task().await.task.step, "c");
    let view = lab.get(&started.id).await;
    assert_eq!(view.steps.len(), 3);
}

async fn is_accepted_again(worker: &mut crate::lab::Hand, task: &stateway_engine::WorkerTask) {
    match worker.message().await {
        WorkerMessage::Accepted { token } => assert_eq!(token, task.token),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_result_whose_acceptance_was_lost_is_accepted_again() {
    let lab = Lab::new();
    lab.apply("name: one\nsteps: [{name: a, agent: x}]").await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let id = lab.start("one", json!(null)).await.id;
    let task = worker.task().await;
    worker.done(&task, json!(1));
    lab.ended(&id).await;
    drop(worker);
    let mut worker = lab.worker("w1", &["x"], 1);
    worker.done(&task, json!(1));
    is_accepted_again(&mut worker, &task).await;
    // Also after a restart, and a result that counted does not count twice.
    let events = lab.engine.history(id.clone(), 0, 100).await.unwrap().len();
    let lab = lab.restart();
    let mut worker = lab.worker("w1", &["x"], 1);
    worker.done(&task, json!(1));
    is_accepted_again(&mut worker, &task).await;
    let history = lab.engine.history(id.clone(), 0, 100).await.unwrap();
    assert_eq!(history.len(), events);
    // Another result is not in the log, and another worker did not have the attempt.
    worker.done(&task, json!(2));
    let mut other = lab.worker("w2", &["x"], 1);
    other.done(&task, json!(1));
    for worker in [&mut worker, &mut other] {
        match worker.message().await {
            WorkerMessage::Refused { reason, .. } => assert_eq!(reason, "STALE_TASK"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_failure_whose_acceptance_was_lost_is_accepted_again_and_counts_once() {
    let lab = Lab::new();
    lab.apply("name: one\nsteps: [{name: a, agent: x, retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 1h}}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let id = lab.start("one", json!(null)).await.id;
    let task = worker.task().await;
    worker.failed(&task, ErrorCategory::Transient);
    lab.until(&id, |view| view.sub_state == SubState::BackingOff)
        .await;
    drop(worker);
    let mut worker = lab.worker("w1", &["x"], 1);
    worker.failed(&task, ErrorCategory::Transient);
    is_accepted_again(&mut worker, &task).await;
    assert_eq!(lab.get(&id).await.steps[0].retry.attempt, 1);
}

#[tokio::test]
async fn an_answer_for_a_task_of_someone_else_is_stale() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let mut first = lab.worker("w1", &["x"], 1);
    lab.start("chain", json!(null)).await;
    let task = first.task().await;
    let mut second = lab.worker("w2", &["x"], 1);
    second.done(&task, json!(1));
    match second.message().await {
        WorkerMessage::Refused { reason, .. } => assert_eq!(reason, "STALE_TASK"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_failed_attempt_backs_off_and_is_retried_when_its_time_comes() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 30s}}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let task = worker.task().await;
    worker.failed(&task, ErrorCategory::Transient);
    let view = lab
        .until(&started.id, |view| view.sub_state == SubState::BackingOff)
        .await;
    assert_eq!(view.steps[0].retry.attempt, 1);
    clock.advance(30_000);
    let task = worker.task().await;
    assert_eq!(task.task.attempt, 2);
    worker.done(&task, json!(1));
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn a_timer_that_fell_due_while_down_fires() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: nap\nsteps: [{name: a, sleep: 2h}]").await;
    let started = lab.start("nap", json!(null)).await;
    assert_eq!(started.sub_state, SubState::Waiting);
    clock.advance(3 * 3_600_000);
    let lab = lab.restart();
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn a_signal_reaches_an_execution_that_left_memory() {
    let lab = Lab::new();
    lab.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let started = lab.start("gate", json!(null)).await;
    let signal = Steer::Signal {
        name: "go".into(),
        payload: std::sync::Arc::new(json!({"ok": true})),
    };
    lab.steer(&started.id, signal).await.unwrap();
    let ended = lab.ended(&started.id).await;
    assert_eq!(*ended.output.unwrap(), json!({"a": {"ok": true}}));
}

#[tokio::test]
async fn a_child_does_a_step_of_its_parent() {
    let lab = Lab::new();
    lab.apply("name: inner\nsteps: [{name: i, agent: x, timeout: 1m}]")
        .await;
    lab.apply("name: outer\nsteps: [{name: o, workflow: inner}]")
        .await;
    lab.worker("w1", &["x"], 1).diligent();
    let started = lab.start("outer", json!({"n": 1})).await;
    let ended = lab.ended(&started.id).await;
    assert_eq!(*ended.output.unwrap(), json!({"o": {"i": {"did": "i"}}}));
}

#[tokio::test]
async fn the_same_request_is_done_once_and_another_body_is_refused() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let start = lab.start_of("chain", json!(1));
    let first = lab.engine.start(start.clone()).await.unwrap();
    let again = lab.engine.start(start.clone()).await.unwrap();
    assert_eq!(first.id, again.id);
    let lab = lab.restart();
    let again = lab.engine.start(start.clone()).await.unwrap();
    assert_eq!(first.id, again.id);
    let mut other = start;
    other.request.body = [9; 16];
    let error = lab.engine.start(other).await.unwrap_err();
    assert_eq!(error.reason, "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn a_request_that_an_earlier_build_carried_out_is_not_carried_out_again() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let mut start = lab.start_of("chain", json!(1));
    // Earlier builds computed other digests, without a version.
    let digest = std::mem::replace(&mut start.request.body, [7; 16]);
    let first = lab.engine.start(start.clone()).await.unwrap();
    let lab = lab.restart();
    start.request.body = digest;
    let again = lab.engine.start(start).await.unwrap();
    assert_eq!(first.id, again.id);
}

#[tokio::test]
async fn work_is_done_again_from_a_step_as_a_new_branch() {
    let lab = Lab::new();
    lab.apply(CHAIN).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("chain", json!(null)).await;
    let a = worker.task().await;
    worker.done(&a, json!(1));
    let b = worker.task().await;
    worker.failed(&b, ErrorCategory::AgentError);
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Failed);
    let from = stateway_engine::RetryFrom {
        step: "".into(),
        ..stateway_engine::RetryFrom::default()
    };
    let view = lab
        .engine
        .retry_from(started.id.clone(), from, "ada".into(), lab.key(3))
        .await
        .unwrap();
    assert_eq!((view.sub_state, view.branch), (SubState::Running, 1));
    let b = worker.task().await;
    assert_eq!(&*b.task.step, "b");
    worker.done(&b, json!(2));
    let lab = lab.restart();
    let mut worker = lab.worker("w1", &["x"], 1);
    let c = worker.task().await;
    worker.done(&c, json!(3));
    let ended = lab.ended(&started.id).await;
    assert_eq!(ended.sub_state, SubState::Succeeded);
    let history = lab
        .engine
        .history(started.id.clone(), 0, 100)
        .await
        .unwrap();
    let sequences: Vec<_> = history.iter().map(|record| record.event.sequence).collect();
    assert_eq!(sequences, (1..=history.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_undone_is_done_again_too() {
    let lab = Lab::new();
    lab.apply("name: saga\nfailurePolicy: compensate\nsteps: [{name: a, agent: x, timeout: 1m}, {name: b, agent: x, timeout: 1m, dependsOn: [a]}]\ncompensation: [{step: a, agent: x}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("saga", json!(null)).await;
    let a = worker.task().await;
    worker.done(&a, json!(1));
    let b = worker.task().await;
    worker.failed(&b, ErrorCategory::Validation);
    let undo = worker.task().await;
    assert!(undo.task.undo);
    worker.done(&undo, json!(null));
    lab.ended(&started.id).await;
    let from = stateway_engine::RetryFrom {
        step: "b".into(),
        ..stateway_engine::RetryFrom::default()
    };
    lab.engine
        .retry_from(started.id.clone(), from, "ada".into(), lab.key(3))
        .await
        .unwrap();
    assert_eq!(&*worker.task().await.task.step, "a");
}

#[tokio::test]
async fn a_control_character_in_an_id_is_refused_or_found_nowhere_and_disturbs_nobody() {
    let lab = Lab::new();
    lab.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let kept = lab.start("gate", json!(null)).await.id;
    let mut worker = lab.worker("w", &["x"], 1);
    for id in ["\0", "e\0", "e\n", "\u{7f}", "e\u{85}"] {
        let mut start = lab.start_of("gate", json!(null));
        start.id = Some(id.into());
        let refused = lab.engine.start(start).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.reason),
            (ErrorKind::InvalidArgument, "INVALID_EXECUTION_ID"),
            "{refused:?}"
        );
        assert!(!refused.hint.is_empty(), "{refused:?}");
    }
    let unknown: Arc<str> = format!("{kept}\0").into();
    let signal = Steer::Signal {
        name: "go\0".into(),
        payload: Arc::new(json!(null)),
    };
    let mut start = lab.start_of("gate\0", json!(null));
    start.id = Some("e".into());
    let not_found = [
        lab.engine.start(start).await.unwrap_err(),
        lab.engine.get(Arc::clone(&unknown)).await.unwrap_err(),
        lab.steer(&unknown, signal).await.unwrap_err(),
        lab.engine.remove(unknown).await.unwrap_err(),
    ];
    for error in not_found {
        assert_eq!(error.kind, ErrorKind::NotFound, "{error:?}");
    }
    let begun = lab.start("gate", json!(null)).await.id;
    assert_eq!(lab.ids().await, [begun, kept]);
    // The worker is still connected: nothing was loaded again.
    lab.apply("name: job\nsteps: [{name: a, agent: x}]").await;
    lab.start("job", json!(null)).await;
    let _ = worker.task().await;
}
