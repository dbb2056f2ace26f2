//! What some engines offer beyond executions: one trait for each topic.
//!
//! A provider that offers a topic implements its trait, returns it from the method of the same name of
//! [`Provider`](crate::Provider), and turns on the capability of the same name. The gateway calls every
//! trait through the same guard as the provider's own verbs, with the same errors and figures.
//!
//! The types here are the model's: ids and names of the API, owned requests and answers, no type of an
//! engine. So an adapter to another engine, or to another process, can offer any of the topics.

mod approvals;
mod event_log;
mod portable_definitions;
mod recovery;
mod store;
mod triggers;
mod workers;

pub use approvals::{
    Approval, ApprovalState, ApprovalStream, Approvals, DecideRequest, Escalation, EscalationState,
    InboxHints, InboxId, InboxPage, InboxRequest, PersonDecision, Resolution, ResolutionAction,
    ResolveRequest, WatchedApproval,
};
pub use event_log::{
    Branch, BranchChoice, BranchEvent, BranchEventsPage, BranchEventsRequest, Divergence, EventLog,
    ProjectedMove, ProjectedMoveKind, ProjectedStep, Projection, ReplayRequest, ReplayUnder,
    Replayed, ReplayedStep, StepAttempt, StepAttemptOutcome, StepHistory, UnrecordedStep,
};
pub use portable_definitions::{
    AdoptRequest, AppliedDefinition, ApplyPortableRequest, DeletePortableRequest, DisabledTrigger,
    Portability, PortabilityVerdict, PortableDefinition, PortableDefinitions, PortablePage,
    SetHomeRequest,
};
pub use recovery::{
    Finding, RecoverRequest, Recovered, Recovery, Remedy, Verification, Verified, VerifiedPage,
};
pub use store::{Backup, PurgeAge, PurgeExecutionsRequest, PurgedExecutions, Store};
pub use triggers::{PublishRequest, Published, RefusedTrigger, SwitchTriggerRequest, Triggers};
pub use workers::{
    HeldTask, QueuedExecutions, QueuedTasks, ScheduledStart, TaskFailure, TaskOutcome, WorkQueue,
    WorkerConnection, WorkerMessage, WorkerOffer, WorkerSession, WorkerStatus, WorkerTask, Workers,
};

/// What the gateway found about the etag of a request. The gateway compares etags; only the provider
/// knows whether a request is a repetition, which is answered as the first time whatever has changed
/// since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precondition {
    /// The request has no etag.
    #[default]
    None,
    /// The etag is current.
    Holds,
    /// The etag is not current: a repeated request is answered, a new one is refused with
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) and reason `ETAG_MISMATCH`.
    Broken,
}
