//! What people did to an execution as a whole.

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;

use super::execution::optional;
use super::{Text, timestamp};

/// Who cancelled an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Cancellation, explained there"
)]
pub struct Cancellation {
    pub cancelled_by: Option<Text>,
    pub comment: Option<Text>,
    pub cancel_time: Option<Timestamp>,
}

/// Who paused an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Pause, explained there"
)]
pub struct Pause {
    pub paused_by: Option<Text>,
    pub comment: Option<Text>,
    pub step: Option<Text>,
    pub offered_revision: Option<Text>,
    pub conflicts: Vec<Text>,
}

/// Who reopened an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Reopen, explained there"
)]
pub struct Reopen {
    pub reopen_count: i32,
    pub reopened_by: Option<Text>,
    pub reopen_time: Option<Timestamp>,
    pub previous_native_state: Text,
}

impl From<&v1::Cancellation> for Cancellation {
    fn from(wire: &v1::Cancellation) -> Self {
        Self {
            cancelled_by: optional(&wire.cancelled_by),
            comment: optional(&wire.comment),
            cancel_time: timestamp(wire.cancel_time.as_ref()),
        }
    }
}

impl From<&v1::Pause> for Pause {
    fn from(wire: &v1::Pause) -> Self {
        Self {
            paused_by: optional(&wire.paused_by),
            comment: optional(&wire.comment),
            step: optional(&wire.step),
            offered_revision: optional(&wire.offered_revision),
            conflicts: wire.conflicts.iter().map(Text::from).collect(),
        }
    }
}

impl From<&v1::Reopen> for Reopen {
    fn from(wire: &v1::Reopen) -> Self {
        Self {
            reopen_count: wire.reopen_count,
            reopened_by: optional(&wire.reopened_by),
            reopen_time: timestamp(wire.reopen_time.as_ref()),
            previous_native_state: (&wire.previous_native_state).into(),
        }
    }
}
