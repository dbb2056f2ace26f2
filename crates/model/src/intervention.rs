//! What people did to an execution as a whole: cancelled it, paused it, opened it again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Who cancelled an execution, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct CancelInfo {
    /// The person; empty where the engine did (an approval expired).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The comment of the person; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
}

/// Who paused an execution and why, or why a new revision cannot be adopted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PauseInfo {
    /// The person; empty where the engine paused the execution itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The comment of the person; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// The step whose failure paused the execution.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// The revision that the execution was offered and cannot adopt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub offered_revision: String,
    /// Why it cannot: one line for each difference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
}

/// An execution that had ended runs again, under the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ReopenInfo {
    /// How often it was reopened.
    pub count: u32,
    /// The person who reopened it last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// When it was reopened last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// The engine's own word for how it had ended before.
    pub from: String,
}
