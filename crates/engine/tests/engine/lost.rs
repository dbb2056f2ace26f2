//! Workers that are lost: silent, or gone. Their tasks go to other workers, a few times.

use std::time::Duration;

use serde_json::json;
use stateway_engine::{View, WorkerMessage};
use stateway_model::{ErrorCategory, Reason, SubState};

use crate::lab::{Hand, Lab};
use crate::time::pass;

const SECOND: i64 = 1_000;

async fn withdrawn(worker: &mut Hand) -> &'static str {
    match worker.message().await {
        WorkerMessage::Withdrawn { reason, .. } => reason,
        other => panic!("expected a withdrawal, got {other:?}"),
    }
}

/// The names of the facts of an execution.
async fn facts(lab: &Lab, view: &View) -> Vec<&'static str> {
    let history = lab.engine.history(view.id.clone(), 0, 1_000).await.unwrap();
    let names = history.iter().map(|record| record.event.fact.name());
    names.collect()
}

#[tokio::test]
async fn a_task_whose_worker_sends_no_heartbeat_goes_to_another_worker() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 4s}]")
        .await;
    let mut silent = lab.worker("silent", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let lost = silent.task().await;
    let mut other = lab.worker("other", &["x"], 1);
    pass(&lab, &clock, 4 * SECOND).await;
    assert_eq!(withdrawn(&mut silent).await, "WORKER_LOST");
    let task = other.task().await;
    assert_eq!(task.task, lost.task, "the same attempt");
    silent.done(&lost, json!("late"));
    let WorkerMessage::Refused { reason, .. } = silent.message().await else {
        panic!("a late answer is refused");
    };
    assert_eq!(reason, "STALE_TASK");
    other.done(&task, json!("in time"));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.sub_state, SubState::Succeeded);
    assert_eq!(view.output.as_deref(), Some(&json!({"a": "in time"})));
}

#[tokio::test]
async fn a_silent_worker_gets_no_task_until_a_message_comes_from_it() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 4s}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 2);
    let started = lab.start("one", json!(null)).await;
    let lost = worker.task().await;
    pass(&lab, &clock, 4 * SECOND).await;
    assert_eq!(withdrawn(&mut worker).await, "WORKER_LOST");
    let second = lab.start("one", json!(null)).await;
    pass(&lab, &clock, 60 * SECOND).await;
    for view in [&started, &second] {
        let assigned = facts(&lab, view).await;
        let assigned = assigned.iter().filter(|name| **name == "TaskAssigned");
        let before = usize::from(view.id == started.id);
        assert_eq!(assigned.count(), before, "{}", view.id);
    }
    worker.forgets(&lost);
    worker.session.answers().heartbeat(None, None);
    for _ in 0..2 {
        let task = worker.task().await;
        worker.done(&task, json!(1));
    }
    for view in [&started, &second] {
        assert_eq!(lab.ended(&view.id).await.sub_state, SubState::Succeeded);
    }
}

#[tokio::test]
async fn a_task_with_a_heartbeat_timeout_survives_a_killed_worker() {
    let lab = Lab::with(|config| config.reconnect = Duration::from_millis(1));
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 1h}]")
        .await;
    let mut killed = lab.worker("killed", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    killed.task().await;
    let mut other = lab.worker("other", &["x"], 1);
    drop(killed);
    let task = other.task().await;
    assert_eq!(task.task.attempt, 1);
    other.done(&task, json!(1));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.sub_state, SubState::Succeeded);
    assert!(facts(&lab, &view).await.contains(&"TaskReleased"));
}

#[tokio::test]
async fn a_heartbeat_keeps_the_task() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 4s}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let task = worker.task().await;
    for _ in 0..3 {
        pass(&lab, &clock, 3 * SECOND).await;
        let answers = worker.session.answers();
        answers.heartbeat(Some(task.token.clone()), None);
    }
    worker.done(&task, json!(1));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.sub_state, SubState::Succeeded);
    assert!(!facts(&lab, &view).await.contains(&"TaskReleased"));
}

#[tokio::test]
async fn too_many_lost_workers_in_a_row_fail_the_attempt_as_retryable() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(
        "name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 4s, maxHandOuts: 2}]",
    )
    .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    for _ in 0..2 {
        let task = worker.task().await;
        assert_eq!(task.task.attempt, 1);
        pass(&lab, &clock, 4 * SECOND).await;
        assert_eq!(withdrawn(&mut worker).await, "WORKER_LOST");
        worker.forgets(&task);
        worker.session.answers().heartbeat(None, None);
    }
    let view = lab.get(&started.id).await;
    assert_eq!(view.sub_state, SubState::BackingOff);
    let error = view.last_error.expect("an error");
    assert_eq!(error.category, Some(ErrorCategory::Transient));
    assert_eq!(
        error.message,
        "the worker was lost 2 times in a row: it disconnected or stopped responding"
    );
    pass(&lab, &clock, 60 * SECOND).await;
    let task = worker.task().await;
    assert_eq!(task.task.attempt, 2);
    worker.done(&task, json!(1));
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn lost_workers_are_not_in_a_row_when_one_gave_the_task_back() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(
        "name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 4s, maxHandOuts: 2, retryPolicy: {maxRetries: 0}}]",
    )
    .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    for round in 0..3 {
        let task = worker.task().await;
        if round == 1 {
            let answers = worker.session.answers();
            answers.settle(
                task.token.clone(),
                stateway_engine::Outcome::Released { begun: false },
                None,
            );
        } else {
            pass(&lab, &clock, 4 * SECOND).await;
            assert_eq!(withdrawn(&mut worker).await, "WORKER_LOST");
        }
        worker.forgets(&task);
        worker.session.answers().heartbeat(None, None);
    }
    let task = worker.task().await;
    assert_eq!(task.task.attempt, 1);
    worker.done(&task, json!(1));
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn an_attempt_lost_too_often_without_a_retry_left_fails_the_execution() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(
        "name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 4s, maxHandOuts: 1, retryPolicy: {maxRetries: 0}}]",
    )
    .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    worker.task().await;
    pass(&lab, &clock, 4 * SECOND).await;
    let view = lab.ended(&started.id).await;
    assert_eq!(
        (view.sub_state, view.reason),
        (SubState::Failed, Some(Reason::NotRetryable))
    );
    let message = view.last_error.expect("an error").message;
    assert_eq!(
        message,
        "the worker was lost: it disconnected or stopped responding"
    );
}

#[tokio::test]
async fn heartbeats_are_no_events() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 9h, heartbeatTimeout: 10s}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let task = worker.task().await;
    for _ in 0..200 {
        clock.advance(3 * SECOND);
        let answers = worker.session.answers();
        answers.heartbeat(Some(task.token.clone()), None);
        // An execution is shown when the turn ends.
        lab.get(&started.id).await;
    }
    worker.done(&task, json!(1));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.sub_state, SubState::Succeeded);
    let facts = facts(&lab, &view).await;
    assert!(!facts.contains(&"TaskReleased"), "{facts:?}");
    assert!(!facts.contains(&"HeartbeatRecorded"), "{facts:?}");
}

#[tokio::test]
async fn after_a_restart_a_worker_has_its_whole_time_for_the_next_heartbeat() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 9h, heartbeatTimeout: 4s}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let task = worker.task().await;
    let lab = lab.restart_after(|| clock.advance(60 * SECOND));
    let mut worker = lab.worker("w1", &["x"], 1).remembers(&task);
    pass(&lab, &clock, 3 * SECOND).await;
    worker.done(&task, json!(1));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.sub_state, SubState::Succeeded);
    assert!(!facts(&lab, &view).await.contains(&"TaskReleased"));
    // Silence counts again from the restart on.
    let silent = lab.start("one", json!(null)).await;
    worker.task().await;
    let lab = lab.restart();
    pass(&lab, &clock, 4 * SECOND).await;
    assert!(facts(&lab, &silent).await.contains(&"TaskReleased"));
}

#[tokio::test]
async fn the_answer_of_an_earlier_hand_out_to_the_same_worker_is_refused() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h, heartbeatTimeout: 4s}]")
        .await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let first = worker.task().await;
    pass(&lab, &clock, 4 * SECOND).await;
    assert_eq!(withdrawn(&mut worker).await, "WORKER_LOST");
    worker.session.answers().heartbeat(None, None);
    let second = worker.task().await;
    assert_eq!(second.task, first.task, "the same attempt");
    assert_ne!(second.token, first.token, "another hand-out");
    worker.done(&first, json!("straggler"));
    let WorkerMessage::Refused { reason, .. } = worker.message().await else {
        panic!("the answer of the straggler is refused");
    };
    assert_eq!(reason, "STALE_TASK");
    // The straggler's heartbeats do not keep the task either.
    let answers = worker.session.answers();
    pass(&lab, &clock, 3 * SECOND).await;
    answers.heartbeat(Some(first.token.clone()), None);
    pass(&lab, &clock, SECOND).await;
    assert_eq!(withdrawn(&mut worker).await, "WORKER_LOST");
    answers.heartbeat(None, None);
    let third = worker.task().await;
    worker.done(&third, json!("in time"));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.output.as_deref(), Some(&json!({"a": "in time"})));
}
