//! Limits: nothing is acknowledged that cannot be read back, replayed, listed and sent.

use serde_json::{Value, json};
use stateway_client::v1;
use tonic::Code;

use crate::support::{BuiltInRig, by};

const MIB: usize = 1024 * 1024;

fn offer(id: &str, capacity: i32) -> v1::Offer {
    v1::Offer {
        worker_id: id.into(),
        roles: vec!["w".into()],
        capacity,
        ..v1::Offer::default()
    }
}

fn payload(data: impl Into<Vec<u8>>) -> Option<v1::Payload> {
    Some(v1::Payload {
        data: data.into().into(),
        content_type: String::new(),
    })
}

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

async fn start(rig: &BuiltInRig, id: &str, input: &str) -> Result<(), tonic::Status> {
    let request = v1::StartExecutionRequest {
        definition: "definitions/gate".into(),
        execution_id: id.into(),
        input: payload(input),
        ..v1::StartExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client
        .start_execution(by("ada", "", request))
        .await
        .map(drop)
}

async fn ended(rig: &BuiltInRig, id: &str) -> v1::Execution {
    let is_over = |found: &v1::Execution| {
        let over = [v1::SubState::Succeeded, v1::SubState::Failed];
        over.contains(&found.sub_state())
    };
    rig.until(id, is_over).await
}

fn message(execution: &v1::Execution) -> &str {
    &execution.last_error.as_ref().expect("an error").message
}

#[tokio::test]
async fn a_payload_of_too_many_levels_is_refused_and_one_at_the_limit_is_read_back() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    for levels in [65, 125, 126, 127] {
        let refused = start(&rig, "deep", &nested(levels)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{levels}");
        assert!(refused.message().contains("64 levels"), "{refused}");
    }
    start(&rig, "deep", &nested(64)).await.unwrap();
    let signal = |levels| v1::SignalExecutionRequest {
        name: "providers/b/executions/deep".into(),
        signal: "go".into(),
        payload: payload(nested(levels)),
        ..v1::SignalExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let refused = client.signal_execution(signal(126)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    client.signal_execution(signal(63)).await.unwrap();
    let found = ended(&rig, "deep").await;
    assert_eq!(found.sub_state(), v1::SubState::Succeeded);
    assert_eq!(found.input.unwrap().data, nested(64).as_bytes());
}

#[tokio::test]
async fn json_that_would_not_be_read_back_as_it_was_sent_is_refused() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    for (input, why) in [
        (r#"{"a": 1, "a": 2}"#, "occurs twice"),
        ("[18446744073709551617]", "cannot be kept exactly"),
    ] {
        let refused = start(&rig, "odd", input).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{input}");
        assert!(refused.message().contains(why), "{refused}");
    }
}

#[tokio::test]
async fn an_output_that_is_too_large_fails_the_execution_with_its_size_and_the_limit() {
    let rig = BuiltInRig::start().await;
    rig.apply(
        "name: wide\nsteps: [{name: s, agent: w, timeout: 5m}]\noutput: {a: '${steps.s.output}', \
         b: '${steps.s.output}', c: '${steps.s.output}', d: '${steps.s.output}', e: '${steps.s.output}'}",
    )
    .await;
    let mut worker = rig.work(offer("w1", 1)).await.unwrap();
    rig.begin("wide", "e1", "ada", Value::Null).await;
    let task = worker.task().await;
    worker.complete(&task, &json!("x".repeat(MIB - 2)));
    let failed = ended(&rig, "e1").await;
    assert_eq!(failed.reason().label(), "NOT_RETRYABLE");
    for part in ["2097152 bytes", "limit of 1048576"] {
        assert!(message(&failed).contains(part), "{}", message(&failed));
    }
}

#[tokio::test]
async fn a_task_that_no_message_holds_fails_its_step_and_other_tasks_of_the_role_are_done() {
    let rig = BuiltInRig::start().await;
    rig.apply(
        "name: poison\nsteps:\n  - {name: s, agent: w, timeout: 5m}\n  - {name: t, agent: w, timeout: 5m, \
         dependsOn: [s], input: {a: '${steps.s.output}', b: '${steps.s.output}', c: '${steps.s.output}', \
         d: '${steps.s.output}'}}",
    )
    .await;
    rig.apply("name: small\nsteps: [{name: a, agent: w, timeout: 5m}]")
        .await;
    let mut worker = rig.work(offer("w1", 1)).await.unwrap();
    rig.begin("poison", "p", "ada", Value::Null).await;
    let task = worker.task().await;
    worker.complete(&task, &json!("x".repeat(MIB - 2)));
    let failed = ended(&rig, "p").await;
    assert!(
        message(&failed).contains("the input of the step has"),
        "{}",
        message(&failed)
    );
    for n in 0..5 {
        let id = format!("s{n}");
        rig.begin("small", &id, "ada", Value::Null).await;
        let task = worker.task().await;
        worker.complete(&task, &json!(n));
        assert_eq!(ended(&rig, &id).await.sub_state(), v1::SubState::Succeeded);
    }
}

#[tokio::test]
async fn a_definition_that_starts_itself_is_bounded_and_others_are_served() {
    let rig = BuiltInRig::with(|config| config.max_tree = 500).await;
    let steps: Vec<String> = (0..8)
        .map(|n| format!("{{name: s{n}, workflow: bomb, timeout: 5m}}"))
        .collect();
    rig.apply(&format!("name: bomb\nsteps: [{}]", steps.join(", ")))
        .await;
    rig.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    rig.begin("bomb", "root", "ada", Value::Null).await;
    start(&rig, "other", "null").await.unwrap();
    let failed = ended(&rig, "root").await;
    assert!(
        message(&failed).contains("`max_tree` allows 500"),
        "{}",
        message(&failed)
    );
    assert_eq!(rig.get("other").await.sub_state(), v1::SubState::Waiting);
}

#[tokio::test]
async fn executions_wait_while_memory_is_full_and_the_queue_says_so() {
    let rig = BuiltInRig::with(|config| config.max_memory_bytes = 1_000_000).await;
    rig.apply("name: work\nsteps: [{name: a, agent: w, timeout: 5m}]")
        .await;
    for n in 0..3 {
        let input = json!("x".repeat(900_000));
        rig.begin("work", &format!("e{n}"), "ada", input).await;
    }
    let mut workers = rig.workers().await;
    let request = v1::GetQueueRequest {
        name: "providers/b/queue".into(),
    };
    let queue = workers.get_queue(request).await.unwrap().into_inner();
    assert_eq!(queue.active_count, 2);
    assert!(queue.memory_full);
    assert_eq!(queue.max_memory_bytes, 1_000_000);
    assert!(queue.memory_bytes >= 1_800_000);
    assert_eq!(queue.executions[0].execution_count, 1);
}

#[tokio::test]
async fn a_store_file_that_was_removed_is_reported_and_nothing_is_acknowledged() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    start(&rig, "before", "null").await.unwrap();
    std::fs::remove_file(rig.directory.path().join("store.db")).unwrap();
    let refused = start(&rig, "after", "null").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(
        refused.message().contains("removed or replaced"),
        "{refused}"
    );
}
