//! Nothing is acknowledged that cannot be read back, replayed, listed and sent.

use std::sync::Arc;

use serde_json::{Value, json};
use stateway_engine::{Publish, Steer};
use stateway_machine::{MAX_EVENT_BYTES, MAX_PAYLOAD_DEPTH};
use stateway_model::{Reason, SubState};

use crate::lab::Lab;

const MIB: usize = 1024 * 1024;

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

/// JSON of so many bytes.
fn long(bytes: usize) -> Value {
    json!("x".repeat(bytes - 2))
}

#[tokio::test]
async fn a_payload_that_is_too_deep_is_refused_at_every_door() {
    let lab = Lab::new();
    lab.apply("name: gate\nsteps: [{name: a, signal: go}, {name: b, agent: x, dependsOn: [a]}]")
        .await;
    let deep = nested(MAX_PAYLOAD_DEPTH + 1);
    let refused = lab.engine.start(lab.start_of("gate", deep.clone())).await;
    assert_eq!(refused.unwrap_err().reason, "PAYLOAD_TOO_DEEP");
    let id = lab.start("gate", nested(MAX_PAYLOAD_DEPTH)).await.id;
    let signal = |payload: Value| Steer::Signal {
        name: "go".into(),
        payload: Arc::new(payload),
    };
    let refused = lab.steer(&id, signal(deep.clone())).await;
    assert_eq!(refused.unwrap_err().reason, "PAYLOAD_TOO_DEEP");
    let event = Publish {
        id: "e".into(),
        name: "e".into(),
        payload: Arc::new(deep.clone()),
        labels: Default::default(),
        actor: "ada".into(),
    };
    let refused = lab.engine.publish(event).await;
    assert_eq!(refused.unwrap_err().reason, "PAYLOAD_TOO_DEEP");
    let again = stateway_engine::RetryFrom {
        step: "a".into(),
        input: Some(Arc::new(deep.clone())),
        ..stateway_engine::RetryFrom::default()
    };
    let key = lab.key(2);
    let refused = lab
        .engine
        .retry_from(Arc::clone(&id), again, "ada".into(), key)
        .await;
    assert_eq!(refused.unwrap_err().reason, "PAYLOAD_TOO_DEEP");
    lab.steer(&id, signal(nested(MAX_PAYLOAD_DEPTH)))
        .await
        .unwrap();
    let mut worker = lab.worker("w", &["x"], 1);
    let task = worker.task().await;
    worker.done(&task, deep);
    let ended = lab.ended(&id).await;
    assert!(ended.last_error.unwrap().message.contains("64 levels"));
    let lab = lab.restart();
    assert_eq!(lab.get(&id).await.sub_state, SubState::Failed);
    assert_eq!(lab.engine.survey().await.unwrap().damaged, []);
}

#[tokio::test]
async fn an_execution_whose_output_no_event_holds_fails_and_can_be_read() {
    let lab = Lab::new();
    lab.apply(
        "name: wide\nsteps: [{name: a, agent: x}]\noutput: {a: '${steps.a.output}', \
         b: '${steps.a.output}', c: '${steps.a.output}', d: '${steps.a.output}', \
         e: '${steps.a.output}'}",
    )
    .await;
    lab.apply("name: outer\nsteps: [{name: c, workflow: wide}]")
        .await;
    let id = lab.start("outer", json!(null)).await.id;
    let mut worker = lab.worker("w", &["x"], 1);
    let task = worker.task().await;
    worker.done(&task, long(MIB));
    let ended = lab.ended(&id).await;
    assert_eq!(ended.reason, Some(Reason::NotRetryable));
    let child: Arc<str> = format!("{id}~c~1").into();
    let lab = lab.restart();
    let failed = lab.get(&child).await;
    let message = failed.last_error.unwrap().message;
    for part in ["2097152 bytes", "limit of 1048576", "`output`"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    for id in [id, child] {
        assert_eq!(lab.engine.verify(id).await.unwrap().findings, []);
    }
}

#[tokio::test]
async fn an_event_that_could_not_be_read_is_refused_at_the_append() {
    let lab = Lab::new();
    lab.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let id = lab.start("gate", json!(null)).await.id;
    let pause = Steer::Pause {
        cause: "x".repeat(MAX_EVENT_BYTES).into(),
    };
    let refused = lab.steer(&id, pause).await.unwrap_err();
    assert_eq!(refused.reason, "EVENT_TOO_LARGE");
    assert!(refused.message.contains("ExecutionPaused"));
    assert_eq!(lab.get(&id).await.reason, Some(Reason::AwaitingInput));
    let lab = lab.restart();
    assert_eq!(lab.get(&id).await.reason, Some(Reason::AwaitingInput));
}

#[test]
fn limits_that_do_not_fit_are_refused_when_the_engine_opens() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = stateway_engine::Config::new(folder.path().join("store.db"));
    config.max_payload_bytes = 8 * MIB;
    let refused = stateway_engine::Engine::open(&config).unwrap_err();
    assert_eq!(refused.reason, "LIMITS_DO_NOT_FIT");
}

/// An attempt that a build without the limit opened: its input is longer than a message.
#[tokio::test]
async fn a_task_that_no_message_holds_fails_at_the_hand_out_and_others_are_handed_out() {
    let lab = Lab::new();
    lab.apply("name: work\nsteps: [{name: a, agent: x}]").await;
    let large = lab.start("work", long(MIB)).await.id;
    let mut lab = lab;
    lab.config.max_message_bytes = MIB;
    lab.config.max_payload_bytes = 300 * 1024;
    let lab = lab.restart();
    let small = lab.start("work", json!("small")).await.id;
    let mut worker = lab.worker("w", &["x"], 1);
    let task = worker.task().await;
    assert_eq!(task.execution, small);
    worker.done(&task, json!("done"));
    assert_eq!(lab.ended(&small).await.sub_state, SubState::Succeeded);
    let failed = lab.ended(&large).await;
    assert_eq!(failed.reason, Some(Reason::NotRetryable));
    let message = failed.last_error.unwrap().message;
    for part in ["bytes", "at most 1048576", "`max_message_bytes`", "`input`"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

/// The worker's own limit is lower than the gateway's: its stream ends whenever it gets the task.
#[tokio::test]
async fn a_task_that_ends_every_session_of_its_worker_goes_to_another_one_and_fails_at_last() {
    let lab = Lab::with(|config| config.reconnect = std::time::Duration::from_secs(600));
    lab.apply(
        "name: work\nsteps: [{name: a, agent: x, maxHandOuts: 2, retryPolicy: {maxRetries: 0}}]",
    )
    .await;
    let small = lab.start("work", json!("small")).await.id;
    let large = lab.start("work", json!("x".repeat(1_000))).await.id;
    let mut seen = 0;
    while lab.get(&large).await.sub_state != SubState::Failed {
        let mut worker = lab.worker("w", &["x"], 2);
        // Both tasks, or only the small one.
        worker.task().await;
        seen += 1;
        assert!(seen < 50, "the task never fails");
    }
    let message = lab.get(&large).await.last_error.unwrap().message;
    assert!(
        message.contains("the worker was lost 2 times in a row"),
        "{message}"
    );
    let mut worker = lab.worker("w", &["x"], 2);
    let task = worker.task().await;
    assert_eq!(task.execution, small);
    worker.done(&task, json!("done"));
    assert_eq!(lab.ended(&small).await.sub_state, SubState::Succeeded);
}
