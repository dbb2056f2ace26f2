//! What each event adds to the facts.

use jiff::Timestamp;
use serde_json::Value;
use stateway_model::{CancelInfo, ErrorCategory, ExecutionError};

use super::{
    Activity, Admitted, Begin, Child, Delivered, End, Ended, Facts, Initiator, LocalActivity,
    Reset, Timer, Update,
};
use crate::api::enums::v1::{
    ContinueAsNewInitiator, EventType, RetryState, TimeoutType, WorkflowTaskFailedCause,
};
use crate::api::failure::v1::Failure;
use crate::api::history::v1 as events;
use crate::api::history::v1::HistoryEvent;
use crate::api::history::v1::history_event::Attributes;
use crate::api::update::v1::Request;
use crate::steps::{activity_name, child_name};
use crate::time::{duration, timestamp};
use crate::{failure, payload, request};

impl Facts {
    /// Adds the next event.
    pub(crate) fn feed(&mut self, event: &HistoryEvent) {
        let at = timestamp(event.event_time.as_ref());
        let number = event.event_id;
        self.last = self.last.max(number);
        let after_task = std::mem::take(&mut self.after_task);
        if is_after_first_task(event.event_type()) {
            self.begun = Some(number);
        }
        let Some(attributes) = &event.attributes else {
            return;
        };
        match attributes {
            Attributes::WorkflowExecutionStartedEventAttributes(it) => self.begin = Some(begin(it)),
            Attributes::WorkflowTaskScheduledEventAttributes(_) => {
                self.heartbeat = self.last_task.filter(|_| after_task);
            }
            Attributes::WorkflowTaskStartedEventAttributes(_) => {}
            Attributes::WorkflowTaskCompletedEventAttributes(_) => {
                self.last_task = Some(number);
                self.task_failed = None;
                self.task_timed_out = None;
                self.interrupted = None;
                self.heartbeat = None;
                self.after_task = true;
            }
            Attributes::WorkflowTaskFailedEventAttributes(it) => self.task_failed(number, it, at),
            Attributes::WorkflowTaskTimedOutEventAttributes(it) => {
                self.task_timed_out(number, it, at);
            }
            other => {
                self.feed_step(number, other, event, at);
                self.feed_run(number, other, at);
            }
        }
    }

    fn task_failed(
        &mut self,
        number: i64,
        it: &events::WorkflowTaskFailedEventAttributes,
        at: Option<Timestamp>,
    ) {
        let message = it.failure.as_ref().map(failure::error).unwrap_or_default();
        match it.cause() {
            WorkflowTaskFailedCause::ResetWorkflow => {
                self.reset = Some(Reset {
                    base_run: it.base_run_id.clone(),
                    at,
                    why: message.message,
                    event: number,
                });
            }
            // The worker answers again by itself: something arrived while it worked.
            WorkflowTaskFailedCause::UnhandledCommand
            | WorkflowTaskFailedCause::ResetStickyTaskQueue => self.interrupted = Some(number),
            cause => {
                let cause = cause
                    .as_str_name()
                    .trim_start_matches("WORKFLOW_TASK_FAILED_CAUSE_");
                let text = if message.message.is_empty() {
                    "the workflow task failed".to_owned()
                } else {
                    message.message
                };
                let error = ExecutionError {
                    native_code: cause.to_owned(),
                    at,
                    attempt: 1,
                    ..ExecutionError::message(text)
                };
                self.task_failed = Some((number, error));
            }
        }
    }

    /// A worker that took the task and did not answer. A sticky queue whose worker has left is none.
    fn task_timed_out(
        &mut self,
        number: i64,
        it: &events::WorkflowTaskTimedOutEventAttributes,
        at: Option<Timestamp>,
    ) {
        if it.timeout_type() != TimeoutType::ScheduleToStart {
            let error = ExecutionError {
                native_code: failure::timeout_word(it.timeout_type),
                category: Some(ErrorCategory::Timeout),
                at,
                attempt: 1,
                ..ExecutionError::message("the worker did not answer the workflow task in time")
            };
            self.task_timed_out = Some((number, error));
        }
    }

    fn feed_step(
        &mut self,
        number: i64,
        attributes: &Attributes,
        event: &HistoryEvent,
        at: Option<Timestamp>,
    ) {
        match attributes {
            Attributes::ActivityTaskScheduledEventAttributes(it) => {
                let activity = Activity {
                    id: it.activity_id.clone(),
                    kind: it.activity_type.clone().unwrap_or_default().name,
                    task: it.workflow_task_completed_event_id,
                    started: None,
                    attempt: 1,
                    ended: None,
                };
                self.activities.insert(number, activity);
            }
            Attributes::ActivityTaskStartedEventAttributes(it) => {
                if let Some(activity) = self.activities.get_mut(&it.scheduled_event_id) {
                    activity.started = at;
                    activity.attempt = u32::try_from(it.attempt).unwrap_or(1);
                }
            }
            Attributes::ActivityTaskCompletedEventAttributes(it) => {
                self.activity_ended(it.scheduled_event_id, ended("COMPLETED", at));
            }
            Attributes::ActivityTaskFailedEventAttributes(it) => {
                let ended = failed("FAILED", at, it.failure.as_ref(), Some(it.retry_state()));
                self.activity_ended(it.scheduled_event_id, ended);
            }
            Attributes::ActivityTaskTimedOutEventAttributes(it) => {
                let ended = failed("TIMED_OUT", at, it.failure.as_ref(), Some(it.retry_state()));
                self.activity_ended(it.scheduled_event_id, ended);
            }
            Attributes::ActivityTaskCanceledEventAttributes(it) => {
                self.activity_ended(it.scheduled_event_id, ended("CANCELED", at));
            }
            Attributes::TimerStartedEventAttributes(it) => {
                self.timer_started(number, it, event, at);
            }
            Attributes::TimerFiredEventAttributes(it) => {
                self.timer_ended(it.started_event_id, ended("FIRED", at));
            }
            Attributes::TimerCanceledEventAttributes(it) => {
                self.timer_ended(it.started_event_id, ended("CANCELED", at));
            }
            Attributes::MarkerRecordedEventAttributes(it) => self.marker = marker(number, it),
            other => self.feed_child(number, other, at),
        }
    }

    fn activity_ended(&mut self, scheduled: i64, mut ended: Ended) {
        if let Some(activity) = self.activities.get_mut(&scheduled) {
            if let Some(error) = &mut ended.error {
                error.attempt = activity.attempt;
                error.step = activity_name(&activity.id, &activity.kind);
            }
            activity.ended = Some(ended);
        }
    }

    fn timer_started(
        &mut self,
        number: i64,
        it: &events::TimerStartedEventAttributes,
        event: &HistoryEvent,
        at: Option<Timestamp>,
    ) {
        let pause = duration(it.start_to_fire_timeout.as_ref()).unwrap_or_default();
        let summary = event
            .user_metadata
            .as_ref()
            .and_then(|it| it.summary.as_ref());
        // A local activity that pauses for long is a marker and a timer of the same workflow task.
        let marker = self.marker.take();
        let retries = marker.filter(|(task, _)| *task == it.workflow_task_completed_event_id);
        let timer = Timer {
            id: it.timer_id.clone(),
            summary: summary.map(payload::text),
            since: at,
            fires: at.and_then(|at| at.checked_add(pause).ok()),
            retries: retries.map(|(_, activity)| activity),
            ended: None,
        };
        self.timers.insert(number, timer);
    }

    fn timer_ended(&mut self, started: i64, ended: Ended) {
        if let Some(timer) = self.timers.get_mut(&started) {
            timer.ended = Some(ended);
        }
    }

    fn feed_child(&mut self, number: i64, attributes: &Attributes, at: Option<Timestamp>) {
        match attributes {
            Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(it) => {
                let child = Child {
                    workflow_id: it.workflow_id.clone(),
                    kind: it.workflow_type.clone().unwrap_or_default().name,
                    task: it.workflow_task_completed_event_id,
                    since: at,
                    ended: None,
                };
                self.children.insert(number, child);
            }
            Attributes::StartChildWorkflowExecutionFailedEventAttributes(it) => {
                let cause = it.cause().as_str_name();
                let cause =
                    cause.trim_start_matches("START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_");
                let why = format!("the child could not be started: {cause}");
                let ended = child_failed("FAILED", at, cause, why);
                self.child_ended(it.initiated_event_id, ended);
            }
            Attributes::ChildWorkflowExecutionCompletedEventAttributes(it) => {
                self.child_ended(it.initiated_event_id, ended("COMPLETED", at));
            }
            Attributes::ChildWorkflowExecutionFailedEventAttributes(it) => {
                let ended = failed("FAILED", at, it.failure.as_ref(), Some(it.retry_state()));
                self.child_ended(it.initiated_event_id, ended);
            }
            Attributes::ChildWorkflowExecutionCanceledEventAttributes(it) => {
                self.child_ended(it.initiated_event_id, ended("CANCELED", at));
            }
            Attributes::ChildWorkflowExecutionTimedOutEventAttributes(it) => {
                let why = "the child did not end in time".to_owned();
                let mut ended = child_failed("TIMED_OUT", at, "", why);
                if let Some(error) = &mut ended.error {
                    error.category = Some(ErrorCategory::Timeout);
                }
                self.child_ended(it.initiated_event_id, ended);
            }
            Attributes::ChildWorkflowExecutionTerminatedEventAttributes(it) => {
                let why = "the child was terminated".to_owned();
                let ended = child_failed("TERMINATED", at, "", why);
                self.child_ended(it.initiated_event_id, ended);
            }
            Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(it) => {
                let request = it.accepted_request.as_ref();
                let input = request.and_then(|it| it.input.as_ref());
                let body = input.map(|it| request::update_body(&it.name, it.args.as_ref()));
                self.delivered(number, &it.protocol_instance_id, body);
                let update = Update {
                    request_id: it.protocol_instance_id.clone(),
                    name: input.map(|it| it.name.clone()),
                };
                self.updates.insert(number, update);
            }
            Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(it) => {
                self.admitted(number, it.request.clone().unwrap_or_default());
            }
            Attributes::WorkflowExecutionUpdateCompletedEventAttributes(it) => {
                self.updates.remove(&it.accepted_event_id);
            }
            _ => {}
        }
    }

    /// The newest event of a request id counts: after a reset the server records the id a second time.
    fn delivered(&mut self, event: i64, request_id: &str, body: Option<u64>) {
        if !request_id.is_empty() {
            let delivered = Delivered { event, body };
            self.requests.insert(request_id.to_owned(), delivered);
        }
    }

    fn admitted(&mut self, event: i64, request: Request) {
        let id = request.meta.unwrap_or_default().update_id;
        let input = request.input.unwrap_or_default();
        let body = request::update_body(&input.name, input.args.as_ref());
        self.delivered(event, &id, Some(body));
        let admitted = Admitted {
            event,
            name: input.name,
            body,
        };
        self.admitted.insert(id, admitted);
    }

    fn child_ended(&mut self, initiated: i64, mut ended: Ended) {
        if let Some(child) = self.children.get_mut(&initiated) {
            if let Some(error) = &mut ended.error {
                error.step = child_name(&child.workflow_id);
            }
            child.ended = Some(ended);
        }
    }

    fn feed_run(&mut self, number: i64, attributes: &Attributes, at: Option<Timestamp>) {
        match attributes {
            Attributes::WorkflowExecutionSignaledEventAttributes(it) => {
                let body = request::signal_body(&it.signal_name, it.input.as_ref());
                self.delivered(number, &it.request_id, Some(body));
                return;
            }
            Attributes::WorkflowExecutionCancelRequestedEventAttributes(it) => {
                self.cancel = Some((number, cancel(&it.identity, &it.cause, at)));
            }
            Attributes::WorkflowExecutionCompletedEventAttributes(it) => {
                self.end = Some(end(None, &it.new_execution_run_id, false));
            }
            Attributes::WorkflowExecutionFailedEventAttributes(it) => {
                let error = it.failure.as_ref().map(failure::error);
                let is_retried = it.retry_state() == RetryState::InProgress;
                self.end = Some(end(error, &it.new_execution_run_id, is_retried));
            }
            Attributes::WorkflowExecutionTimedOutEventAttributes(it) => {
                let error = ExecutionError {
                    category: Some(ErrorCategory::Timeout),
                    ..ExecutionError::message("the workflow did not end in time")
                };
                let is_retried = it.retry_state() == RetryState::InProgress;
                self.end = Some(end(Some(error), &it.new_execution_run_id, is_retried));
            }
            Attributes::WorkflowExecutionTerminatedEventAttributes(it) => {
                self.cancel = Some((number, cancel(&it.identity, &it.reason, at)));
                let why = match it.reason.as_str() {
                    "" => "terminated".to_owned(),
                    reason => format!("terminated: {reason}"),
                };
                self.end = Some(end(Some(ExecutionError::message(why)), "", false));
            }
            Attributes::WorkflowExecutionCanceledEventAttributes(_) => {
                self.end = Some(end(None, "", false));
            }
            Attributes::WorkflowExecutionContinuedAsNewEventAttributes(it) => {
                self.end = Some(end(None, &it.new_execution_run_id, false));
            }
            _ => return,
        }
        if let Some(End {
            error: Some(error), ..
        }) = &mut self.end
        {
            error.at = error.at.or(at);
        }
    }
}

/// Whether events of this type follow the first workflow task: those of tasks and of what tasks begin. Events
/// of the workflow itself are its start, or requests of clients.
fn is_after_first_task(kind: EventType) -> bool {
    let is_of_workflow = kind
        .as_str_name()
        .starts_with("EVENT_TYPE_WORKFLOW_EXECUTION_");
    kind != EventType::Unspecified && !is_of_workflow
}

fn begin(it: &events::WorkflowExecutionStartedEventAttributes) -> Begin {
    let initiator = match it.initiator() {
        ContinueAsNewInitiator::Retry => Initiator::Retry,
        ContinueAsNewInitiator::CronSchedule => Initiator::Cron,
        _ if !it.cron_schedule.is_empty() => Initiator::Cron,
        _ => Initiator::Workflow,
    };
    let policy = it.retry_policy.as_ref();
    let previous = it.continued_execution_run_id.clone();
    Begin {
        initiator,
        attempt: u32::try_from(it.attempt).unwrap_or(1).max(1),
        max_attempts: policy
            .map(|policy| u32::try_from(policy.maximum_attempts).unwrap_or_default()),
        backoff: duration(it.first_workflow_task_backoff.as_ref()),
        error: it.continued_failure.as_ref().map(failure::error),
        previous_run: (!previous.is_empty()).then_some(previous),
        by: it.identity.clone(),
    }
}

fn ended(word: &'static str, at: Option<Timestamp>) -> Ended {
    Ended {
        word,
        at,
        retry_state: None,
        error: None,
    }
}

/// The end of a child whose event has no failure.
fn child_failed(word: &'static str, at: Option<Timestamp>, code: &str, why: String) -> Ended {
    Ended {
        error: Some(ExecutionError {
            native_code: code.to_owned(),
            at,
            ..ExecutionError::message(why)
        }),
        ..ended(word, at)
    }
}

fn failed(
    word: &'static str,
    at: Option<Timestamp>,
    failure: Option<&Failure>,
    retry_state: Option<RetryState>,
) -> Ended {
    let retry_state = retry_state.filter(|state| *state != RetryState::Unspecified);
    let name = |state: RetryState| {
        let name = state.as_str_name();
        name.trim_start_matches("RETRY_STATE_").to_owned()
    };
    let error = failure.map(failure::error);
    Ended {
        retry_state: retry_state.map(name),
        error: error.map(|error| ExecutionError { at, ..error }),
        ..ended(word, at)
    }
}

fn end(error: Option<ExecutionError>, next_run: &str, is_retried: bool) -> End {
    End {
        error,
        next_run: (!next_run.is_empty()).then(|| next_run.to_owned()),
        is_retried,
    }
}

fn cancel(by: &str, comment: &str, time: Option<Timestamp>) -> CancelInfo {
    CancelInfo {
        by: by.to_owned(),
        comment: comment.to_owned(),
        time,
    }
}

/// The marker of a local activity that failed and is tried again after a pause. A marker without a pause is of a
/// failure that the workflow gets.
fn marker(event: i64, it: &events::MarkerRecordedEventAttributes) -> Option<(i64, LocalActivity)> {
    let is_local = it
        .marker_name
        .to_ascii_lowercase()
        .replace('_', "")
        .contains("localactivity");
    let failure = it.failure.as_ref().filter(|_| is_local)?;
    let details = it
        .details
        .get("data")
        .and_then(|data| data.payloads.first());
    let data = details.map_or(Value::Null, payload::value);
    // The SDKs that share a core write an object, the one for Go a number of nanoseconds.
    let has_pause = |name: &str| !matches!(&data[name], Value::Null) && data[name] != 0;
    if !has_pause("backoff") && !has_pause("Backoff") {
        return None;
    }
    let field = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let name = match (field("activity_type"), field("activity_id")) {
        (kind, _) if !kind.is_empty() => kind,
        (_, id) if !id.is_empty() => id,
        _ => "local-activity".to_owned(),
    };
    let attempt = data["attempt"].as_u64().unwrap_or(1);
    let activity = LocalActivity {
        event,
        name,
        attempt: u32::try_from(attempt).unwrap_or(1),
        error: failure::error(failure),
    };
    Some((it.workflow_task_completed_event_id, activity))
}
