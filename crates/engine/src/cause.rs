//! The causes of the engine's own commands. Every other command is caused by a request and has its id.

/// A child ended.
pub(crate) const CHILD: &str = "child";
/// A task is handed out, or cannot be.
pub(crate) const HAND_OUT: &str = "hand-out";
/// A worker reported progress.
pub(crate) const HEARTBEAT: &str = "heartbeat";
/// The worker of a task is gone.
pub(crate) const LEASE: &str = "lease";
/// The parent is cancelled.
pub(crate) const PARENT: &str = "parent";
/// The policy decided.
pub(crate) const POLICY: &str = "policy";
/// An execution is repaired before it resumes.
pub(crate) const RESUME: &str = "resume";
/// A schedule starts an execution.
pub(crate) const SCHEDULE: &str = "schedule";
/// A queued execution begins.
pub(crate) const SLOT: &str = "slot";
/// A timer fired.
pub(crate) const TIMER: &str = "timer";
/// A verification found something.
pub(crate) const VERIFICATION: &str = "verification";
/// A worker answered.
pub(crate) const WORKER: &str = "worker";

const ALL: [&str; 12] = [
    CHILD,
    HAND_OUT,
    HEARTBEAT,
    LEASE,
    PARENT,
    POLICY,
    RESUME,
    SCHEDULE,
    SLOT,
    TIMER,
    VERIFICATION,
    WORKER,
];

/// Whether the engine itself is the cause.
pub(crate) fn is_engines_own(cause: &str) -> bool {
    ALL.contains(&cause)
}
