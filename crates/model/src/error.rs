//! What went wrong in an execution. Not an error of ours: those belong to each boundary.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// What kind of failure it was, and so what usually helps.
    pub enum ErrorCategory as "error category" {
        /// Network, rate limit, temporary absence: trying again helps.
        Transient = "transient",
        /// The worker crashed or answered nonsense.
        AgentError = "agent_error",
        /// A time limit passed.
        Timeout = "timeout",
        /// Input or output does not have the promised shape.
        Validation = "validation",
        /// Something the worker depends on failed.
        External = "external",
        /// A policy forbids it.
        Governance = "governance",
    }
}

/// The last thing that went wrong in an execution or a step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ExecutionError {
    /// The step it happened in; empty when the execution as a whole failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// What went wrong, for a person. If it has several lines, for example a stack trace, clients get
    /// its [`headline`](crate::headline) as the message and the whole text as the detail.
    pub message: String,
    /// The engine's own name or code for it, verbatim; empty when it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub native_code: String,
    /// The kind of failure, if the engine reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<ErrorCategory>,
    /// The attempt that failed, from 1; 0 when not known.
    pub attempt: u32,
    /// When it happened, if the engine reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl ExecutionError {
    /// An error of which only the message is known.
    #[must_use]
    pub fn message(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }
}
