//! What verbs answer when the server refuses them, on the mock: the server answers NOT_FOUND for an execution that
//! has ended, and FAILED_PRECONDITION for one that someone else has changed.

#![allow(clippy::unwrap_used)]

use crate::front;
use crate::mock;

use serde_json::json;
use stateway_contract_kit::Scene;
use stateway_model::ExecutionId;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::Scope;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    CancelMode, CancelRequest, CompensationChoice, ErrorKind, ListRequest, NativeState,
    PauseRequest, Provider, PurgeRequest, ResumeRequest, RetryFromRequest, RetryNowRequest,
    SignalRequest, View,
};
use stateway_provider_temporal::TemporalProvider;
use stateway_provider_temporal::api::enums::v1::WorkflowExecutionStatus as Status;

use front::{call, gateway, put, server};
use mock::{Mock, World};

fn paused(mock: &Mock) -> ExecutionId {
    let native = NativeState::new("PAUSED");
    let scope = Scope::Execution;
    put(mock, "scene", Scene::Native { scope, native })
}

fn complete(world: &mut World) {
    let kind = "WORKFLOW_EXECUTION_COMPLETED";
    world.runs[0].close(Status::Completed, kind, &json!({}));
}

fn cancel(id: &ExecutionId, mode: CancelMode) -> CancelRequest {
    CancelRequest {
        id: id.clone(),
        mode,
        compensation: CompensationChoice::AsDefined,
        comment: "test".to_owned(),
        request_id: "cancel".parse().unwrap(),
    }
}

fn pause(id: &ExecutionId) -> PauseRequest {
    PauseRequest {
        id: id.clone(),
        comment: "test".to_owned(),
        request_id: "pause".parse().unwrap(),
    }
}

fn resume(id: &ExecutionId) -> ResumeRequest {
    ResumeRequest {
        id: id.clone(),
        request_id: "resume".parse().unwrap(),
    }
}

fn retry_now(id: &ExecutionId) -> RetryNowRequest {
    RetryNowRequest {
        id: id.clone(),
        step: String::new(),
        request_id: "retry".parse().unwrap(),
    }
}

fn purge(id: &ExecutionId) -> PurgeRequest {
    PurgeRequest {
        id: id.clone(),
        request_id: "purge".parse().unwrap(),
    }
}

#[tokio::test]
async fn an_execution_that_ends_before_a_cancellation_is_already_finished() {
    for (mode, rpc) in [
        (CancelMode::Graceful, "RequestCancelWorkflowExecution"),
        (CancelMode::Kill, "TerminateWorkflowExecution"),
    ] {
        let (mock, provider) = server().await;
        let id = put(&mock, "scene", Scene::NoMetadata);
        mock.before(rpc, complete);
        let refused = provider.cancel(&call(), cancel(&id, mode)).await;
        assert_eq!(refused.unwrap_err().reason(), "ALREADY_FINISHED", "{rpc}");
    }
}

#[tokio::test]
async fn an_execution_that_someone_else_has_killed_is_killed() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::NoMetadata);
    mock.before("TerminateWorkflowExecution", |world| {
        let kind = "WORKFLOW_EXECUTION_TERMINATED";
        world.runs[0].close(Status::Terminated, kind, &json!({}));
    });
    let seen = provider
        .cancel(&call(), cancel(&id, CancelMode::Kill))
        .await;
    assert_eq!(seen.unwrap().native.state, "TERMINATED");
}

#[tokio::test]
async fn a_cancellation_does_not_reach_another_execution_of_the_same_id() {
    for (mode, rpc) in [
        (CancelMode::Graceful, "RequestCancelWorkflowExecution"),
        (CancelMode::Kill, "TerminateWorkflowExecution"),
    ] {
        let (mock, provider) = server().await;
        let id = put(&mock, "scene", Scene::NoMetadata);
        mock.before(rpc, |world| {
            let mut other = world.runs[0].clone();
            complete(world);
            let info = other.info();
            let run = "0dd1e1af-0fa0-788e-9075-000000000001";
            run.clone_into(&mut info.execution.as_mut().unwrap().run_id);
            run.clone_into(&mut info.first_run_id);
            world.put(other);
        });
        let refused = provider.cancel(&call(), cancel(&id, mode)).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Conflict, "{rpc}");
        let is_untouched = mock.change(|world| {
            let other = &mut world.runs[1];
            !other.is_closed() && !other.extended().cancel_requested
        });
        assert!(is_untouched, "{rpc}");
    }
}

#[tokio::test]
async fn a_refused_pause_is_an_error_unless_it_is_paused_already() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::NoMetadata);
    mock.change(|world| world.precondition = Some("not now"));
    let refused = provider.pause(&call(), pause(&id)).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::FailedPrecondition);
    assert!(refused.to_string().contains("not now"), "{refused}");
    mock.change(|world| world.precondition = None);
    mock.before("PauseWorkflowExecution", |world| {
        world.runs[0].info().status = Status::Paused.into();
    });
    let seen = provider.pause(&call(), pause(&id)).await.unwrap();
    assert_eq!(seen.native.state, "PAUSED");
}

#[tokio::test]
async fn a_refused_resume_is_an_error_unless_it_is_resumed_already() {
    let (mock, provider) = server().await;
    let id = paused(&mock);
    mock.change(|world| world.precondition = Some("not now"));
    let refused = provider.resume(&call(), resume(&id)).await.unwrap_err();
    assert!(refused.to_string().contains("not now"), "{refused}");
    mock.change(|world| world.precondition = None);
    mock.before("UnpauseWorkflowExecution", |world| {
        world.runs[0].info().status = Status::Running.into();
    });
    let seen = provider.resume(&call(), resume(&id)).await.unwrap();
    assert_eq!(seen.native.state, "RUNNING");
}

#[tokio::test]
async fn an_execution_that_ends_before_a_pause_or_a_resume_is_already_finished() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::NoMetadata);
    mock.before("PauseWorkflowExecution", complete);
    let refused = provider.pause(&call(), pause(&id)).await.unwrap_err();
    assert_eq!(refused.reason(), "ALREADY_FINISHED");

    let (mock, provider) = server().await;
    let id = paused(&mock);
    mock.before("UnpauseWorkflowExecution", complete);
    let refused = provider.resume(&call(), resume(&id)).await.unwrap_err();
    assert_eq!(refused.reason(), "ALREADY_FINISHED");
}

#[tokio::test]
async fn a_workflow_that_has_not_begun_cannot_be_paused() {
    let (mock, provider) = server().await;
    let delayed = [("pending", "nothing"), ("first_task", "delay")];
    let native = native("RUNNING", &delayed);
    let scope = Scope::Execution;
    let id = put(&mock, "scene", Scene::Native { scope, native });
    let refused = provider.pause(&call(), pause(&id)).await.unwrap_err();
    assert_eq!(refused.reason(), "NOT_BEGUN");
}

#[tokio::test]
async fn activities_that_end_before_a_request_are_reported() {
    let resting = Scene::BackingOff { attempt: 1 };
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", resting.clone());
    mock.before("ResetActivityExecution", complete);
    let refused = provider.retry_now(&call(), retry_now(&id)).await;
    assert_eq!(refused.unwrap_err().reason(), "ALREADY_FINISHED");

    let (mock, provider) = server().await;
    mock.change(|world| world.refuses_pause = true);
    let id = put(&mock, "scene", resting);
    mock.before("PauseActivityExecution", |world| {
        world.runs[0].described.pending_activities.clear();
    });
    let refused = provider.pause(&call(), pause(&id)).await.unwrap_err();
    assert_eq!(refused.reason(), "STEP_ENDED");
}

fn native(state: &str, qualifiers: &[(&str, &str)]) -> NativeState {
    let mut native = NativeState::new(state);
    for (name, value) in qualifiers {
        let (name, value) = ((*name).to_owned(), (*value).to_owned());
        native.qualifiers.insert(name, value);
    }
    native
}

#[tokio::test]
async fn a_retry_that_the_server_cannot_make_earlier_is_refused_with_the_reason() {
    let (mock, provider) = server().await;
    let retry = [("pending", "nothing"), ("first_task", "retry")];
    let native_retry = native("RUNNING", &retry);
    let scope = Scope::Execution;
    let id = put(
        &mock,
        "scene",
        Scene::Native {
            scope,
            native: native_retry,
        },
    );
    let refused = provider.retry_now(&call(), retry_now(&id)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("the workflow itself backs off"),
        "{refused}"
    );

    let (mock, provider) = server().await;
    let local = [("kind", "local-activity"), ("next_attempt", "set")];
    let scene = Scene::Native {
        scope: Scope::Step,
        native: native("STARTED", &local),
    };
    let id = put(&mock, "scene", scene);
    let refused = provider.retry_now(&call(), retry_now(&id)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("only its worker retries"), "{refused}");
}

#[tokio::test]
async fn every_step_that_is_shown_is_known_to_the_verbs() {
    let rows = compiled_in("temporal").unwrap();
    let rows = rows.rows().iter().filter(|row| row.scope == Scope::Step);
    let mut checked = 0;
    for row in rows {
        let (mock, provider) = server().await;
        let native = NativeState {
            state: row.native.clone(),
            qualifiers: row.when.clone(),
        };
        let scope = Scope::Step;
        let id = put(&mock, "scene", Scene::Native { scope, native });
        let seen = provider.get(&call(), &id, View::Full).await.unwrap();
        for step in seen.steps {
            let step = step.name;
            let now = RetryNowRequest {
                step: step.clone(),
                ..retry_now(&id)
            };
            let again = RetryFromRequest {
                step: step.clone(),
                ..retry_from(&id)
            };
            let now = provider.retry_now(&call(), now).await.err();
            let again = provider.retry_from(&call(), again).await.err();
            for refused in [now, again].into_iter().flatten() {
                assert_ne!(refused.reason(), "STEP_NOT_FOUND", "{step}: {refused}");
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked} refusals");
}

#[tokio::test]
async fn a_pause_that_fails_half_way_says_so_and_pauses_the_others() {
    let (mock, provider) = server().await;
    mock.change(|world| world.refuses_pause = true);
    let id = put(&mock, "scene", Scene::BackingOff { attempt: 1 });
    mock.change(|world| {
        let pending = &mut world.runs[0].described.pending_activities;
        for name in ["second", "third"] {
            let mut other = pending[0].clone();
            name.clone_into(&mut other.activity_id);
            pending.push(other);
        }
    });
    mock.refuse_nth("PauseActivityExecution", 2);
    let refused = provider.pause(&call(), pause(&id)).await.unwrap_err();
    assert!(refused.hint.contains("`second`"), "{}", refused.hint);
    let paused = mock.change(|world| {
        let pending = world.runs[0].described.pending_activities.iter();
        pending.map(|it| it.paused).collect::<Vec<_>>()
    });
    assert_eq!(paused, [true, false, true]);
}

fn retry_from(id: &ExecutionId) -> RetryFromRequest {
    RetryFromRequest {
        id: id.clone(),
        step: String::new(),
        input: None,
        feedback: String::new(),
        from_start: false,
        request_id: "again".parse().unwrap(),
        execution_id: None,
    }
}

#[tokio::test]
async fn an_execution_that_is_gone_before_a_reset_is_not_found() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::Failed);
    mock.before("ResetWorkflowExecution", |world| world.runs.clear());
    let request = retry_from(&id);
    let refused = provider.retry_from(&call(), request).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotFound);
    assert!(refused.to_string().contains(id.as_str()), "{refused}");
}

#[tokio::test]
async fn a_purge_that_the_server_accepted_is_done_whatever_the_check_answers() {
    let (mock, provider) = server().await;
    let id = put(&mock, "scene", Scene::Succeeded);
    mock.refuse_after("DeleteWorkflowExecution", "DescribeWorkflowExecution");
    provider.purge(&call(), purge(&id)).await.unwrap();
}

async fn is_listed(provider: &TemporalProvider, id: &ExecutionId) -> bool {
    let request = ListRequest {
        hints: Hints::none(),
        page_size: 50,
        cursor: None,
    };
    let page = provider.list(&call(), request).await.unwrap();
    page.observations.iter().any(|row| row.id == *id)
}

/// The server has no sign of a deletion that it has accepted, so only the gateway that sent it can hide the run.
#[tokio::test]
async fn a_purge_is_hidden_by_its_gateway_until_the_server_has_deleted_the_run() {
    let (mock, provider) = server().await;
    let other = gateway(&mock);
    let id = put(&mock, "scene", Scene::Succeeded);
    mock.change(|world| world.deletes_later = true);
    provider.purge(&call(), purge(&id)).await.unwrap();
    let gone = provider.get(&call(), &id, View::Basic).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    assert!(!is_listed(&provider, &id).await);
    // Another gateway shows what the server shows, and may purge it too.
    let seen = other.get(&call(), &id, View::Basic).await.unwrap();
    assert_eq!(seen.native.state, "COMPLETED");
    other.purge(&call(), purge(&id)).await.unwrap();
    mock.change(|world| world.runs.clear());
    for gateway in [&provider, &other] {
        let gone = gateway.get(&call(), &id, View::Basic).await.unwrap_err();
        assert_eq!(gone.kind, ErrorKind::NotFound);
        assert!(!is_listed(gateway, &id).await);
    }
}

/// The identities in the history of all runs, in order.
fn identities(mock: &Mock) -> Vec<String> {
    use stateway_provider_temporal::api::history::v1::history_event::Attributes;
    mock.change(|world| {
        let events = world.runs.iter().flat_map(|run| &run.events);
        let of = events.filter_map(|event| match event.attributes.as_ref()? {
            Attributes::WorkflowExecutionSignaledEventAttributes(it) => Some(it.identity.clone()),
            Attributes::WorkflowExecutionCancelRequestedEventAttributes(it) => {
                Some(it.identity.clone())
            }
            Attributes::WorkflowExecutionTerminatedEventAttributes(it) => Some(it.identity.clone()),
            _ => None,
        });
        of.collect()
    })
}

#[tokio::test]
async fn the_history_names_the_caller_of_each_verb() {
    let (mock, provider) = server().await;
    let id = put(&mock, "named", Scene::NoMetadata);
    let mut by_ada = call();
    by_ada.actor = "ada".into();
    let signal = SignalRequest {
        id: id.clone(),
        signal: "go".to_owned(),
        payload: None,
        request_id: "signal".parse().unwrap(),
    };
    provider.signal(&by_ada, signal).await.unwrap();
    let graceful = cancel(&id, CancelMode::Graceful);
    provider.cancel(&by_ada, graceful).await.unwrap();
    let mut kill = cancel(&id, CancelMode::Kill);
    kill.request_id = "kill".parse().unwrap();
    // A caller without a name is the gateway.
    provider.cancel(&call(), kill).await.unwrap();
    let named = ["stateway:ada", "stateway:ada", "stateway"];
    assert_eq!(identities(&mock), named);
}
