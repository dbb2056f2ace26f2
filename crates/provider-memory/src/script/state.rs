//! Where an execution and its steps can be, in the provider's own words.

use std::time::Duration;

use jiff::Timestamp;
use stateway_model::ExecutionError;

/// Where an execution is, holding apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To begin later.
    Scheduled { until: Timestamp },
    /// Its steps run.
    Active,
    /// Completed steps are rolled back; then the execution ends like this.
    Compensating(Ending),
    /// Nothing more happens.
    Over(Ending),
}

/// How an execution ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Broken { cause: Cause, compensated: bool },
    Stopped,
    Killed,
}

/// What broke a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The last attempt failed.
    Exhausted,
    /// It failed, and is not retried.
    Refused,
    /// A signal did not come in time.
    Expired,
}

impl Cause {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }
}

/// A step that was reached.
#[derive(Debug, Clone)]
pub(crate) struct StepRun {
    /// Which stage, and which step of it.
    pub(crate) stage: usize,
    pub(crate) place: usize,
    pub(crate) state: StepState,
    /// The attempt that runs or failed last; 0 before the first.
    pub(crate) attempt: u32,
    pub(crate) last_error: Option<ExecutionError>,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    /// The order of completion, for compensation in reverse.
    pub(crate) completed_as: Option<usize>,
}

/// Where a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepState {
    Queued {
        since: Timestamp,
        until: Timestamp,
    },
    Working {
        until: Timestamp,
    },
    Resting {
        until: Timestamp,
        delay: Duration,
    },
    Listening {
        since: Timestamp,
        deadline: Option<Timestamp>,
    },
    Sleeping {
        since: Timestamp,
        until: Timestamp,
    },
    Stuck,
    Done,
    Broken(Cause),
    Compensating {
        until: Timestamp,
    },
    Compensated,
    Dropped,
}

impl StepState {
    /// When it moves by itself.
    pub(crate) const fn due(self) -> Option<Timestamp> {
        match self {
            Self::Queued { until, .. }
            | Self::Working { until }
            | Self::Resting { until, .. }
            | Self::Sleeping { until, .. }
            | Self::Compensating { until } => Some(until),
            Self::Listening { deadline, .. } => deadline,
            Self::Stuck | Self::Done | Self::Broken(_) | Self::Compensated | Self::Dropped => None,
        }
    }

    /// The same, moved later by this much: for an execution that was paused.
    pub(crate) fn put_off(&mut self, by: Duration) {
        match self {
            Self::Queued { until, .. }
            | Self::Working { until }
            | Self::Resting { until, .. }
            | Self::Sleeping { until, .. }
            | Self::Compensating { until } => *until = super::after(*until, by),
            Self::Listening { deadline, .. } => {
                *deadline = deadline.map(|deadline| super::after(deadline, by));
            }
            Self::Stuck | Self::Done | Self::Broken(_) | Self::Compensated | Self::Dropped => {}
        }
    }

    pub(crate) const fn is_open(self) -> bool {
        !matches!(
            self,
            Self::Done | Self::Broken(_) | Self::Compensated | Self::Dropped
        )
    }
}
