//! Cancel, kill, pause, resume and retry now.

mod activity;
mod purge;
mod retry_from;

use stateway_provider_api::{
    CancelMode, CancelRequest, Error, ErrorKind, Observation, PauseRequest, Result, ResumeRequest,
    RetryNowRequest, Verb,
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
use crate::response::{first_task, is_closed};
use crate::steps::activity_name;
use crate::time::timestamp;

pub(crate) use purge::purge;
pub(crate) use retry_from::retry_from;

/// The refusal of what only an open execution takes.
pub(crate) fn has_ended(verb: Verb) -> Error {
    Error::already_finished(verb, "the workflow execution has ended")
}

/// The description of an execution that has not ended.
pub(crate) async fn open_execution(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
) -> Result<DescribeWorkflowExecutionResponse> {
    let described = provider.reader.describe(ask, of).await?;
    if is_closed(info(ask.verb, &described)?) {
        return Err(has_ended(ask.verb));
    }
    Ok(described)
}

/// What a refused request means for an execution that was open before it. The server answers NOT_FOUND for an
/// execution that has ended and for one that is gone.
async fn refused(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    error: Error,
) -> Error {
    if error.kind != ErrorKind::NotFound {
        return error;
    }
    match open_execution(provider, ask, of).await {
        Ok(_) => {
            let message = "another execution has begun under this id";
            Error::new(ErrorKind::Conflict, ask.verb, message)
                .with_reason("EXECUTION_REPLACED")
                .with_hint("Read the execution, then decide again.")
                .with_native_code(error.native_code.clone())
        }
        Err(why) => why,
    }
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
    let current = info(ask.verb, &described)?;
    if is_closed(current) {
        return cancelled(provider, ask, of, &described).await;
    }
    let identity = reader.client.identity(ask.call);
    // The chain of runs that was read, not one that began under the same id since.
    let first_execution_run_id = match &of.run_id {
        Some(_) => String::new(),
        None => current.first_run_id.clone(),
    };
    let sent = match request.mode {
        CancelMode::Graceful => {
            let message = RequestCancelWorkflowExecutionRequest {
                namespace: reader.client.namespace(),
                workflow_execution: Client::execution(of),
                identity,
                request_id: request.request_id.as_str().to_owned(),
                first_execution_run_id,
                reason: request.comment.clone(),
            };
            let client = &reader.client;
            let sent = client.request_cancel_workflow_execution(ask, message);
            sent.await.map(drop)
        }
        CancelMode::Kill => {
            let message = TerminateWorkflowExecutionRequest {
                namespace: reader.client.namespace(),
                workflow_execution: Client::execution(of),
                reason: request.comment.clone(),
                identity,
                first_execution_run_id,
            };
            let sent = reader.client.terminate_workflow_execution(ask, message);
            sent.await.map(drop)
        }
    };
    provider.nudge(of);
    match sent {
        Ok(()) => {
            let seen = reader.get_after_write(ask, of).await?;
            // The server accepts the cancellation of a run that has ended, and nothing happens.
            if seen.end_time.is_some() && seen.cancellation.is_none() {
                return Err(has_ended(ask.verb));
            }
            Ok(seen)
        }
        Err(error) if error.kind == ErrorKind::NotFound => {
            let described = reader.describe(ask, of).await?;
            if is_closed(info(ask.verb, &described)?) {
                return cancelled(provider, ask, of, &described).await;
            }
            Err(refused(provider, ask, of, error).await)
        }
        Err(error) => Err(error),
    }
}

/// The answer to the cancellation of an execution that has ended: it was cancelled before, or it cannot be.
async fn cancelled(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    described: &DescribeWorkflowExecutionResponse,
) -> Result<Observation> {
    use WorkflowExecutionStatus::{Canceled, Terminated};
    if matches!(status(described), Some(Canceled | Terminated)) {
        return provider.reader.observed(ask, of, described).await;
    }
    Err(has_ended(ask.verb))
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
        Err(error) if error.kind == ErrorKind::FailedPrecondition => {
            let described = open_execution(provider, ask, of).await?;
            // Someone else has paused it.
            if status(&described) != Some(WorkflowExecutionStatus::Paused) {
                return Err(error);
            }
        }
        Err(error) if error.native_code == "INTERNAL" => {
            return Err(before_first_task(provider, ask, of, &described, error).await?);
        }
        Err(error) => return Err(refused(provider, ask, of, error).await),
    }
    provider.nudge(of);
    reader.get_after_write(ask, of).await
}

/// A server answers the pause of a workflow that has not begun with INTERNAL, and it does so each time.
async fn before_first_task(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    described: &DescribeWorkflowExecutionResponse,
    error: Error,
) -> Result<Error> {
    let current = info(ask.verb, described)?;
    let facts = provider.reader.facts(ask, of, current).await?;
    Ok(match first_task(described, &facts) {
        Some((_, until)) => {
            let message = "the server cannot pause a workflow before its first workflow task";
            Error::precondition(ask.verb, message)
                .with_reason("NOT_BEGUN")
                .with_native_code(error.native_code.clone())
                .with_hint(format!("Pause the execution after {until}."))
        }
        None => error,
    })
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
    let mut changed = Changed::default();
    for pending in described.pending_activities.iter().filter(|it| !it.paused) {
        let activity = (of, pending.activity_id.as_str());
        let paused = activity::pause(&provider.reader.client, ask, activity, request);
        changed.add(&pending.activity_id, paused.await);
    }
    changed.check(provider, ask, of).await
}

/// What requests about several activities changed. An activity that ended in between needs nothing more; if
/// none is left, the execution may have ended.
#[derive(Default)]
struct Changed {
    done: usize,
    gone: Option<Error>,
    failed: Option<(String, Error)>,
}

impl Changed {
    fn add(&mut self, activity_id: &str, answer: Result<()>) {
        match answer {
            Ok(()) => self.done += 1,
            Err(error) if error.kind == ErrorKind::NotFound => self.gone = Some(error),
            Err(error) => {
                let failed = (activity_id.to_owned(), error);
                self.failed.get_or_insert(failed);
            }
        }
    }

    async fn check(
        self,
        provider: &TemporalProvider,
        ask: Ask<'_>,
        of: &WorkflowRef,
    ) -> Result<()> {
        if let Some((activity_id, error)) = self.failed {
            provider.nudge(of);
            let done = self.done;
            let hint = format!(
                "Activity `{activity_id}` was not changed, {done} others were. Repeat the request."
            );
            return Err(if done > 0 {
                error.with_hint(hint)
            } else {
                error
            });
        }
        match self.gone {
            Some(error) if self.done == 0 => {
                open_execution(provider, ask, of).await?;
                let message = "the activities ended before the request reached them";
                Err(Error::precondition(ask.verb, message)
                    .with_reason("STEP_ENDED")
                    .with_native_code(error.native_code.clone()))
            }
            _ => Ok(()),
        }
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
        match reader.client.unpause_workflow_execution(ask, message).await {
            Ok(_) => {}
            Err(error) if error.kind == ErrorKind::FailedPrecondition => {
                let described = open_execution(provider, ask, of).await?;
                // Someone else has resumed it.
                if status(&described) == Some(WorkflowExecutionStatus::Paused) {
                    return Err(error);
                }
            }
            Err(error) => return Err(refused(provider, ask, of, error).await),
        }
    }
    let mut changed = Changed {
        done: usize::from(is_paused),
        ..Changed::default()
    };
    for pending in paused {
        let id = request.request_id.as_str();
        let resumed = activity::resume(&reader.client, ask, (of, &pending.activity_id), id);
        changed.add(&pending.activity_id, resumed.await);
    }
    changed.check(provider, ask, of).await?;
    provider.nudge(of);
    reader.get_after_write(ask, of).await
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
        let seen = reader.observed(ask, of, &described).await?;
        let is_known = |it: &PendingActivityInfo| is_named(it, &request.step);
        let is_known = described.pending_activities.iter().any(is_known)
            || seen.steps.iter().any(|step| step.name == request.step);
        return Err(if !is_known && !request.step.is_empty() {
            Error::no_step(Verb::RetryNow, &request.step)
        } else {
            nothing_to_retry(&request.step, &seen)
        });
    }
    let mut changed = Changed::default();
    for pending in resting {
        let id = request.request_id.as_str();
        let reset = activity::reset(&reader.client, ask, (of, &pending.activity_id), id);
        changed.add(&pending.activity_id, reset.await);
    }
    changed.check(provider, ask, of).await?;
    provider.nudge(of);
    reader.get_after_write(ask, of).await
}

/// Whether a step's name means this activity; an empty one means every activity.
fn is_named(pending: &PendingActivityInfo, step: &str) -> bool {
    let kind = pending.activity_type.as_ref().map_or("", |kind| &kind.name);
    step.is_empty()
        || pending.activity_id == step
        || activity_name(&pending.activity_id, kind) == step
}
