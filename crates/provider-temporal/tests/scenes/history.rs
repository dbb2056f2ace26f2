//! Histories, event by event.

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

/// The events so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(Vec<Value>);

impl History {
    /// A history with the start alone.
    pub(crate) fn begun(fields: Value) -> Self {
        let mut started = json!({
            "workflowType": {"name": "Script"}, "taskQueue": {"name": "lab"}, "attempt": 1,
            "input": {"payloads": [{"steps": []}]},
        });
        for (key, value) in fields.as_object().into_iter().flatten() {
            started[key] = value.clone();
        }
        Self::default().event(
            "WORKFLOW_EXECUTION_STARTED",
            "workflowExecutionStarted",
            started,
        )
    }

    /// One workflow task was completed.
    pub(crate) fn idle() -> Self {
        Self::idle_with(json!({}))
    }

    pub(crate) fn idle_with(fields: Value) -> Self {
        Self::begun(fields).task_completed()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn json(self) -> Value {
        json!({"events": self.0})
    }

    fn event(mut self, kind: &str, name: &str, attributes: Value) -> Self {
        // Ten milliseconds apart, the first one a minute ago.
        let number = i64::try_from(self.0.len() + 1).unwrap_or_default();
        let time = Timestamp::now() - 60.seconds() + (number * 10).milliseconds();
        self.0.push(json!({
            "eventId": number.to_string(),
            "eventTime": time.to_string(),
            "eventType": format!("EVENT_TYPE_{kind}"),
            format!("{name}EventAttributes"): attributes,
        }));
        self
    }

    pub(crate) fn task_scheduled(self) -> Self {
        let attributes = json!({"taskQueue": {"name": "lab"}, "attempt": 1});
        self.event(
            "WORKFLOW_TASK_SCHEDULED",
            "workflowTaskScheduled",
            attributes,
        )
    }

    fn task_started(self) -> Self {
        let scheduled = self.task_scheduled();
        let attributes = json!({"scheduledEventId": scheduled.len().to_string()});
        scheduled.event("WORKFLOW_TASK_STARTED", "workflowTaskStarted", attributes)
    }

    pub(crate) fn task_completed(self) -> Self {
        let attributes = json!({"identity": "worker-1"});
        self.task_started().event(
            "WORKFLOW_TASK_COMPLETED",
            "workflowTaskCompleted",
            attributes,
        )
    }

    pub(crate) fn task_failed(self, message: &str) -> Self {
        let attributes = json!({
            "cause": "WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE",
            "failure": {"message": message, "applicationFailureInfo": {"type": "RuntimeError"}},
        });
        self.task_started()
            .event("WORKFLOW_TASK_FAILED", "workflowTaskFailed", attributes)
    }

    /// A worker that runs a local activity completes its workflow task and takes the next one.
    pub(crate) fn task_held(self) -> Self {
        self.task_completed().task_started()
    }

    /// The newest workflow task that was completed.
    fn task(&self) -> String {
        let is_task = |event: &&Value| event["eventType"] == "EVENT_TYPE_WORKFLOW_TASK_COMPLETED";
        let newest = self.0.iter().rev().find(is_task);
        newest.map_or_else(String::new, |event| {
            event["eventId"].as_str().unwrap_or_default().to_owned()
        })
    }

    pub(crate) fn scheduled(self, activity: &str) -> Self {
        let attributes = json!({
            "workflowTaskCompletedEventId": self.task(),
            "activityId": activity, "activityType": {"name": "fail"},
            "taskQueue": {"name": "lab"}, "retryPolicy": {"maximumAttempts": 5},
        });
        self.event(
            "ACTIVITY_TASK_SCHEDULED",
            "activityTaskScheduled",
            attributes,
        )
    }

    /// The event that scheduled an activity.
    fn scheduling(&self, activity: &str) -> String {
        let is_it = |event: &&Value| {
            event["activityTaskScheduledEventAttributes"]["activityId"] == activity
        };
        let found = self
            .0
            .iter()
            .find(is_it)
            .map(|event| event["eventId"].clone());
        found
            .and_then(|id| id.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// The server writes the start of an activity together with its end.
    fn closed(self, activity: &str, kind: &str, name: &str, mut attributes: Value) -> Self {
        let scheduled = self.scheduling(activity);
        let started = json!({"scheduledEventId": scheduled, "attempt": 5});
        let history = self.event("ACTIVITY_TASK_STARTED", "activityTaskStarted", started);
        attributes["scheduledEventId"] = json!(scheduled);
        attributes["startedEventId"] = json!(history.len().to_string());
        history
            .event(
                &format!("ACTIVITY_TASK_{kind}"),
                &format!("activityTask{name}"),
                attributes,
            )
            .task_completed()
    }

    pub(crate) fn completed(self, activity: &str) -> Self {
        self.closed(activity, "COMPLETED", "Completed", json!({}))
    }

    pub(crate) fn failed(self, activity: &str, retry_state: &str) -> Self {
        let attributes = json!({
            "failure": {"message": "card declined", "applicationFailureInfo": {"type": "PaymentError"}},
            "retryState": format!("RETRY_STATE_{retry_state}"),
        });
        self.closed(activity, "FAILED", "Failed", attributes)
    }

    pub(crate) fn timed_out(self, activity: &str) -> Self {
        let attributes = json!({
            "failure": {
                "message": "activity StartToClose timeout",
                "timeoutFailureInfo": {"timeoutType": "TIMEOUT_TYPE_START_TO_CLOSE"},
            },
            "retryState": "RETRY_STATE_TIMEOUT",
        });
        self.closed(activity, "TIMED_OUT", "TimedOut", attributes)
    }

    pub(crate) fn cancelled(self, activity: &str) -> Self {
        self.closed(activity, "CANCELED", "Canceled", json!({}))
    }

    pub(crate) fn timer(self, id: &str, state: &str) -> Self {
        let attributes = json!({"timerId": id, "startToFireTimeout": "3600s"});
        let history = self.event("TIMER_STARTED", "timerStarted", attributes);
        let ended = json!({"timerId": id, "startedEventId": history.len().to_string()});
        match state {
            "FIRED" => history
                .event("TIMER_FIRED", "timerFired", ended)
                .task_completed(),
            "CANCELED" => history.event("TIMER_CANCELED", "timerCanceled", ended),
            _ => history,
        }
    }

    pub(crate) fn local_activity_failed(self) -> Self {
        let attributes = json!({
            "markerName": "core_local_activity",
            "details": {"data": [{"activity_type": "charge", "attempt": 1, "backoff": {"seconds": 600}}]},
            "failure": {"message": "card declined", "applicationFailureInfo": {"type": "PaymentError"}},
        });
        self.event("MARKER_RECORDED", "markerRecorded", attributes)
    }

    /// A child that has started.
    pub(crate) fn child(self, id: &str) -> Self {
        self.child_in(id, "STARTED")
    }

    pub(crate) fn child_in(self, id: &str, state: &str) -> Self {
        let attributes = json!({
            "workflowId": id, "workflowType": {"name": "Script"},
            "workflowTaskCompletedEventId": self.task(),
        });
        let history = self.event(
            "START_CHILD_WORKFLOW_EXECUTION_INITIATED",
            "startChildWorkflowExecutionInitiated",
            attributes,
        );
        if state == "INITIATED" {
            return history;
        }
        let child = json!({
            "initiatedEventId": history.len().to_string(),
            "workflowExecution": {"workflowId": id, "runId": super::run_id(77)},
            "workflowType": {"name": "Script"},
        });
        let started = history.event(
            "CHILD_WORKFLOW_EXECUTION_STARTED",
            "childWorkflowExecutionStarted",
            child.clone(),
        );
        let (kind, name) = match state {
            "COMPLETED" => ("COMPLETED", "Completed"),
            "FAILED" => ("FAILED", "Failed"),
            "CANCELED" => ("CANCELED", "Canceled"),
            "TERMINATED" => ("TERMINATED", "Terminated"),
            "TIMED_OUT" => ("TIMED_OUT", "TimedOut"),
            _ => return started,
        };
        started
            .event(
                &format!("CHILD_WORKFLOW_EXECUTION_{kind}"),
                &format!("childWorkflowExecution{name}"),
                child,
            )
            .task_completed()
    }

    /// The run ends in this status.
    pub(crate) fn ended(self, status: &str, attributes: Value) -> Self {
        let name = match status {
            "COMPLETED" => "Completed",
            "FAILED" => "Failed",
            "CANCELED" => "Canceled",
            "TERMINATED" => "Terminated",
            "TIMED_OUT" => "TimedOut",
            _ => "ContinuedAsNew",
        };
        self.event(
            &format!("WORKFLOW_EXECUTION_{status}"),
            &format!("workflowExecution{name}"),
            attributes,
        )
    }
}
