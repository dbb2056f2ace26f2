//! The timers that an execution sets. A timer has no id: its purpose identifies it.

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
        /// The attempt the timer belongs to; compensations are counted apart.
        attempt: u32,
        /// What happens when it fires.
        kind: StepTimer,
    },
}

impl Timer {
    /// Whether it fires when a worker has sent no heartbeat for too long.
    #[must_use]
    pub const fn is_heartbeat(&self) -> bool {
        matches!(
            self,
            Self::Step {
                kind: StepTimer::Heartbeat,
                ..
            }
        )
    }
}

words! {
    /// What happens when a step's timer fires.
    pub enum StepTimer as "step timer" {
        /// The attempt, or the wait, took too long.
        Timeout = "timeout",
        /// The worker was silent for too long.
        Heartbeat = "heartbeat",
        /// No worker took the attempt in time.
        Queue = "queue",
        /// The approval expires.
        Expiry = "expiry",
        /// The next attempt starts; the attempt named is the one that failed.
        Retry = "retry",
        /// A sleep ends.
        Sleep = "sleep",
        /// An attempt to compensate took too long.
        UndoTimeout = "undo_timeout",
        /// No worker took the attempt to compensate in time.
        UndoQueue = "undo_queue",
        /// The next attempt to compensate starts.
        UndoRetry = "undo_retry",
    }
}
