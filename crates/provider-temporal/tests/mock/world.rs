//! What the mock server knows: runs of workflows, and what calls do to them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;
use stateway_provider_temporal::api::common::v1::{Payload, WorkflowExecution};
use stateway_provider_temporal::api::enums::v1::WorkflowExecutionStatus as Status;
use stateway_provider_temporal::api::history::v1::HistoryEvent;
use stateway_provider_temporal::api::workflow::v1::{
    WorkflowExecutionExtendedInfo, WorkflowExecutionInfo,
};
use stateway_provider_temporal::api::workflowservice::v1::DescribeWorkflowExecutionResponse;

use crate::support::message::message;

/// Every run, oldest first.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) runs: Vec<Run>,
    /// Task queues that workers poll.
    pub(crate) polled: BTreeSet<String>,
    /// The server knows only the older names of the calls on activities.
    pub(crate) is_old: bool,
    /// The namespace does not allow to pause workflows.
    pub(crate) refuses_pause: bool,
    /// The server refuses to pause and to resume for this reason.
    pub(crate) precondition: Option<&'static str>,
    /// Deletions are accepted and carried out later, as on the real server.
    pub(crate) deletes_later: bool,
    /// Runs that lists do not show yet.
    pub(crate) unlisted: BTreeSet<String>,
    /// Lists still show every run as open.
    pub(crate) lags: bool,
    /// How many updates no worker takes.
    pub(crate) admits_only: u32,
    started: u32,
}

/// One run of a workflow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    pub(crate) described: DescribeWorkflowExecutionResponse,
    pub(crate) events: Vec<HistoryEvent>,
    /// Ids of requests that must have no second effect.
    pub(crate) requests: BTreeSet<String>,
    pub(crate) start_request: String,
}

impl World {
    pub(crate) fn put(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// A run id that no other run has. Ids of later runs are greater, as those of first runs are.
    pub(crate) fn new_run_id(&mut self) -> String {
        self.started += 1;
        format!("01a1e1af-0fa0-788e-9075-{:012x}", self.started)
    }

    /// The run of a request: the named one, or the newest of the workflow.
    pub(crate) fn find(&mut self, named: Option<&WorkflowExecution>) -> Option<&mut Run> {
        let named = named?;
        let is_meant = |run: &&mut Run| {
            run.id() == named.workflow_id
                && (named.run_id.is_empty() || run.run_id() == named.run_id)
        };
        self.runs.iter_mut().rev().find(is_meant)
    }

    /// The current run of a workflow continues as a new one, which is idle.
    pub(crate) fn continue_as_new(&mut self, workflow_id: &str) {
        let run_id = self.new_run_id();
        let named = WorkflowExecution {
            workflow_id: workflow_id.to_owned(),
            run_id: String::new(),
        };
        let base = self.find(Some(&named)).unwrap();
        let next = super::change::continued(base, &run_id);
        self.put(next);
    }

    pub(crate) fn remove(&mut self, workflow_id: &str) {
        self.runs.retain(|run| run.id() != workflow_id);
    }
}

impl Run {
    pub(crate) fn recorded(
        described: DescribeWorkflowExecutionResponse,
        events: Vec<HistoryEvent>,
    ) -> Self {
        Self {
            described,
            events,
            ..Self::default()
        }
    }

    pub(crate) fn info(&mut self) -> &mut WorkflowExecutionInfo {
        self.described
            .workflow_execution_info
            .get_or_insert_default()
    }

    pub(crate) fn extended(&mut self) -> &mut WorkflowExecutionExtendedInfo {
        self.described
            .workflow_extended_info
            .get_or_insert_default()
    }

    /// As lists show it: without the first run of its chain, and an open run without its length.
    pub(crate) fn listed(&self, lags: bool) -> Option<WorkflowExecutionInfo> {
        let mut info = self.shown()?.clone();
        info.first_run_id = String::new();
        if lags {
            info.status = Status::Running.into();
            info.close_time = None;
        }
        if lags || !self.is_closed() {
            info.history_length = 0;
        }
        Some(info)
    }

    fn shown(&self) -> Option<&WorkflowExecutionInfo> {
        self.described.workflow_execution_info.as_ref()
    }

    fn execution(&self) -> WorkflowExecution {
        let execution = self.shown().and_then(|info| info.execution.clone());
        execution.unwrap_or_default()
    }

    pub(crate) fn id(&self) -> String {
        self.execution().workflow_id
    }

    pub(crate) fn run_id(&self) -> String {
        self.execution().run_id
    }

    pub(crate) fn status(&self) -> Option<Status> {
        Status::try_from(self.shown()?.status).ok()
    }

    pub(crate) fn is_closed(&self) -> bool {
        let open = [Some(Status::Running), Some(Status::Paused), None];
        !open.contains(&self.status())
    }

    /// Something happened: the server counts it.
    pub(crate) fn moved(&mut self) {
        let length = i64::try_from(self.events.len()).unwrap();
        let info = self.info();
        info.state_transition_count += 1;
        info.history_length = length;
    }

    /// Adds an event, given by its type and attributes.
    pub(crate) fn record(&mut self, kind: &str, attributes: &serde_json::Value) {
        let mut name = String::new();
        for (index, word) in kind.split('_').enumerate() {
            let word = word.to_lowercase();
            let (first, rest) = word.split_at(1);
            let first = if index == 0 {
                first.to_owned()
            } else {
                first.to_uppercase()
            };
            name.push_str(&first);
            name.push_str(rest);
        }
        let event = json!({
            "eventId": (self.events.len() + 1).to_string(),
            "eventTime": Timestamp::now().to_string(),
            "eventType": format!("EVENT_TYPE_{kind}"),
            format!("{name}EventAttributes"): attributes,
        });
        self.events.push(message("history.v1.HistoryEvent", &event));
        self.moved();
    }

    /// Ends the run. What was pending stays in the description, as on the real server.
    pub(crate) fn close(&mut self, status: Status, kind: &str, attributes: &serde_json::Value) {
        self.record(kind, attributes);
        let now = now();
        let info = self.info();
        info.status = status.into();
        info.close_time = Some(now);
    }

    /// Replaces the fields of the description that are named.
    pub(crate) fn set_pending_task(&mut self, attempt: Option<u32>) {
        let task = attempt.map(|attempt| {
            message(
                "workflow.v1.PendingWorkflowTaskInfo",
                &json!({
                    "state": "PENDING_WORKFLOW_TASK_STATE_SCHEDULED",
                    "scheduledTime": Timestamp::now().to_string(),
                    "attempt": attempt,
                }),
            )
        });
        self.described.pending_workflow_task = task;
    }

    /// The value of an attribute in a visibility query.
    pub(crate) fn attribute(&self, name: &str) -> Result<Option<String>, String> {
        let Some(info) = self.shown() else {
            return Ok(None);
        };
        let time = |time: Option<&prost_types::Timestamp>| {
            let time = time?;
            let time = Timestamp::new(time.seconds, time.nanos).ok()?;
            Some(time.to_string())
        };
        Ok(match name {
            "ExecutionStatus" => Some(visible(info.status)),
            "WorkflowId" => Some(self.id()),
            "RunId" => Some(self.run_id()),
            "WorkflowType" => info.r#type.as_ref().map(|kind| kind.name.clone()),
            "TaskQueue" => Some(info.task_queue.clone()),
            "StartTime" => time(info.start_time.as_ref()),
            "CloseTime" => time(info.close_time.as_ref()),
            "ExecutionTime" => time(info.execution_time.as_ref()),
            "ParentWorkflowId" => info
                .parent_execution
                .as_ref()
                .map(|it| it.workflow_id.clone()),
            name => {
                let fields = info.search_attributes.as_ref().map(|it| &it.indexed_fields);
                fields.and_then(|fields| fields.get(name)).map(keyword)
            }
        })
    }
}

/// `CONTINUED_AS_NEW` is `ContinuedAsNew` in queries.
fn visible(status: i32) -> String {
    let Ok(status) = Status::try_from(status) else {
        return status.to_string();
    };
    let name = status
        .as_str_name()
        .trim_start_matches("WORKFLOW_EXECUTION_STATUS_");
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        format!("{first}{}", rest.to_lowercase())
    });
    words.collect()
}

fn keyword(payload: &Payload) -> String {
    serde_json::from_slice(&payload.data).unwrap_or_default()
}

pub(crate) fn now() -> prost_types::Timestamp {
    let now = Timestamp::now();
    prost_types::Timestamp {
        seconds: now.as_second(),
        nanos: now.subsec_nanosecond(),
    }
}
