//! Attempts: how many there were, how many may follow, and when the next one starts.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ExecutionError, RetryBasis};

/// How an execution or a step is being retried.
///
/// Engines disagree by one on what "3 attempts" means. Here `attempt` counts from 1 and the first
/// try is an attempt; `retry_count` counts the tries after the first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retry {
    /// The attempt that runs, or that failed last while backing off. From 1; 0 when not known.
    pub attempt: u32,
    /// How many attempts there may be in all; 0 is unlimited, `None` is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How many attempts were made after the first.
    pub retry_count: u32,
    /// When the next attempt starts; only while one is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Timestamp>,
    /// The pause before that attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// The next attempt may start up to this much later than `next_attempt_time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ExecutionError>,
    /// Where these figures come from.
    pub basis: RetryBasis,
}

impl Retry {
    /// No retry metadata at all: count 0, and the basis says that this is not knowledge.
    pub const UNKNOWN: Self = Self {
        attempt: 0,
        max_attempts: None,
        retry_count: 0,
        next_attempt_time: None,
        delay: None,
        jitter: None,
        last_error: None,
        basis: RetryBasis::None,
    };
}

impl Default for Retry {
    fn default() -> Self {
        Self::UNKNOWN
    }
}
