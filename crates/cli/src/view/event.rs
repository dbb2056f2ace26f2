//! One event of a history.

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;

use super::{Text, timestamp};

/// One event, in the engine's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Ascending within the execution.
    pub sequence: u64,
    /// When.
    pub time: Option<Timestamp>,
    /// The engine's own word.
    pub native_type: Text,
    /// The step it is about; empty for the execution.
    pub step: Text,
    /// From 1; 0 when not known.
    pub attempt: u32,
    /// One line for a person.
    pub summary: Text,
    /// The branch of the log it was written on; empty where branches were not asked for.
    pub branch: Text,
}

impl From<&v1::Event> for Event {
    fn from(wire: &v1::Event) -> Self {
        Self {
            sequence: wire.sequence,
            time: timestamp(wire.time.as_ref()),
            native_type: (&wire.native_type).into(),
            step: (&wire.step).into(),
            attempt: wire.attempt,
            summary: (&wire.summary).into(),
            branch: (&wire.branch).into(),
        }
    }
}
