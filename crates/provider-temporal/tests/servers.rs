//! Servers of other versions and with other settings than the one that was recorded, on the mock.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

use crate::front;
use crate::mock;

use std::time::{Duration, Instant};

use stateway_contract_kit::Scene;
use stateway_model::{ExecutionId, MappingBasis, Payload, Reason, SubState};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    ErrorKind, Mapper, Observation, PauseRequest, Provider, ResumeRequest, RetryNowRequest,
    StartDefinition, StartRequest, View,
};

use front::{call, put, server};

fn shown(seen: Observation) -> stateway_model::Execution {
    let table = compiled_in("temporal").unwrap();
    let mapper = Mapper::new("test".parse().unwrap());
    mapper.execution(&table, seen, jiff::Timestamp::now())
}

#[tokio::test]
async fn a_status_that_the_adapter_does_not_know_is_shown_as_its_number() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::NoMetadata);
    mock.change(|world| world.runs[0].info().status = 99);
    let seen = provider.get(&call(), &id, View::Basic).await.unwrap();
    assert_eq!(seen.native.state, "99");
    let shown = shown(seen);
    assert_eq!(
        (shown.sub_state, shown.mapping_basis),
        (SubState::Running, MappingBasis::Defaulted)
    );
}

#[tokio::test]
async fn an_activity_state_that_the_adapter_does_not_know_is_shown_as_its_number() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::CleansUp);
    mock.change(|world| world.runs[0].described.pending_activities[0].state = 99);
    let seen = provider.get(&call(), &id, View::Full).await.unwrap();
    assert!(
        seen.steps.iter().any(|step| step.native.state == "99"),
        "{:?}",
        seen.steps
    );
}

#[tokio::test]
async fn an_older_server_is_asked_by_the_older_names() {
    let (mock, provider) = server().await;
    mock.change(|world| world.is_old = true);
    let id = put(&mock, "scene", Scene::BackingOff { attempt: 1 });
    let began = Instant::now();
    let request = RetryNowRequest {
        id: id.clone(),
        step: String::new(),
        request_id: "again".parse().unwrap(),
    };
    let seen = provider.retry_now(&call(), request).await.unwrap();
    assert_ne!(shown(seen).sub_state, SubState::BackingOff);
    let calls = mock.calls_since(began);
    assert_eq!(calls.get("ResetActivity"), Some(&1), "{calls:?}");
}

#[tokio::test]
async fn where_workflows_cannot_be_paused_their_activities_are() {
    let (mock, provider) = server().await;
    mock.change(|world| world.refuses_pause = true);
    let id = put(&mock, "scene", Scene::BackingOff { attempt: 1 });
    let request = PauseRequest {
        id: id.clone(),
        comment: "test".to_owned(),
        request_id: "pause".parse().unwrap(),
    };
    let paused = shown(provider.pause(&call(), request).await.unwrap());
    assert_eq!(
        (paused.sub_state, paused.reason),
        (SubState::Waiting, Some(Reason::Paused))
    );
    let request = ResumeRequest {
        id,
        request_id: "resume".parse().unwrap(),
    };
    let resumed = shown(provider.resume(&call(), request).await.unwrap());
    assert_ne!(resumed.reason, Some(Reason::Paused));
}

#[tokio::test]
async fn a_reached_limit_is_reported_with_its_cause() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::NoMetadata);
    mock.inject(mock::Fault::Throttle(Duration::from_secs(3)));
    let error = provider.get(&call(), &id, View::Basic).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Throttled);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    assert!(format!("{error:?}").contains("RpsLimit"), "{error:?}");
}

#[tokio::test]
async fn a_closed_run_answers_like_an_unknown_one_and_is_told_apart() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::Succeeded);
    let signal = |id: &ExecutionId| stateway_provider_api::SignalRequest {
        id: id.clone(),
        signal: "go".to_owned(),
        payload: None,
        request_id: "signal".parse().unwrap(),
    };
    let ended = provider.signal(&call(), signal(&id)).await.unwrap_err();
    assert_eq!(ended.reason(), "ALREADY_FINISHED");
    let nobody = ExecutionId::new("nobody").unwrap();
    let unknown = provider.signal(&call(), signal(&nobody)).await.unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn the_conflict_policy_decides_about_an_open_execution() {
    let (mock, provider) = server().await;
    let start = |policy: &str, request_id: &str, input: &str| {
        let definition = StartDefinition::native("Script");
        let mut request = StartRequest::new(definition, request_id.parse().unwrap());
        request.execution_id = ExecutionId::new("order").ok();
        request.input = Some(Payload::json(input.to_owned()));
        let name = "conflict_policy".to_owned();
        request.options.insert(name, policy.to_owned());
        request
    };
    let runs = || mock.change(|world| world.runs.len());
    let began = start("fail", "r1", "1");
    provider.start(&call(), began).await.unwrap();
    let refused = provider.start(&call(), start("fail", "r2", "1")).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::AlreadyExists);
    let uses = start("use-existing", "r3", "2");
    provider.start(&call(), uses).await.unwrap();
    let reused = provider
        .start(&call(), start("use-existing", "r1", "2"))
        .await;
    assert_eq!(reused.unwrap_err().reason(), "REQUEST_ID_REUSED");
    assert_eq!(runs(), 1);
    let terminates = start("terminate-existing", "r4", "3");
    provider.start(&call(), terminates).await.unwrap();
    assert_eq!(runs(), 2);
    assert!(mock.change(|world| world.runs[0].is_closed() && !world.runs[1].is_closed()));
}

fn start_with(request_id: &str, options: &[(&str, &str)]) -> StartRequest {
    let definition = StartDefinition::native("Script");
    let mut request = StartRequest::new(definition, request_id.parse().unwrap());
    request.execution_id = ExecutionId::new("order").ok();
    for (name, value) in options {
        let (name, value) = ((*name).to_owned(), (*value).to_owned());
        request.options.insert(name, value);
    }
    request
}

#[tokio::test]
async fn a_start_whose_timeouts_the_server_shortens_is_the_same_start() {
    let (_mock, provider) = server().await;
    let options = [("execution_timeout", "1h"), ("run_timeout", "2h")];
    for _ in 0..2 {
        let start = start_with("r1", &options);
        provider.start(&call(), start).await.unwrap();
    }
    let longer = [("execution_timeout", "1h"), ("max_attempts", "2")];
    let refused = provider.start(&call(), start_with("r1", &longer)).await;
    assert_eq!(refused.unwrap_err().reason(), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn a_late_repetition_of_a_start_whose_id_was_used_again_begins_nothing() {
    use stateway_provider_temporal::api::enums::v1::WorkflowExecutionStatus as Status;
    let (mock, provider) = server().await;
    let allow = [("reuse_policy", "allow")];
    for (number, request_id) in ["r1", "r2"].iter().enumerate() {
        let start = start_with(request_id, &allow);
        provider.start(&call(), start).await.unwrap();
        mock.change(|world| {
            let kind = "WORKFLOW_EXECUTION_COMPLETED";
            world.runs[number].close(Status::Completed, kind, &serde_json::json!({}));
        });
    }
    let late = start_with("r1", &allow);
    provider.start(&call(), late).await.unwrap();
    assert_eq!(mock.change(|world| world.runs.len()), 2);
    let another = start_with("r3", &allow);
    provider.start(&call(), another).await.unwrap();
    assert_eq!(mock.change(|world| world.runs.len()), 3);
}
