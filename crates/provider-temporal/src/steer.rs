//! Cancel, kill, pause, resume and retry now.

mod activity;
mod purge;
mod retry_from;

use stateway_provider_api::{
    CancelMode, CancelRequest, Error, ErrorKind, Observation, PauseRequest, Result, ResumeRequest,
    RetryNowRequest, Verb, View,
};

use crate::TemporalProvider;
use crate::api::enums::v1::{PendingActivityState, WorkflowExecutionStatus};
use crate::api::workflow::v1::PendingActivityInfo;
use crate::api::workflowservice::v1::{
    DescribeWorkflowExecutionResponse, PauseWorkflowExecutionRequest,
    RequestCancelWorkflowExecutionRequest, TerminateWorkflowExecutionRequest,
    UnpauseWorkflowExecutionRequest,
};
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;
use crate::reader::info;
use crate::request::nothing_to_retry;
use crate::response::is_closed;
use crate::steps::activity_name;
use crate::time::timestamp;

pub(crate) use purge::purge;
pub(crate) use retry_from::retry_from;

/// The description of an execution that has not ended.
pub(crate) async fn open_execution(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
) -> Result<DescribeWorkflowExecutionResponse> {
    let described = provider.reader.describe(ask, of).await?;
    if is_closed(info(ask.verb, &described)?) {
        let message = "the workflow execution has ended";
        return Err(Error::already_finished(ask.verb, message));
    }
    Ok(described)
}

fn status(described: &DescribeWorkflowExecutionResponse) -> Option<WorkflowExecutionStatus> {
    let info = described.workflow_execution_info.as_ref()?;
    WorkflowExecutionStatus::try_from(info.status).ok()
}

/// Ends an execution, gracefully or by force.
pub(crate) async fn cancel(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &CancelRequest,
) -> Result<Observation> {
    let reader = &provider.reader;
    let described = reader.describe(ask, of).await?;
    if is_closed(info(ask.verb, &described)?) {
        use WorkflowExecutionStatus::{Canceled, Terminated};
        if matches!(status(&described), Some(Canceled | Terminated)) {
            return reader.observed(ask, of, &described).await;
        }
        let message = "the workflow execution has ended";
        return Err(Error::already_finished(ask.verb, message));
    }
    let identity = reader.client.identity(ask.call);
    match request.mode {
        CancelMode::Graceful => {
            let message = RequestCancelWorkflowExecutionRequest {
                namespace: reader.client.namespace(),
                workflow_execution: Client::execution(of),
                identity,
                request_id: request.request_id.as_str().to_owned(),
                first_execution_run_id: String::new(),
                reason: request.comment.clone(),
            };
            let sent = reader
                .client
                .request_cancel_workflow_execution(ask, message);
            sent.await?;
        }
        CancelMode::Kill => {
            let message = TerminateWorkflowExecutionRequest {
                namespace: reader.client.namespace(),
                workflow_execution: Client::execution(of),
                reason: request.comment.clone(),
                identity,
                first_execution_run_id: String::new(),
            };
            let sent = reader
                .client
                .terminate_workflow_execution(ask, message)
                .await;
            match sent {
                Ok(_) => {}
                // It ended in between.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    provider.nudge(of);
    reader.get(ask, of, View::Basic).await
}

/// Pauses the workflow where the server allows that, else its pending activities.
pub(crate) async fn pause(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &PauseRequest,
) -> Result<Observation> {
    let reader = &provider.reader;
    let described = open_execution(provider, ask, of).await?;
    if status(&described) == Some(WorkflowExecutionStatus::Paused) {
        return reader.observed(ask, of, &described).await;
    }
    let message = PauseWorkflowExecutionRequest {
        namespace: reader.client.namespace(),
        workflow_id: of.workflow_id.clone(),
        run_id: of.run_id.clone().unwrap_or_default(),
        identity: reader.client.identity(ask.call),
        reason: request.comment.clone(),
        request_id: request.request_id.as_str().to_owned(),
    };
    match reader.client.pause_workflow_execution(ask, message).await {
        Ok(_) => {}
        Err(error) if error.kind == ErrorKind::Unsupported => {
            pause_activities(provider, ask, of, request, &described).await?;
        }
        // Someone else paused it, or it ended.
        Err(error) if error.kind == ErrorKind::FailedPrecondition => {}
        Err(error) if error.kind == ErrorKind::NotFound => {
            open_execution(provider, ask, of).await?;
            return Err(error);
        }
        Err(error) => return Err(error),
    }
    provider.nudge(of);
    reader.get(ask, of, View::Basic).await
}

async fn pause_activities(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &PauseRequest,
    described: &DescribeWorkflowExecutionResponse,
) -> Result<()> {
    if described.pending_activities.is_empty() {
        let message = "this server can pause activities only, and none is pending";
        return Err(Error::precondition(ask.verb, message)
            .with_reason("NOTHING_TO_PAUSE")
            .with_hint(
                "Enable `frontend.WorkflowPauseEnabled` on the server to pause workflows.",
            ));
    }
    for pending in described.pending_activities.iter().filter(|it| !it.paused) {
        let paused = activity::pause(
            &provider.reader.client,
            ask,
            (of, &pending.activity_id),
            request,
        );
        accept_ended(paused.await)?;
    }
    Ok(())
}

/// An activity that ended in between needs nothing more.
fn accept_ended(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Resumes a paused workflow, or its paused activities.
pub(crate) async fn resume(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &ResumeRequest,
) -> Result<Observation> {
    let reader = &provider.reader;
    let described = open_execution(provider, ask, of).await?;
    let paused: Vec<_> = described
        .pending_activities
        .iter()
        .filter(|it| is_paused(it))
        .collect();
    let is_paused = status(&described) == Some(WorkflowExecutionStatus::Paused);
    if !is_paused && paused.is_empty() {
        let message = "neither the workflow nor one of its activities is paused";
        return Err(Error::precondition(ask.verb, message).with_reason("NOT_PAUSED"));
    }
    if is_paused {
        let message = UnpauseWorkflowExecutionRequest {
            namespace: reader.client.namespace(),
            workflow_id: of.workflow_id.clone(),
            run_id: of.run_id.clone().unwrap_or_default(),
            identity: reader.client.identity(ask.call),
            reason: String::new(),
            request_id: request.request_id.as_str().to_owned(),
        };
        reader
            .client
            .unpause_workflow_execution(ask, message)
            .await?;
    }
    for pending in paused {
        let id = request.request_id.as_str();
        let resumed = activity::resume(&reader.client, ask, (of, &pending.activity_id), id);
        accept_ended(resumed.await)?;
    }
    provider.nudge(of);
    reader.get(ask, of, View::Basic).await
}

fn is_paused(pending: &PendingActivityInfo) -> bool {
    use PendingActivityState::{PauseRequested, Paused};
    pending.paused || matches!(pending.state(), Paused | PauseRequested)
}

/// Makes the next attempt of activities that back off. The server counts their attempts from 1 again.
pub(crate) async fn retry_now(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &RetryNowRequest,
) -> Result<Observation> {
    let reader = &provider.reader;
    let described = open_execution(provider, ask, of).await?;
    let backs_off = |it: &&PendingActivityInfo| {
        timestamp(it.next_attempt_schedule_time.as_ref()).is_some() && is_named(it, &request.step)
    };
    let resting: Vec<_> = described
        .pending_activities
        .iter()
        .filter(backs_off)
        .collect();
    if resting.is_empty() {
        let is_known = |it: &PendingActivityInfo| is_named(it, &request.step);
        if !described.pending_activities.iter().any(is_known) && !request.step.is_empty() {
            return Err(Error::no_step(Verb::RetryNow, &request.step));
        }
        return Err(nothing_to_retry(&request.step));
    }
    for pending in resting {
        let id = request.request_id.as_str();
        let reset = activity::reset(&reader.client, ask, (of, &pending.activity_id), id);
        accept_ended(reset.await)?;
    }
    provider.nudge(of);
    reader.get(ask, of, View::Basic).await
}

/// Whether a step's name means this activity; an empty one means every activity.
fn is_named(pending: &PendingActivityInfo, step: &str) -> bool {
    let kind = pending.activity_type.as_ref().map_or("", |kind| &kind.name);
    step.is_empty()
        || pending.activity_id == step
        || activity_name(&pending.activity_id, kind) == step
}
