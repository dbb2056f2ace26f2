//! What calls do to a run: starts, resets, and changes of pending activities.

use serde_json::json;
use stateway_provider_temporal::api::common::v1::{Payloads, WorkflowExecution};
use stateway_provider_temporal::api::enums::v1::{
    EventType, PendingActivityState as ActivityState, WorkflowExecutionStatus as RunStatus,
};
use stateway_provider_temporal::api::history::v1::HistoryEvent;
use stateway_provider_temporal::api::update::v1::Request as UpdateRequest;
use stateway_provider_temporal::api::workflow::v1::{
    PendingActivityInfo, RequestIdInfo, WorkflowExecutionConfig, WorkflowExecutionInfo,
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
    let began = RequestIdInfo {
        event_type: EventType::WorkflowExecutionStarted.into(),
        event_id: 1,
        buffered: false,
    };
    let requests = &mut run.extended().request_id_infos;
    requests.insert(request.request_id.clone(), began);
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
        started
            .search_attributes
            .clone_from(&request.search_attributes);
        started.cron_schedule.clone_from(&request.cron_schedule);
        started.retry_policy.clone_from(&request.retry_policy);
        started.workflow_execution_timeout = request.workflow_execution_timeout;
        started.workflow_task_timeout = request.workflow_task_timeout;
        // The server shortens the timeout of a run to that of the execution.
        let shorter = |a: prost_types::Duration, b: prost_types::Duration| {
            if (a.seconds, a.nanos) < (b.seconds, b.nanos) {
                a
            } else {
                b
            }
        };
        let (run, all) = (
            request.workflow_run_timeout,
            request.workflow_execution_timeout,
        );
        started.workflow_run_timeout = match (run, all) {
            (Some(run), Some(all)) => Some(shorter(run, all)),
            (run, all) => run.or(all),
        };
    }
}

/// The newest event has these arguments.
pub(crate) fn with_input(run: &mut Run, input: Option<Payloads>) {
    use stateway_provider_temporal::api::history::v1::history_event::Attributes;
    let newest = run
        .events
        .last_mut()
        .and_then(|event| event.attributes.as_mut());
    if let Some(Attributes::WorkflowExecutionSignaledEventAttributes(signaled)) = newest {
        signaled.input = input;
    }
}

/// A worker accepts and answers an update. The event has no request if the one that admitted the update has it.
pub(crate) fn accepted(run: &mut Run, id: &str, request: UpdateRequest) {
    use stateway_provider_temporal::api::history::v1::history_event::Attributes;
    let is_admitted = run.events.iter().any(|event| match &event.attributes {
        Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(it)) => {
            let meta = it.request.as_ref().and_then(|it| it.meta.as_ref());
            meta.is_some_and(|meta| meta.update_id == id)
        }
        _ => false,
    });
    let attributes = json!({"protocolInstanceId": id});
    run.record("WORKFLOW_EXECUTION_UPDATE_ACCEPTED", &attributes);
    let newest = run
        .events
        .last_mut()
        .and_then(|event| event.attributes.as_mut());
    if let Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(accepted)) = newest {
        accepted.accepted_request = (!is_admitted).then_some(request);
    }
    let attributes =
        json!({"acceptedEventId": run.events.len().to_string(), "meta": {"updateId": id}});
    run.record("WORKFLOW_EXECUTION_UPDATE_COMPLETED", &attributes);
}

/// The run ends and this one continues it.
pub(crate) fn continued(base: &mut Run, run_id: &str) -> Run {
    let attributes = json!({"newExecutionRunId": run_id});
    let kind = "WORKFLOW_EXECUTION_CONTINUED_AS_NEW";
    base.close(RunStatus::ContinuedAsNew, kind, &attributes);
    let mut fresh = Run {
        described: base.described.clone(),
        ..Run::default()
    };
    let info = fresh.info();
    info.execution.get_or_insert_default().run_id = run_id.to_owned();
    info.status = RunStatus::Running.into();
    info.close_time = None;
    info.start_time = Some(now());
    info.execution_time = info.start_time;
    let first = info.first_run_id.clone();
    let attributes = json!({
        "workflowType": {"name": "Script"}, "taskQueue": {"name": "lab"}, "attempt": 1,
        "firstExecutionRunId": first, "originalExecutionRunId": run_id,
        "continuedExecutionRunId": base.run_id(),
        "initiator": "CONTINUE_AS_NEW_INITIATOR_WORKFLOW",
    });
    fresh.record("WORKFLOW_EXECUTION_STARTED", &attributes);
    for kind in ["SCHEDULED", "STARTED", "COMPLETED"] {
        fresh.record(&format!("WORKFLOW_TASK_{kind}"), &json!({}));
    }
    fresh
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

/// Whether a reset may go there: after a workflow task was scheduled, up to the event after its start.
fn is_reset_point(events: &[HistoryEvent], point: i64) -> bool {
    let mut before = events.iter().filter(|event| event.event_id < point);
    let newest = before.rfind(|event| {
        let kind = event.event_type();
        matches!(
            kind,
            EventType::WorkflowTaskScheduled | EventType::WorkflowTaskStarted
        )
    });
    newest.is_some_and(|newest| {
        newest.event_type() == EventType::WorkflowTaskScheduled || newest.event_id + 1 == point
    })
}

/// The event of the new run for one that the base run has after the point of the reset.
fn applied_again(event: &HistoryEvent) -> Option<HistoryEvent> {
    use stateway_provider_temporal::api::history::v1 as events;
    use stateway_provider_temporal::api::history::v1::history_event::Attributes;
    match &event.attributes {
        Some(Attributes::WorkflowExecutionSignaledEventAttributes(_)) => Some(event.clone()),
        Some(Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(it)) => {
            let admitted = events::WorkflowExecutionUpdateAdmittedEventAttributes {
                request: it.accepted_request.clone(),
            };
            Some(HistoryEvent {
                event_type: EventType::WorkflowExecutionUpdateAdmitted.into(),
                attributes: Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(
                    admitted,
                )),
                ..event.clone()
            })
        }
        _ => None,
    }
}

/// A new run with the history up to the chosen event. The base run is superseded.
pub(crate) fn reset(
    base: &mut Run,
    request: &rpc::ResetWorkflowExecutionRequest,
    run_id: &str,
) -> Result<Run, Status> {
    let until = usize::try_from(request.workflow_task_finish_event_id).unwrap_or(0);
    if !is_reset_point(&base.events, request.workflow_task_finish_event_id) {
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
    // Signals and updates are applied again, but the new run does not know the request ids of the signals.
    for event in &base.events[until - 1..] {
        let Some(event) = applied_again(event) else {
            continue;
        };
        let event_id = i64::try_from(fresh.events.len() + 1).unwrap_or_default();
        fresh.events.push(HistoryEvent { event_id, ..event });
    }
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
