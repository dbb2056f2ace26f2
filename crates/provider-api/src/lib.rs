//! The traits that a provider implements, and the classification of its answers.
//!
//! A provider never reports a sub-state. It returns an [`Observation`]: the native state, the
//! evidence of retries, the waits and the steps. One pure function, [`classify`], derives the
//! sub-state from the observation and the provider's [`Table`], and can explain it. Adapters
//! contain no mapping, and every row of a table is tested.
//!
//! Start at [`Provider`], whose documentation is the contract. `stateway-contract-kit` checks the
//! contract.

pub mod adapter;
mod call;
mod capability;
mod classify;
mod definition;
mod description;
mod error;
mod extension;
pub mod filter;
mod limited;
mod mapper;
mod observation;
mod provider;
mod registry;
mod request;
mod suggest;
pub mod table;
mod verb;
mod watch;

pub use call::{ANONYMOUS, Call, RequestId, RequestIdError};
pub use capability::Capabilities;
pub use classify::{Classified, Decision, Explanation, StepExplanation, Verdict, classify};
pub use definition::{
    ApplyDefinitionRequest, DefinitionProblem, DefinitionsPage, DefinitionsRequest,
    NativeDefinition,
};
pub use description::Description;
pub use error::{Error, ErrorKind, ErrorParts, Result};
pub use extension::{
    AdoptRequest, AppliedDefinition, ApplyPortableRequest, Approval, ApprovalState, ApprovalStream,
    Approvals, Backup, Branch, BranchChoice, BranchEvent, BranchEventsPage, BranchEventsRequest,
    DecideRequest, DeletePortableRequest, DisabledTrigger, Divergence, Escalation, EscalationState,
    EventLog, Finding, HeldTask, InboxHints, InboxId, InboxPage, InboxRequest, PersonDecision,
    Portability, PortabilityVerdict, PortableDefinition, PortableDefinitions, PortablePage,
    Precondition, ProjectedMove, ProjectedMoveKind, ProjectedStep, Projection, PublishRequest,
    Published, PurgeAge, PurgeExecutionsRequest, PurgedExecutions, QueuedExecutions, QueuedTasks,
    RecoverRequest, Recovered, Recovery, RefusedTrigger, Remedy, ReplayRequest, ReplayUnder,
    Replayed, ReplayedStep, Resolution, ResolutionAction, ResolveRequest, ScheduledStart,
    SetHomeRequest, StepAttempt, StepAttemptOutcome, StepHistory, Store, SwitchTriggerRequest,
    TaskFailure, TaskOutcome, Triggers, UnrecordedStep, Verification, Verified, VerifiedPage,
    WatchedApproval, WorkQueue, WorkerConnection, WorkerMessage, WorkerOffer, WorkerSession,
    WorkerStatus, WorkerTask, Workers,
};
pub use limited::{Limited, UnknownCapability};
pub use mapper::Mapper;
pub use observation::{
    NativeState, Observation, ObservedDefinition, RetryEvidence, RetryPhase, StepObservation,
};
pub use provider::{ActiveGateway, Provider, one_by_one};
pub use registry::{Registration, Registry, RegistryError};
pub use request::{
    CancelMode, CancelRequest, CompensationChoice, Count, EventOrder, Health, HistoryPage,
    HistoryRequest, ListPage, ListRequest, PauseRequest, PurgeRequest, ResumeRequest,
    RetryFromRequest, RetryNowRequest, SignalRequest, StartDefinition, StartRequest, View,
};
pub use suggest::nearest;
pub use table::Table;
pub use verb::Verb;
pub use watch::{Version, WatchScope, WatchStream, Watched};

/// The sample for provider authors compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/providers.md")]
struct HowToWriteAProvider;
