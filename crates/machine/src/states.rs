//! The states of an execution and of a step.

use stateway_model::words;

words! {
    /// Where an execution is.
    pub enum ExecutionState as "execution state" {
        /// Known, not triggered.
        Created = "created",
        /// Triggered; it waits for a slot.
        Queued = "queued",
        /// Steps are being worked on, or time passes.
        Running = "running",
        /// Every open step waits for a signal.
        AwaitingSignal = "awaiting_signal",
        /// Every open step waits for people, at least one of them for an approval.
        AwaitingApproval = "awaiting_approval",
        /// Paused: manually, after a failure, or because the definition changed.
        Paused = "paused",
        /// A person has to resume, reassign or cancel.
        Escalated = "escalated",
        /// Ended by someone; work in a worker's hands is awaited.
        Cancelling = "cancelling",
        /// Completed steps are being compensated.
        Compensating = "compensating",
        /// Every step is settled.
        Completed = "completed",
        /// Failed, and every compensation has run.
        RolledBack = "rolled_back",
        /// Failed.
        Failed = "failed",
        /// Cancelled by a caller.
        Cancelled = "cancelled",
    }
}

impl ExecutionState {
    /// True when nothing can follow.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::RolledBack | Self::Failed | Self::Cancelled
        )
    }

    /// True when the machine may start steps.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::Running | Self::AwaitingSignal | Self::AwaitingApproval
        )
    }

    /// True when the execution only waits for work in flight and for compensations before it ends.
    #[must_use]
    pub const fn is_ending(self) -> bool {
        matches!(self, Self::Cancelling | Self::Compensating)
    }

    /// True when what happens is recorded and nothing new is started.
    #[must_use]
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Paused | Self::Escalated)
    }
}

words! {
    /// Where a step is.
    pub enum StepState as "step state" {
        /// Not begun.
        Pending = "pending",
        /// An attempt is open.
        Running = "running",
        /// An attempt failed and the next has its time.
        BackingOff = "backing_off",
        /// An attempt with the validator's feedback is open and not yet taken.
        Correcting = "correcting",
        /// A time, a signal, a person or a child has to come.
        Waiting = "waiting",
        /// Done.
        Completed = "completed",
        /// Not done, and not tried again by itself.
        Failed = "failed",
        /// Left out.
        Skipped = "skipped",
        /// Given up because the execution ended or rolled back.
        Cancelled = "cancelled",
        /// Being compensated.
        Compensating = "compensating",
        /// Compensated.
        Compensated = "compensated",
    }
}

impl StepState {
    /// True when something is under way: an attempt, a pause, a wait, an undo.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(
            self,
            Self::Running
                | Self::BackingOff
                | Self::Correcting
                | Self::Waiting
                | Self::Compensating
        )
    }
}
