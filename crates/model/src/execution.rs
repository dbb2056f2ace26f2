//! An execution as every client sees it, whichever engine runs it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    CancelInfo, ExecutionError, ExecutionName, MappingBasis, PauseInfo, Payload, Reason,
    ReopenInfo, Retry, Step, SubState, Usage, Wait,
};

/// Names and values a caller attached to an execution.
pub type Labels = BTreeMap<String, String>;

/// The state of an execution, its reason, and what happens next.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Execution {
    /// `providers/{provider}/executions/{id}`.
    pub name: ExecutionName,
    /// The definition it runs, by full name; empty when the engine does not tell.
    pub definition: String,
    /// The definition's revision; empty when the engine has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The sub-state: one of six.
    pub sub_state: SubState,
    /// The engine's own word, verbatim.
    pub native_state: String,
    /// Why, where six words are not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How the sub-state was arrived at.
    pub mapping_basis: MappingBasis,
    /// Its attempts, or those of the step that decides what the execution shows.
    pub retry: Retry,
    /// What it waits for, its steps' waits included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// Its steps, where the engine shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// The full view alone has steps: they are not part of the etag.
    #[serde(skip)]
    pub steps_are_detail: bool,
    /// The provider has read only a part of what the engine knows: there is no etag.
    #[serde(skip)]
    pub is_partial: bool,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ExecutionError>,
    /// When it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_time: Option<Timestamp>,
    /// When it began to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// When it last changed, if the engine reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// The input. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// The output. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// The labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// The usage of its attempts so far, if the engine reports it: children, compensations and
    /// abandoned branches included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The part of `usage` that branches cost which the execution has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned_usage: Option<Usage>,
    /// Who cancelled it and why, where someone did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancellation: Option<CancelInfo>,
    /// Who paused it and why, while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseInfo>,
    /// When and by whom it was reopened last, where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reopen: Option<ReopenInfo>,
    /// The execution it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ExecutionName>,
    /// The executions that were forked from it, oldest first. Left out of lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<ExecutionName>,
    /// Completed steps that were not rolled back when it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_rolled_back: Vec<String>,
    /// The execution that it does a step of. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution: Option<ExecutionName>,
}

impl Execution {
    /// The names of the steps that are open now. An array, because steps run in parallel. A step
    /// that has not started is not open.
    pub fn current_steps(&self) -> impl Iterator<Item = &str> {
        self.steps
            .iter()
            .filter(|step| step.is_open())
            .map(|step| step.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_uses_the_words_of_the_api() {
        let written = json!({
            "name": "providers/memory/executions/a",
            "definition": "definitions/order",
            "sub_state": "backing-off",
            "native_state": "RUNNING",
            "reason": "RETRIES_EXHAUSTED",
            "mapping_basis": "NATIVE",
            "retry": {"attempt": 0, "retry_count": 0, "basis": "NONE"},
        });
        let read: Execution = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(read.sub_state, SubState::BackingOff);
        assert_eq!(serde_json::to_value(read).unwrap(), written);
    }
}
