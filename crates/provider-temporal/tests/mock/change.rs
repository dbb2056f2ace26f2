//! What calls do to a run: starts, resets, and changes of pending activities.

use serde_json::json;
use stateway_provider_temporal::api::common::v1::WorkflowExecution;
use stateway_provider_temporal::api::enums::v1::{
    PendingActivityState as ActivityState, WorkflowExecutionStatus as RunStatus,
};
use stateway_provider_temporal::api::history::v1::HistoryEvent;
use stateway_provider_temporal::api::workflow::v1::{
    PendingActivityInfo, WorkflowExecutionConfig, WorkflowExecutionInfo,
};
use stateway_provider_temporal::api::workflowservice::v1 as rpc;
use tonic::Status;

use super::world::{Run, now};
use crate::support::message::message;

pub(crate) fn named(workflow_id: &str, run_id: &str) -> WorkflowExecution {
    WorkflowExecution {
        workflow_id: workflow_id.to_owned(),
        run_id: run_id.to_owned(),
    }
}

pub(crate) fn paused(activity: &mut PendingActivityInfo) {
    activity.paused = true;
    activity.next_attempt_schedule_time = None;
    let state = match activity.state() {
        ActivityState::Started => ActivityState::PauseRequested,
        _ => ActivityState::Paused,
    };
    activity.set_state(state);
}

pub(crate) fn unpaused(activity: &mut PendingActivityInfo) {
    activity.paused = false;
    activity.pause_info = None;
    activity.set_state(ActivityState::Scheduled);
}

pub(crate) fn begun_again(activity: &mut PendingActivityInfo) {
    unpaused(activity);
    activity.attempt = 1;
    activity.next_attempt_schedule_time = None;
    activity.current_retry_interval = None;
}

/// A run that waits for its first workflow task, or for its time.
pub(crate) fn started(request: &rpc::StartWorkflowExecutionRequest, run_id: &str) -> Run {
    let execution = Some(named(&request.workflow_id, run_id));
    let mut at = now();
    let delay = request
        .workflow_start_delay
        .as_ref()
        .map_or(0, |it| it.seconds);
    let start_time = Some(at);
    at.seconds += delay;
    let mut run = Run {
        start_request: request.request_id.clone(),
        ..Run::default()
    };
    *run.info() = WorkflowExecutionInfo {
        execution: execution.clone(),
        r#type: request.workflow_type.clone(),
        start_time,
        execution_time: Some(at),
        status: RunStatus::Running.into(),
        memo: request.memo.clone(),
        search_attributes: request.search_attributes.clone(),
        task_queue: request.task_queue.clone().unwrap_or_default().name,
        root_execution: execution,
        first_run_id: run_id.to_owned(),
        ..WorkflowExecutionInfo::default()
    };
    run.described.execution_config = Some(WorkflowExecutionConfig {
        task_queue: request.task_queue.clone(),
        ..WorkflowExecutionConfig::default()
    });
    run.extended().original_start_time = start_time;
    let queue = json!({"name": request.task_queue.clone().unwrap_or_default().name});
    run.record(
        "WORKFLOW_EXECUTION_STARTED",
        &json!({
            "workflowType": {"name": request.workflow_type.clone().unwrap_or_default().name},
            "taskQueue": queue,
            "firstExecutionRunId": run_id,
            "originalExecutionRunId": run_id,
            "attempt": 1,
            "firstWorkflowTaskBackoff": format!("{delay}s"),
        }),
    );
    with_start_payloads(&mut run, request);
    if delay == 0 {
        run.set_pending_task(Some(1));
        run.record(
            "WORKFLOW_TASK_SCHEDULED",
            &json!({"taskQueue": queue, "attempt": 1}),
        );
    }
    run
}

fn with_start_payloads(run: &mut Run, request: &rpc::StartWorkflowExecutionRequest) {
    use stateway_provider_temporal::api::history::v1::history_event::Attributes;
    let first = run
        .events
        .first_mut()
        .and_then(|event| event.attributes.as_mut());
    if let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) = first {
        started.input.clone_from(&request.input);
        started.memo.clone_from(&request.memo);
    }
}

/// The worker schedules again what it had scheduled after the chosen event; without an activity there the
/// workflow task stays pending.
fn replay(fresh: &mut Run, after: &[HistoryEvent]) {
    use stateway_provider_temporal::api::history::v1::history_event::Attributes;
    let scheduled = after.iter().find_map(|event| match &event.attributes {
        Some(Attributes::ActivityTaskScheduledEventAttributes(it)) => Some(it.activity_id.clone()),
        _ => None,
    });
    let Some(activity) = scheduled else {
        fresh.set_pending_task(Some(1));
        return;
    };
    fresh.record("WORKFLOW_TASK_STARTED", &json!({}));
    fresh.record("WORKFLOW_TASK_COMPLETED", &json!({}));
    fresh.set_pending_task(None);
    let task = fresh.events.len().to_string();
    fresh.record(
        "ACTIVITY_TASK_SCHEDULED",
        &json!({
            "activityId": activity, "activityType": {"name": "fail"},
            "workflowTaskCompletedEventId": task,
        }),
    );
    let pending = json!({
        "activityId": activity, "activityType": {"name": "fail"}, "attempt": 1,
        "state": "PENDING_ACTIVITY_STATE_STARTED",
    });
    let pending = message("workflow.v1.PendingActivityInfo", &pending);
    fresh.described.pending_activities.push(pending);
}

/// A new run with the history up to the chosen event. The base run is superseded.
pub(crate) fn reset(
    base: &mut Run,
    request: &rpc::ResetWorkflowExecutionRequest,
    run_id: &str,
) -> Result<Run, Status> {
    let until = usize::try_from(request.workflow_task_finish_event_id).unwrap_or(0);
    if until < 2 || until > base.events.len() + 1 {
        let message = "Workflow task finish ID must be > 1 && <= workflow last event ID.";
        return Err(Status::invalid_argument(message));
    }
    let mut fresh = base.clone();
    fresh.events.truncate(until - 1);
    fresh.requests = [request.request_id.clone()].into();
    let info = fresh.info();
    info.execution.get_or_insert_default().run_id = run_id.to_owned();
    info.status = RunStatus::Running.into();
    info.close_time = None;
    info.start_time = Some(now());
    fresh.extended().last_reset_time = Some(now());
    fresh.extended().reset_run_id = String::new();
    fresh.described.pending_activities.clear();
    fresh.described.pending_children.clear();
    let attributes = json!({
        "cause": "WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW",
        "failure": {"message": request.reason, "resetWorkflowFailureInfo": {}},
        "baseRunId": base.run_id(), "newRunId": run_id,
    });
    fresh.record("WORKFLOW_TASK_FAILED", &attributes);
    fresh.record("WORKFLOW_TASK_SCHEDULED", &json!({"attempt": 1}));
    replay(&mut fresh, &base.events[until - 1..]);
    base.extended().reset_run_id = run_id.to_owned();
    if !base.is_closed() {
        let attributes = json!({"reason": request.reason});
        base.close(
            RunStatus::Terminated,
            "WORKFLOW_EXECUTION_TERMINATED",
            &attributes,
        );
    }
    Ok(fresh)
}
