//! Defects that a simulation plants on purpose, to show that it finds them. No other build has them.

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(
    not(feature = "simulation"),
    allow(
        dead_code,
        unreachable_pub,
        reason = "only a simulation plants defects"
    )
)]
pub enum Bug {
    /// A turn that could not be written counts as written: its answers are sent.
    AnswersWithoutCommit,
    /// Request ids are not stored.
    ForgetsRequests,
    /// Rows do not contain the time of the next timer.
    ForgetsTimers,
    /// Events are hashed without the events before them.
    BreaksTheChain,
    /// A snapshot claims to include one more event.
    SnapshotsTooMuch,
    /// The branches of a log are not stored.
    ForgetsBranches,
    /// The answer of any worker is accepted.
    AcceptsEveryToken,
    /// Workers whose leases expire together pass their tasks to each other.
    PassesTasksToLostWorkers,
    /// A turn with a failed read is written.
    IgnoresFailedReads,
    /// The end of a session in a turn that was not written is not reported to its worker.
    ForgetsToCloseSessions,
    /// A turn that could not be written beside the keeper counts as written: what was decided after it stays.
    KeepsDecisionsOfFailedTurns,
}

impl Bug {
    /// Every defect.
    #[cfg(feature = "simulation")]
    pub const ALL: [Self; 11] = [
        Self::AnswersWithoutCommit,
        Self::ForgetsRequests,
        Self::ForgetsTimers,
        Self::BreaksTheChain,
        Self::SnapshotsTooMuch,
        Self::ForgetsBranches,
        Self::AcceptsEveryToken,
        Self::PassesTasksToLostWorkers,
        Self::IgnoresFailedReads,
        Self::ForgetsToCloseSessions,
        Self::KeepsDecisionsOfFailedTurns,
    ];
}
