//! One event of a history, reduced to what shows the position of an execution. No SDK types: recorded
//! histories, random ones and the service's own all become this.

use jiff::Timestamp;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// From 1, ascending without gaps.
    pub id: u64,
    /// The event it follows; 0 when it follows none. A link, not always the one a reader expects:
    /// see [`Fold`](crate::Fold).
    pub previous: u64,
    /// The service's name for it, verbatim.
    pub kind: String,
    /// When.
    pub at: Option<Timestamp>,
    /// What it says beside that.
    pub detail: Detail,
}

/// What an event says. Its kind decides which fields exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detail {
    /// The state's name.
    pub name: Option<String>,
    /// The iteration of a map.
    pub index: Option<u64>,
    /// The name of an error.
    pub error: Option<String>,
    /// The cause of an error.
    pub cause: Option<String>,
    /// What a task calls: an activity's ARN, or an action such as `sendMessage.waitForTaskToken`.
    pub resource: Option<String>,
    /// Whose action that is, for example `states`.
    pub resource_type: Option<String>,
    /// After how many seconds a task times out.
    pub timeout_seconds: Option<i64>,
    /// What a task is called with. Only where execution data was asked for.
    pub parameters: Option<String>,
    /// The Map Run that a distributed Map began.
    pub map_run: Option<String>,
    /// How often the execution was redriven.
    pub redrive_count: Option<u32>,
}

/// How an execution ends, in its history.
pub const ENDS: [&str; 4] = [
    "ExecutionSucceeded",
    "ExecutionFailed",
    "ExecutionTimedOut",
    "ExecutionAborted",
];

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    ExecutionStarted,
    ExecutionRedriven,
    ExecutionEnded,
    Entered,
    Exited,
    /// A sibling was dropped. Names nothing and follows an event of another branch.
    StateAborted,
    ContainerStarted,
    ContainerOver,
    IterationStarted,
    IterationOver,
    /// An attempt begins.
    Scheduled,
    /// An attempt continues.
    Progress,
    /// An attempt failed.
    Failed,
    /// A query could not be evaluated, before or after an attempt.
    EvaluationFailed,
    /// A kind that this build does not know.
    Unknown,
}

impl Event {
    pub(crate) fn role(&self) -> Role {
        role(&self.kind)
    }
}

/// Every kind of the service model (2016-11-23) and its role.
pub(crate) fn role(kind: &str) -> Role {
    match kind {
        "ExecutionStarted" => Role::ExecutionStarted,
        "ExecutionRedriven" => Role::ExecutionRedriven,
        "ExecutionSucceeded" | "ExecutionFailed" | "ExecutionTimedOut" | "ExecutionAborted" => {
            Role::ExecutionEnded
        }
        "TaskStateEntered"
        | "WaitStateEntered"
        | "ChoiceStateEntered"
        | "PassStateEntered"
        | "SucceedStateEntered"
        | "FailStateEntered"
        | "ParallelStateEntered"
        | "MapStateEntered" => Role::Entered,
        "TaskStateExited"
        | "WaitStateExited"
        | "ChoiceStateExited"
        | "PassStateExited"
        | "SucceedStateExited"
        | "ParallelStateExited"
        | "MapStateExited" => Role::Exited,
        "TaskStateAborted" | "WaitStateAborted" | "ParallelStateAborted" | "MapStateAborted" => {
            Role::StateAborted
        }
        "ParallelStateStarted" | "MapStateStarted" => Role::ContainerStarted,
        "ParallelStateSucceeded"
        | "ParallelStateFailed"
        | "MapStateSucceeded"
        | "MapStateFailed" => Role::ContainerOver,
        "MapIterationStarted" => Role::IterationStarted,
        "MapIterationSucceeded" | "MapIterationFailed" | "MapIterationAborted" => {
            Role::IterationOver
        }
        "ActivityScheduled" | "LambdaFunctionScheduled" | "TaskScheduled" => Role::Scheduled,
        "ActivityStarted"
        | "LambdaFunctionStarted"
        | "TaskStarted"
        | "TaskSubmitted"
        | "ActivitySucceeded"
        | "LambdaFunctionSucceeded"
        | "TaskSucceeded"
        | "MapRunStarted"
        | "MapRunSucceeded"
        | "MapRunRedriven"
        | "MapRunAborted" => Role::Progress,
        "ActivityFailed"
        | "ActivityTimedOut"
        | "ActivityScheduleFailed"
        | "LambdaFunctionFailed"
        | "LambdaFunctionTimedOut"
        | "LambdaFunctionScheduleFailed"
        | "LambdaFunctionStartFailed"
        | "TaskFailed"
        | "TaskTimedOut"
        | "TaskStartFailed"
        | "TaskSubmitFailed"
        | "MapRunFailed" => Role::Failed,
        "EvaluationFailed" => Role::EvaluationFailed,
        _ => Role::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sfn::types::HistoryEventType;
    use stateway_provider_api::NativeState;
    use stateway_provider_api::table::{Scope, compiled_in};

    use super::*;

    #[test]
    fn every_kind_of_the_service_model_has_a_role() {
        let kinds = HistoryEventType::values();
        assert_eq!(kinds.len(), 62);
        for kind in kinds {
            assert_ne!(role(kind), Role::Unknown, "{kind}");
        }
        assert_eq!(role("KindOfTomorrow"), Role::Unknown);
    }

    #[test]
    fn every_kind_that_a_step_can_show_has_a_row() {
        let table = compiled_in("step-functions").expect("a table");
        for kind in HistoryEventType::values() {
            let of_a_step = !matches!(role(kind), Role::ExecutionStarted | Role::ExecutionEnded);
            let row = table.find(Scope::Step, &NativeState::new(*kind));
            assert_eq!(row.is_some(), of_a_step, "{kind}");
        }
    }
}
