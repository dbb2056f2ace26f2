//! The reason for the withdrawal of a task, by the event that led to it.

use stateway_machine::{Fact, Failure, FailureCause};
use stateway_model::Reason;

/// Why a task is withdrawn from its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Withdrawal {
    /// The execution continues, or has ended, without the task.
    NotNeeded,
    /// The execution was cancelled and does not wait for the answer.
    Cancelled,
    /// The task or the execution took too long.
    TimedOut,
    /// The worker sent no heartbeat for too long: the task goes to another worker.
    WorkerLost,
}

impl Withdrawal {
    /// The stable word that workers see.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::NotNeeded => "NOT_NEEDED",
            Self::Cancelled => "CANCELLED",
            Self::TimedOut => "TIMED_OUT",
            Self::WorkerLost => "WORKER_LOST",
        }
    }

    /// Why tasks are withdrawn after this fact.
    pub(super) fn after(fact: &Fact) -> Self {
        match fact {
            Fact::AttemptFailed { failure, .. } | Fact::StepCompensationFailed { failure, .. } => {
                after_failure(failure)
            }
            // A worker that is lost gives its task back before its outcome counts as unknown.
            Fact::OutcomeUnknown { .. } => Self::TimedOut,
            Fact::TaskReleased { lost: true, .. } => Self::WorkerLost,
            Fact::ExecutionFailed {
                step: None,
                reason: Reason::TimedOut,
                ..
            } => Self::TimedOut,
            Fact::CancellationStarted { .. }
            | Fact::CompensationStarted { .. }
            | Fact::ExecutionCancelled { .. } => Self::Cancelled,
            _ => Self::NotNeeded,
        }
    }
}

fn after_failure(failure: &Failure) -> Withdrawal {
    if failure.cause == FailureCause::TimedOut {
        Withdrawal::TimedOut
    } else {
        Withdrawal::NotNeeded
    }
}
