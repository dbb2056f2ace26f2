//! One thing that happened in an execution, for people who read histories.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Payload, words};

/// One event of an execution's history, in the engine's order.
///
/// The history has the engine's own event types: it is evidence, not a second mapping.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// Position in the history, ascending, unique within the execution.
    pub sequence: u64,
    /// When it happened.
    pub time: Option<Timestamp>,
    /// The engine's name for this kind of event, verbatim.
    pub native_type: String,
    /// The step it belongs to; empty for the execution as a whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// The attempt it belongs to, from 1; 0 when not known.
    pub attempt: u32,
    /// One line for a person.
    pub summary: String,
    /// What it means for the attempt; none when nothing, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AttemptPhase>,
    /// What was recorded beside it; only in the full view, where the engine keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<EventDetail>>,
}

/// What an engine recorded with an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct EventDetail {
    /// The event itself as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// The payload was cut: it is the beginning of the JSON text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub payload_truncated: bool,
    /// What the execution belongs to; children share their parent's.
    pub correlation_id: String,
    /// The id of the request or command that caused it.
    pub request_id: String,
    /// The sequence of the event that caused it; 0 where a person or a caller did, or not known.
    pub cause_sequence: u64,
    /// The person or worker that acted; empty for the engine itself.
    pub actor: String,
}

words! {
    /// What an event means for the attempt it is about: all that a timeline needs.
    pub enum AttemptPhase as "attempt phase" {
        /// The attempt begins.
        Started = "started",
        /// The last attempt succeeded: the work is done.
        Succeeded = "succeeded",
        /// It failed; another one may follow.
        Failed = "failed",
        /// The step is being rolled back.
        CompensationStarted = "compensation_started",
        /// The step was rolled back.
        Compensated = "compensated",
        /// The step could not be rolled back.
        CompensationFailed = "compensation_failed",
    }
}
