//! One pending activity, child or workflow task as a step.

use jiff::Timestamp;
use stateway_model::{Blocker, ExecutionError, ExecutionId, RetryBasis, Wait, WaitKind};
use stateway_provider_api::{NativeState, RetryEvidence, RetryPhase, StepObservation};

use super::{WORKFLOW_TASK, activity_name, child_name};
use crate::api::enums::v1::{PendingActivityState, PendingWorkflowTaskState};
use crate::api::workflow::v1::pending_activity_info::pause_info::PausedBy;
use crate::api::workflow::v1::{
    PendingActivityInfo, PendingChildExecutionInfo, PendingWorkflowTaskInfo,
};
use crate::api::workflowservice::v1::DescribeWorkflowExecutionResponse;
use crate::facts::Facts;
use crate::failure;
use crate::qualifier::{ATTEMPT, KIND, NEXT_ATTEMPT, PAUSE_CAUSE, WORKERS};
use crate::task_queue::{QueueKind, Queues};
use crate::time::timestamp;

/// The engine's word for the state of a pending activity.
fn activity_word(state: i32) -> String {
    match PendingActivityState::try_from(state) {
        Ok(state) => state
            .as_str_name()
            .trim_start_matches("PENDING_ACTIVITY_STATE_")
            .to_owned(),
        Err(_) => state.to_string(),
    }
}

pub(super) fn activity(pending: &PendingActivityInfo, queues: &Queues) -> StepObservation {
    let word = activity_word(pending.state);
    let next = timestamp(pending.next_attempt_schedule_time.as_ref());
    let is_ready = next.is_none() && pending.state() == PendingActivityState::Scheduled;
    let planned = if next.is_some() { "set" } else { "none" };
    let mut native = NativeState::new(word)
        .with(KIND, "activity")
        .with(NEXT_ATTEMPT, planned);
    let paused_by = pending
        .pause_info
        .as_ref()
        .and_then(|it| it.paused_by.as_ref());
    if matches!(paused_by, Some(PausedBy::Rule(_))) {
        native = native.with(PAUSE_CAUSE, "failures");
    }
    let queue = queue_of(pending);
    if is_ready && queues.has_none(queue, QueueKind::Activity) {
        native = native.with(WORKERS, "none");
    }
    let name = activity_name(&pending.activity_id, kind_of(pending));
    let mut step = StepObservation::new(name, native);
    step.start_time = timestamp(pending.last_started_time.as_ref());
    let retry = evidence(pending, next);
    step.last_error = retry.last_error.clone();
    step.retry = Some(retry);
    if is_ready {
        let since = timestamp(pending.scheduled_time.as_ref());
        step.waits = vec![capacity(queue, since, queues, QueueKind::Activity)];
    }
    step.notes = notes(pending);
    step
}

fn kind_of(pending: &PendingActivityInfo) -> &str {
    pending.activity_type.as_ref().map_or("", |kind| &kind.name)
}

fn queue_of(pending: &PendingActivityInfo) -> &str {
    let options = pending.activity_options.as_ref();
    let queue = options.and_then(|options| options.task_queue.as_ref());
    queue.map_or("", |queue| &queue.name)
}

/// The attempt that runs or failed last. The server's number is that of the attempt to come while the
/// activity backs off.
fn evidence(pending: &PendingActivityInfo, next: Option<Timestamp>) -> RetryEvidence {
    let number = u32::try_from(pending.attempt).unwrap_or_default().max(1);
    let failed = number.saturating_sub(1);
    let at = timestamp(pending.last_attempt_complete_time.as_ref());
    let last_error = pending.last_failure.as_ref().map(|last| ExecutionError {
        step: activity_name(&pending.activity_id, kind_of(pending)),
        attempt: failed,
        at,
        ..failure::error(last)
    });
    let delay = next.zip(at).and_then(|(next, at)| {
        // The server's own `current_retry_interval` is wrong after a timeout.
        std::time::Duration::try_from(next.duration_since(at)).ok()
    });
    RetryEvidence {
        attempt: if next.is_some() {
            failed.max(1)
        } else {
            number
        },
        max_attempts: u32::try_from(pending.maximum_attempts).ok(),
        phase: if next.is_some() {
            RetryPhase::BetweenAttempts
        } else {
            RetryPhase::UnderWay
        },
        next_attempt_time: next,
        delay,
        jitter: None,
        last_error,
        basis: RetryBasis::Reported,
    }
}

fn notes(pending: &PendingActivityInfo) -> Vec<String> {
    let mut notes = Vec::new();
    if !pending.last_worker_identity.is_empty() {
        notes.push(format!("last worker: {}", pending.last_worker_identity));
    }
    if let Some(time) = timestamp(pending.last_heartbeat_time.as_ref()) {
        notes.push(format!("last heartbeat: {}", to_the_minute(time)));
    }
    if let Some(time) = timestamp(pending.expiration_time.as_ref()) {
        notes.push(format!("no attempt begins after {time}"));
    }
    let pause = pending.pause_info.as_ref();
    match pause.and_then(|pause| pause.paused_by.as_ref()) {
        Some(PausedBy::Manual(by)) => {
            notes.push(format!("paused by {}: {}", by.identity, by.reason));
        }
        Some(PausedBy::Rule(rule)) => {
            notes.push(format!("paused by rule {}: {}", rule.rule_id, rule.reason));
        }
        None => {}
    }
    notes
}

/// To the minute, because a watch reports every change of a note.
fn to_the_minute(time: Timestamp) -> Timestamp {
    let second = time.as_second();
    let minute = second - second.rem_euclid(60);
    Timestamp::from_second(minute).unwrap_or(time)
}

/// A task that no worker has taken yet. The name of such a wait is a role of workers; a task queue is none.
fn capacity(queue: &str, since: Option<Timestamp>, queues: &Queues, kind: QueueKind) -> Wait {
    let detail = if queues.has_none(queue, kind) {
        format!("no worker polls task queue `{queue}`")
    } else {
        format!("in task queue `{queue}`")
    };
    Wait {
        since,
        detail,
        ..Wait::capacity(Blocker::Worker, "")
    }
}

pub(super) fn child(
    pending: &PendingChildExecutionInfo,
    since: Option<Timestamp>,
) -> StepObservation {
    let word = if pending.run_id.is_empty() {
        "INITIATED"
    } else {
        "STARTED"
    };
    let native = NativeState::new(word).with(KIND, "child");
    let mut step = StepObservation::new(child_name(&pending.workflow_id), native);
    step.start_time = since;
    step.child = ExecutionId::new(&pending.workflow_id).ok();
    step.waits = vec![Wait {
        since,
        detail: pending.workflow_type_name.clone(),
        ..Wait::new(WaitKind::Child, pending.workflow_id.clone())
    }];
    step
}

pub(super) fn workflow_task(
    pending: &PendingWorkflowTaskInfo,
    described: &DescribeWorkflowExecutionResponse,
    facts: &Facts,
    queues: &Queues,
) -> StepObservation {
    let word = match PendingWorkflowTaskState::try_from(pending.state) {
        Ok(state) => state
            .as_str_name()
            .trim_start_matches("PENDING_WORKFLOW_TASK_STATE_")
            .to_owned(),
        Err(_) => pending.state.to_string(),
    };
    let attempt = u32::try_from(pending.attempt).unwrap_or_default().max(1);
    let is_ready = pending.state() == PendingWorkflowTaskState::Scheduled;
    if !is_ready && attempt == 1 && facts.heartbeat.is_some() {
        let native = NativeState::new(word).with(KIND, "local-activity");
        let mut step = StepObservation::new("local-activity", native);
        step.start_time = timestamp(pending.original_scheduled_time.as_ref());
        return step;
    }
    let info = described.workflow_execution_info.as_ref();
    let queue = info.map_or("", |info| &info.task_queue);
    // A task that was interrupted is tried again without a failure of the workflow's code.
    let is_failing = attempt > 1 && (facts.task_error().is_some() || facts.interrupted.is_none());
    let repeated = if is_failing { "repeated" } else { "first" };
    let mut native = NativeState::new(word)
        .with(KIND, "workflow-task")
        .with(ATTEMPT, repeated);
    if !is_failing && is_ready && queues.has_none(queue, QueueKind::Workflow) {
        native = native.with(WORKERS, "none");
    }
    let mut step = StepObservation::new(WORKFLOW_TASK, native);
    step.start_time = timestamp(pending.started_time.as_ref());
    if is_failing {
        let error = facts.task_error().cloned().unwrap_or_else(|| {
            ExecutionError::message("workflow tasks fail; the history has no message")
        });
        let error = ExecutionError {
            step: WORKFLOW_TASK.to_owned(),
            attempt: attempt - 1,
            ..error
        };
        step.last_error = Some(error.clone());
        step.retry = Some(RetryEvidence {
            last_error: Some(error),
            ..RetryEvidence::reported(attempt)
        });
    }
    if is_ready && !is_failing {
        let since = timestamp(pending.scheduled_time.as_ref());
        step.waits = vec![capacity(queue, since, queues, QueueKind::Workflow)];
    }
    step
}
