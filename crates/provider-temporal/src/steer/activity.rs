//! Requests about one activity. Servers have new names for them and still know the old ones; older
//! servers know the old ones only.

use std::future::Future;

use stateway_provider_api::{ErrorKind, PauseRequest, Result};

use crate::api::workflowservice::v1::{
    PauseActivityExecutionRequest, PauseActivityRequest, ResetActivityExecutionRequest,
    ResetActivityRequest, UnpauseActivityExecutionRequest, UnpauseActivityRequest,
    pause_activity_request, reset_activity_request, unpause_activity_request,
};
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;

/// The answer by the new name, or by the old one if the server does not know the new one.
async fn new_or_old<N, O>(
    new: impl Future<Output = Result<N>>,
    old: impl Future<Output = Result<O>>,
) -> Result<()> {
    match new.await {
        Err(error) if error.kind == ErrorKind::Unsupported => old.await.map(drop),
        answer => answer.map(drop),
    }
}

fn run(of: &WorkflowRef) -> String {
    of.run_id.clone().unwrap_or_default()
}

pub(super) async fn pause(
    client: &Client,
    ask: Ask<'_>,
    (of, activity_id): (&WorkflowRef, &str),
    request: &PauseRequest,
) -> Result<()> {
    let new = client.pause_activity_execution(
        ask,
        PauseActivityExecutionRequest {
            namespace: client.namespace(),
            workflow_id: of.workflow_id.clone(),
            activity_id: activity_id.to_owned(),
            run_id: run(of),
            identity: client.identity(ask.call),
            reason: request.comment.clone(),
            resource_id: String::new(),
            request_id: request.request_id.as_str().to_owned(),
        },
    );
    let old = client.pause_activity(
        ask,
        PauseActivityRequest {
            namespace: client.namespace(),
            execution: Client::execution(of),
            identity: client.identity(ask.call),
            reason: request.comment.clone(),
            request_id: request.request_id.as_str().to_owned(),
            activity: Some(pause_activity_request::Activity::Id(activity_id.to_owned())),
        },
    );
    new_or_old(new, old).await
}

pub(super) async fn resume(
    client: &Client,
    ask: Ask<'_>,
    (of, activity_id): (&WorkflowRef, &str),
    request_id: &str,
) -> Result<()> {
    let new = client.unpause_activity_execution(
        ask,
        UnpauseActivityExecutionRequest {
            namespace: client.namespace(),
            workflow_id: of.workflow_id.clone(),
            activity_id: activity_id.to_owned(),
            run_id: run(of),
            identity: client.identity(ask.call),
            request_id: request_id.to_owned(),
            ..Default::default()
        },
    );
    let old = client.unpause_activity(
        ask,
        UnpauseActivityRequest {
            namespace: client.namespace(),
            execution: Client::execution(of),
            identity: client.identity(ask.call),
            activity: Some(unpause_activity_request::Activity::Id(
                activity_id.to_owned(),
            )),
            ..Default::default()
        },
    );
    new_or_old(new, old).await
}

pub(super) async fn reset(
    client: &Client,
    ask: Ask<'_>,
    (of, activity_id): (&WorkflowRef, &str),
    request_id: &str,
) -> Result<()> {
    let new = client.reset_activity_execution(
        ask,
        ResetActivityExecutionRequest {
            namespace: client.namespace(),
            workflow_id: of.workflow_id.clone(),
            activity_id: activity_id.to_owned(),
            run_id: run(of),
            identity: client.identity(ask.call),
            request_id: request_id.to_owned(),
            ..Default::default()
        },
    );
    let old = client.reset_activity(
        ask,
        ResetActivityRequest {
            namespace: client.namespace(),
            execution: Client::execution(of),
            identity: client.identity(ask.call),
            activity: Some(reset_activity_request::Activity::Id(activity_id.to_owned())),
            ..Default::default()
        },
    );
    new_or_old(new, old).await
}
