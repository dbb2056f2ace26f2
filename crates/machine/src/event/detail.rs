//! The parts of facts: tasks, waits and causes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stateway_model::Reason;

use super::Data;
use crate::state::present;

/// One attempt that was handed out: to run a step, or to compensate it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The step.
    pub step: Arc<str>,
    /// The attempt, from 1; runs and compensations are counted apart.
    pub attempt: u32,
    /// Whether the step is being compensated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

impl Task {
    /// An attempt to run a step.
    #[must_use]
    pub fn of(step: impl Into<Arc<str>>, attempt: u32) -> Self {
        Self {
            step: step.into(),
            attempt,
            undo: false,
        }
    }

    /// An attempt to compensate a step.
    #[must_use]
    pub fn undo(step: impl Into<Arc<str>>, attempt: u32) -> Self {
        Self {
            step: step.into(),
            attempt,
            undo: true,
        }
    }
}

/// What a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WaitFor {
    /// A moment.
    Timer,
    /// A message of this name.
    Signal(Arc<str>),
    /// Someone of this role.
    Approval(Arc<str>),
    /// An execution of this definition.
    Child(Arc<str>),
    /// A person, after an escalation.
    Person,
}

/// Why a step was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SkipCause {
    /// Its condition does not hold.
    Condition,
    /// It needs the output of this step, which was left out.
    Upstream(Arc<str>),
    /// It failed, and its `onFailure` is `skip`.
    Failure,
}

/// What the policy rules decided about an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicyDecision {
    /// The attempt may be handed out.
    Allow,
    /// The attempt fails as a governance failure.
    Deny {
        /// Why, in one line.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        message: Arc<str>,
    },
    /// A person has to approve the attempt first.
    RequireApproval {
        /// The role that may decide.
        role: Arc<str>,
        /// When the request expires.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            with = "super::moment"
        )]
        due: Option<jiff::Timestamp>,
    },
}

/// Why an execution is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PauseCause {
    /// Someone asked for it.
    ByHand {
        /// Who.
        by: Arc<str>,
        /// Why.
        comment: Arc<str>,
    },
    /// A step failed, and its `onFailure` is `pause`.
    StepFailed {
        /// The step.
        step: Arc<str>,
    },
    /// The definition changed in a way that the execution cannot follow.
    RevisionMismatch {
        /// The revision that was offered.
        offered: Arc<str>,
        /// Why it cannot be followed.
        conflicts: Vec<String>,
    },
}

/// Why an execution rolls back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TurnCause {
    /// A step failed.
    StepFailed {
        /// The step.
        step: Arc<str>,
        /// Why it was not tried again.
        reason: Reason,
    },
    /// The execution took too long.
    TimedOut,
    /// The output of the execution exceeds a limit.
    OutputTooLarge,
    /// It was cancelled: by someone, by a rejection, or by an approval that expired.
    Cancelled {
        /// Who.
        by: Arc<str>,
        /// Why.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        comment: Arc<str>,
        /// What cancelled it; nothing for a request to cancel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
}

/// What a person wants done again, and what is to be different this time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redo {
    /// The step that the work begins again with.
    pub step: Arc<str>,
    /// What the step is given instead of what its definition says; kept for every further attempt.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub input: Option<Data>,
    /// A message for the worker that runs the step; empty when there is none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub feedback: Arc<str>,
}

impl Redo {
    /// The step again, as it was.
    #[must_use]
    pub fn from(step: impl Into<Arc<str>>) -> Self {
        Self {
            step: step.into(),
            input: None,
            feedback: "".into(),
        }
    }
}

/// What a person decided about an escalated step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Resolution {
    /// Try it again as it is.
    Resume,
    /// Try it again with another role.
    Reassign {
        /// The role.
        role: Arc<str>,
    },
    /// End the execution.
    Cancel,
}
