//! Enum values as people read them: `backing-off`, `agent_error`, `RETRIES_EXHAUSTED`.
//!
//! Programs compare the values; labels are for screens and for JSON output. A label is empty for a
//! value that is not specified.

use crate::v1;

impl v1::SubState {
    /// The sub-state as clients read it, for example `backing-off`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::BackingOff => "backing-off",
            Self::Error => "error",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

impl v1::Reason {
    /// The name of the value without its prefix, for example `CANCELLED`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            known => known.as_str_name().trim_start_matches("REASON_"),
        }
    }
}

impl v1::ErrorCategory {
    /// The category as definitions and workers write it, for example `agent_error`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Transient => "transient",
            Self::AgentError => "agent_error",
            Self::Timeout => "timeout",
            Self::Validation => "validation",
            Self::External => "external",
            Self::Governance => "governance",
        }
    }
}

impl v1::wait::Kind {
    /// The kind in lower case, for example `signal`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Signal => "signal",
            Self::Approval => "approval",
            Self::Escalation => "escalation",
            Self::Timer => "timer",
            Self::Callback => "callback",
            Self::Capacity => "capacity",
            Self::Child => "child",
        }
    }
}

impl v1::wait::Blocker {
    /// The capacity in lower case, for example `worker`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Worker => "worker",
            Self::Slot => "slot",
            Self::Concurrency => "concurrency",
            Self::Memory => "memory",
            Self::Provider => "provider",
        }
    }
}

impl v1::table_row::Scope {
    /// The scope in lower case: `execution` or `step`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Execution => "execution",
            Self::Step => "step",
        }
    }
}

impl v1::step_attempt::PolicyDecision {
    /// The decision as configurations write it, for example `require_approval`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RequireApproval => "require_approval",
        }
    }
}

impl v1::divergence::Kind {
    /// The kind in lower case, for example `step_added`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Order => "order",
            Self::Path => "path",
            Self::Retries => "retries",
            Self::BackOff => "back_off",
            Self::Input => "input",
            Self::StepAdded => "step_added",
            Self::StepRemoved => "step_removed",
            Self::Refused => "refused",
            Self::Outcome => "outcome",
        }
    }
}

impl v1::definition_step::Kind {
    /// The kind as definitions write it, for example `task`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Task => "task",
            Self::Http => "http",
            Self::Sleep => "sleep",
            Self::Signal => "signal",
            Self::Approval => "approval",
            Self::Workflow => "workflow",
        }
    }
}

impl v1::definition_step::Consequence {
    /// The consequence as definitions write it, for example `escalate`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Cancel => "cancel",
            Self::Fail => "fail",
            Self::Escalate => "escalate",
        }
    }
}
