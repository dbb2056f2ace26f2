//! Why an execution is where it is: what six words alone would lose.

use crate::words::words;

words! {
    /// Why an execution or a step shows its sub-state. A closed list: an engine's own wording
    /// stays in its native state and its error message.
    pub enum Reason as "reason" {
        /// Ended because someone asked for it, with a chance to clean up.
        Cancelled = "CANCELLED",
        /// Ended because a time limit passed.
        TimedOut = "TIMED_OUT",
        /// Ended by force, without a chance to clean up.
        Killed = "KILLED",
        /// Failed, and every completed step was rolled back.
        RolledBack = "ROLLED_BACK",
        /// Failed, and only some of the completed steps were rolled back.
        PartiallyRolledBack = "PARTIALLY_ROLLED_BACK",
        /// Paused manually until someone resumes it.
        Paused = "PAUSED",
        /// Waits for a person's decision: resume, reassign or cancel.
        Escalated = "ESCALATED",
        /// Undoing what was done.
        Compensating = "COMPENSATING",
        /// Accepted, but its turn has not come.
        Queued = "QUEUED",
        /// The last allowed attempt failed.
        RetriesExhausted = "RETRIES_EXHAUSTED",
        /// To begin at a later time.
        Scheduled = "SCHEDULED",
        /// An answer to a signal, callback or approval is awaited.
        AwaitingInput = "AWAITING_INPUT",
        /// A timer has to run out.
        AwaitingTimer = "AWAITING_TIMER",
        /// Another execution has to finish.
        AwaitingChild = "AWAITING_CHILD",
        /// No attempt is allowed for this kind of failure.
        NotRetryable = "NOT_RETRYABLE",
        /// A failure was seen and the engine has yet to say what follows.
        FailurePending = "FAILURE_PENDING",
        /// The engine itself cannot make the execution's code advance.
        Stuck = "STUCK",
        /// Failed, and the engine would accept a redrive.
        Redrivable = "REDRIVABLE",
        /// This run was replaced by a newer run of the same execution.
        Superseded = "SUPERSEDED",
        /// Ended by a rejection of what was put forward for approval.
        Rejected = "REJECTED",
        /// Stopped by a policy.
        Governance = "GOVERNANCE",
        /// Cancelled; work in a worker's hands is awaited first.
        Cancelling = "CANCELLING",
        /// No connected worker can take the step's task.
        NoWorker = "NO_WORKER",
        /// The step has not been started.
        NotStarted = "NOT_STARTED",
        /// Skipped because of its condition or of an earlier step.
        Skipped = "SKIPPED",
    }
}
