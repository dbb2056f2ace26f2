//! One step of an execution, with the same fields as the execution itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ExecutionError, ExecutionName, MappingBasis, Progress, Reason, Retry, SubState, Usage, Wait,
};

/// One step of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    /// Unique within the execution; a branch or iteration is part of it (`fan-out[3].charge`).
    pub name: String,
    /// The sub-state of the step.
    pub sub_state: SubState,
    /// The engine's own word, verbatim.
    pub native_state: String,
    /// Why, where six words are not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How the sub-state was arrived at.
    pub mapping_basis: MappingBasis,
    /// Its attempts.
    pub retry: Retry,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// The last error of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ExecutionError>,
    /// When its first attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// How far its present attempt is, where the worker tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The usage of its attempts so far, if the engine reports it. Abandoned branches do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The execution that does it, for a step that runs another definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ExecutionName>,
    /// The steps that must settle before this one starts; only while it has not started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<String>,
}

impl Step {
    /// True while the step has something under way: it has started and not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sub_state.is_terminal() && self.reason != Some(Reason::NotStarted)
    }
}
