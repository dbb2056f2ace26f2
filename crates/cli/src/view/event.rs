//! One event of a history.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use stateway_client::v1;

use super::execution::optional;
use super::{Text, payload, timestamp};
use crate::paging::Listed;

/// One event, as the engine reports it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Ascending within the execution.
    pub sequence: i64,
    /// When.
    pub occur_time: Option<Timestamp>,
    /// The event type of the engine.
    pub native_type: Text,
    /// The step it is about; empty for the execution.
    pub step: Text,
    /// From 1; 0 when not known.
    pub attempt: i32,
    /// One line for a person.
    pub summary: Text,
    /// The full name of the branch of the log it was written on; empty where branches were not asked for.
    pub branch: Text,
    /// The event as the engine recorded it. This field and those below: only in the full view.
    pub payload: Option<Value>,
    /// Whether the payload was truncated.
    pub payload_truncated: bool,
    /// The correlation; a child has the one of its parent.
    pub correlation_id: Option<Text>,
    /// The request or command that caused it.
    pub request_id: Option<Text>,
    /// The sequence of the event that caused it; 0 when none did, or not known.
    pub cause_sequence: i64,
    /// The person or worker that acted.
    pub actor: Option<Text>,
}

impl Listed for Event {
    const PLURAL: &'static str = "events";
    const PAGE_SIZE: i32 = 100;
}

impl From<&v1::Event> for Event {
    fn from(wire: &v1::Event) -> Self {
        Self {
            sequence: wire.sequence,
            occur_time: timestamp(wire.occur_time.as_ref()),
            native_type: (&wire.native_type).into(),
            step: (&wire.step).into(),
            attempt: wire.attempt,
            summary: (&wire.summary).into(),
            branch: (&wire.branch).into(),
            payload: payload(wire.payload.as_ref()),
            payload_truncated: wire.payload_truncated,
            correlation_id: optional(&wire.correlation_id),
            request_id: optional(&wire.request_id),
            cause_sequence: wire.cause_sequence,
            actor: optional(&wire.actor),
        }
    }
}
