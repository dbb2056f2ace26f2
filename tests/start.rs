//! Starting: idempotent by request id, checked before it reaches the engine.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;
use stateway_client::v1::{
    ExecutionView, GetExecutionRequest, Offer, Payload, StartExecutionRequest, SubState,
};
use stateway_model::ExecutionId;
use stateway_provider_api::{NativeState, Observation, Verb};
use tonic::{Code, Request};

use crate::support::{BuiltInRig, Puppet, TestGateway, clock, error_info, reason_of};

fn start(request_id: &str, input: &'static str) -> StartExecutionRequest {
    StartExecutionRequest {
        definition: "providers/m/definitions/hello".into(),
        input: Some(Payload {
            data: input.into(),
            content_type: String::new(),
        }),
        request_id: request_id.into(),
        labels: HashMap::from([("env".to_owned(), "test".to_owned())]),
        ..Default::default()
    }
}

#[tokio::test]
async fn the_same_request_is_answered_the_same_and_another_body_is_refused() {
    let gateway = TestGateway::new().with_memory("m", &clock()).start().await;
    let mut client = gateway.executions().await;
    let first = client
        .start_execution(start("r1", "{}"))
        .await
        .unwrap()
        .into_inner();
    let again = client
        .start_execution(start("r1", "{}"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(first.name, again.name);
    let status = client
        .start_execution(start("r1", "[1]"))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_eq!(reason_of(&status), "REQUEST_ID_REUSED");
    let other = client
        .start_execution(start("r2", "{}"))
        .await
        .unwrap()
        .into_inner();
    assert_ne!(first.name, other.name);
}

#[tokio::test]
async fn what_was_started_shows_its_definition_labels_and_input() {
    let gateway = TestGateway::new().with_memory("m", &clock()).start().await;
    let mut client = gateway.executions().await;
    let big = r#"{"id": 9007199254740993}"#;
    let started = client
        .start_execution(start("r1", big))
        .await
        .unwrap()
        .into_inner();
    let get = |view: ExecutionView| GetExecutionRequest {
        name: started.name.clone(),
        view: view.into(),
    };
    let full = client
        .get_execution(get(ExecutionView::Full))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(full.definition, "providers/m/definitions/hello");
    assert_eq!(full.labels["env"], "test");
    assert_eq!(
        &full.input.as_ref().expect("input").data[..],
        big.as_bytes()
    );
    assert_eq!(full.sub_state(), SubState::Running);
    assert_eq!(full.current_steps, ["greet"]);
    let basic = client
        .get_execution(get(ExecutionView::Basic))
        .await
        .unwrap()
        .into_inner();
    assert!(basic.input.is_none());
    assert_eq!(basic.etag, full.etag);
}

#[tokio::test]
async fn wrong_requests_never_reach_the_engine() {
    let gateway = TestGateway::new().with_memory("m", &clock()).start().await;
    let mut client = gateway.executions().await;
    let good = || start("r", "{}");
    let long = "x".repeat(2_000);
    let wrong = [
        StartExecutionRequest {
            definition: String::new(),
            ..good()
        },
        StartExecutionRequest {
            parent: "providers/-".into(),
            ..good()
        },
        StartExecutionRequest {
            parent: "providers/other".into(),
            ..good()
        },
        StartExecutionRequest {
            request_id: "not a request id".into(),
            ..good()
        },
        StartExecutionRequest {
            execution_id: long.clone(),
            ..good()
        },
        StartExecutionRequest {
            labels: HashMap::from([(long, "v".into())]),
            ..good()
        },
    ];
    for request in wrong {
        let status = client.start_execution(request.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{request:?}");
        assert_eq!(reason_of(&status), "INVALID_ARGUMENT");
    }
    let unknown = StartExecutionRequest {
        definition: "providers/m/definitions/no-such-thing".into(),
        ..good()
    };
    let status = client.start_execution(unknown).await.unwrap_err();
    assert_eq!(reason_of(&status), "DEFINITION_NOT_FOUND");
}

#[tokio::test]
async fn an_option_that_the_provider_does_not_know_is_refused_and_nothing_starts() {
    let gateway = TestGateway::new().with_memory("m", &clock()).start().await;
    let mut client = gateway.executions().await;
    let with_option = StartExecutionRequest {
        options: HashMap::from([("task_queue".to_owned(), "orders".to_owned())]),
        ..start("r1", "{}")
    };
    let status = client.start_execution(with_option).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(reason_of(&status), "OPTION_NOT_SUPPORTED");
    // The request id is still free: nothing was started.
    client.start_execution(start("r1", "{}")).await.unwrap();
    let many: HashMap<_, _> = (0..65).map(|n| (n.to_string(), String::new())).collect();
    let too_many = StartExecutionRequest {
        options: many,
        ..start("r2", "{}")
    };
    let status = client.start_execution(too_many).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

/// A start of a one-step definition that waits for the end of the execution.
fn start_and_wait(timeout: Duration) -> Request<StartExecutionRequest> {
    let mut request = Request::new(StartExecutionRequest {
        parent: "providers/b".into(),
        definition: "definitions/one".into(),
        request_id: "r1".into(),
        wait: true,
        ..Default::default()
    });
    request.set_timeout(timeout);
    request
}

#[tokio::test]
async fn a_start_that_waits_is_answered_with_the_end_of_the_execution() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: one\nsteps: [{name: a, agent: doer}]")
        .await;
    let offer = Offer {
        roles: vec!["doer".into()],
        capacity: 1,
        ..Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    assert!(worker.next().await.is_some(), "a welcome");

    let mut client = rig.gateway.executions().await;
    let short = start_and_wait(Duration::from_millis(300));
    let unfinished = client.start_execution(short).await.expect("no error");
    let unfinished = unfinished.into_inner();
    assert_eq!(unfinished.sub_state(), SubState::Running);

    let waiting = tokio::spawn(async move {
        let again = start_and_wait(Duration::from_secs(20));
        client.start_execution(again).await
    });
    let task = worker.task().await;
    assert_eq!(task.execution, unfinished.name, "started once");
    assert!(!waiting.is_finished(), "the step is not done");
    worker.complete(&task, &json!({"ok": true}));
    let ended = waiting.await.unwrap().expect("the end").into_inner();
    assert_eq!(ended.name, unfinished.name);
    assert_eq!(ended.sub_state(), SubState::Succeeded);
}

#[tokio::test]
async fn a_start_that_waits_for_an_output_beyond_one_message_says_which_execution_it_was() {
    let puppet = Puppet::new();
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.max_message_bytes = 1_000;
    let gateway = gateway.start().await;
    let start = StartExecutionRequest {
        definition: "providers/p/definitions/any".into(),
        execution_id: "large".into(),
        wait: true,
        ..Default::default()
    };
    let mut client = gateway.executions().await;
    let ending = async {
        puppet.until_asked(Verb::Start, 1).await;
        let id = ExecutionId::new("large").unwrap();
        let mut ended = Observation::new(id, NativeState::new("SUCCEEDED"));
        ended.output = Some(stateway_model::Payload::json(vec![b' '; 2_000]));
        puppet.show_observation(ended);
    };
    let (started, ()) = tokio::join!(client.start_execution(start), ending);
    let refused = started.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    let (reason, metadata) = error_info(&refused);
    assert_eq!(reason, "RESPONSE_TOO_LARGE");
    assert_eq!(metadata["execution"], "providers/p/executions/large");
}
