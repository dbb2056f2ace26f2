//! The quotas of the service: AWS's defaults, which can be configured.

use std::collections::BTreeMap;

use serde::Deserialize;
use stateway_provider_api::Error;
use stateway_provider_api::adapter::{Quota, Quotas};

use crate::Clock;

/// Step Functions operations that this adapter uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Api {
    /// Starts.
    StartExecution,
    /// One execution.
    DescribeExecution,
    /// Pages of a history.
    GetExecutionHistory,
    /// The definition an execution runs.
    DescribeStateMachineForExecution,
    /// Pages of executions.
    ListExecutions,
    /// Pages of state machines.
    ListStateMachines,
    /// Ends.
    StopExecution,
    /// Continues after a failure.
    RedriveExecution,
    /// Answers a task.
    SendTaskSuccess,
    /// Lets a task fail.
    SendTaskFailure,
    /// Keeps a task alive.
    SendTaskHeartbeat,
    /// Takes the next task of an activity.
    GetActivityTask,
    /// The items of a distributed Map.
    DescribeMapRun,
    /// One state machine.
    DescribeStateMachine,
    /// Its versions.
    ListStateMachineVersions,
    /// Its tags.
    ListTagsForResource,
    /// Puts tags on it.
    TagResource,
    /// Makes one.
    CreateStateMachine,
    /// Changes one.
    UpdateStateMachine,
    /// Checks one.
    ValidateStateMachineDefinition,
}

impl Api {
    /// Every one.
    pub const ALL: [Self; 20] = [
        Self::StartExecution,
        Self::DescribeExecution,
        Self::GetExecutionHistory,
        Self::DescribeStateMachineForExecution,
        Self::ListExecutions,
        Self::ListStateMachines,
        Self::StopExecution,
        Self::RedriveExecution,
        Self::SendTaskSuccess,
        Self::SendTaskFailure,
        Self::SendTaskHeartbeat,
        Self::GetActivityTask,
        Self::DescribeMapRun,
        Self::DescribeStateMachine,
        Self::ListStateMachineVersions,
        Self::ListTagsForResource,
        Self::TagResource,
        Self::CreateStateMachine,
        Self::UpdateStateMachine,
        Self::ValidateStateMachineDefinition,
    ];

    /// Whether a call whose answer was lost may be made again. A task's answer may have been taken
    /// although its answer was lost, and then the second one is refused; a task that was handed out
    /// is gone.
    #[must_use]
    pub const fn is_repeatable(self) -> bool {
        !matches!(
            self,
            Self::SendTaskSuccess | Self::SendTaskFailure | Self::GetActivityTask
        )
    }

    /// AWS's defaults. Three regions have larger ones.
    #[must_use]
    pub fn default_quota(self, region: &str) -> Quota {
        let big = ["us-east-1", "us-west-2", "eu-west-1"].contains(&region);
        let (burst, per_second) = match (self, big) {
            (Self::StartExecution | Self::RedriveExecution, true) => (1_300, 300),
            (Self::StartExecution | Self::RedriveExecution, false) => (800, 150),
            (Self::DescribeExecution, true) => (300, 15),
            (Self::DescribeExecution, false) => (250, 10),
            (Self::GetExecutionHistory, _) => (400, 20),
            (Self::DescribeStateMachineForExecution, _) => (200, 1),
            (Self::ListExecutions, true) => (200, 5),
            (Self::ListExecutions, false) => (100, 2),
            (Self::ListStateMachines, _) => (100, 5),
            (Self::StopExecution, true) => (1_000, 200),
            (Self::StopExecution, false) => (500, 25),
            (
                Self::SendTaskSuccess
                | Self::SendTaskFailure
                | Self::SendTaskHeartbeat
                | Self::GetActivityTask,
                big,
            ) => {
                if big {
                    (3_000, 500)
                } else {
                    (1_500, 300)
                }
            }
            (Self::DescribeStateMachine, _) => (200, 20),
            (Self::TagResource | Self::DescribeMapRun, _) => (200, 1),
            (
                Self::ListStateMachineVersions
                | Self::ListTagsForResource
                | Self::CreateStateMachine
                | Self::UpdateStateMachine
                | Self::ValidateStateMachineDefinition,
                _,
            ) => (100, 1),
        };
        Quota { burst, per_second }
    }
}

/// The quotas of one account and region: the configured ones, else AWS's defaults.
pub(crate) fn quotas(
    region: &str,
    configured: &BTreeMap<Api, Quota>,
    clock: &Clock,
) -> Quotas<Api> {
    let quota = |api: Api| {
        let own = configured.get(&api).copied();
        (api, own.unwrap_or_else(|| api.default_quota(region)))
    };
    Quotas::new(Api::ALL.map(quota), clock)
}

/// The refusal of a call for which the quota has no turn in time.
pub(crate) fn used_up(error: Error) -> Error {
    error
        .with_hint("Send fewer requests, or raise the quota at AWS and in `quotas`.")
        .with_native_code("ThrottlingException")
}
