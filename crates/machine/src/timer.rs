//! The timers an execution sets. A timer has no id of its own: what it is for says which it is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stateway_model::words;

/// One timer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Timer {
    /// The whole execution takes too long.
    Execution,
    /// One attempt of one step.
    Step {
        /// The step.
        step: Arc<str>,
        /// The attempt the timer belongs to; undoing is counted apart.
        attempt: u32,
        /// What happens when it fires.
        kind: StepTimer,
    },
}

words! {
    /// What happens when a step's timer fires.
    pub enum StepTimer as "step timer" {
        /// The attempt, or the wait, took too long.
        Timeout = "timeout",
        /// The worker was silent for too long.
        Heartbeat = "heartbeat",
        /// The approval expires.
        Expiry = "expiry",
        /// The next attempt starts; the attempt named is the one that failed.
        Retry = "retry",
        /// A sleep ends.
        Sleep = "sleep",
        /// An attempt to undo took too long.
        UndoTimeout = "undo_timeout",
        /// The next attempt to undo starts.
        UndoRetry = "undo_retry",
    }
}
