//! What happened: the log's events, version 1.
//!
//! An event is a fact with its place in the log, its time, the command that caused it and the
//! correlation it belongs to. Facts are in the past tense and hold everything a replay needs; the
//! definition itself is not repeated in each log but pinned by its content hash, and carried whole
//! only where an execution moves to another revision.

mod detail;

pub use detail::{PauseCause, Redo, Resolution, SkipCause, Task, TurnCause, WaitFor};

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_definition::Definition;
use stateway_model::{Fraction, Reason, Usage};

use crate::Failure;

/// JSON that is shared and not copied.
pub type Data = Arc<Value>;

/// One entry of an execution's log.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its place in the log, from 1, without gaps.
    pub sequence: u64,
    /// When it happened, in whole milliseconds.
    pub at: Timestamp,
    /// The id of the command that caused it.
    pub causation: Arc<str>,
    /// What the execution belongs to; children share their parent's.
    pub correlation: Arc<str>,
    /// What happened.
    pub fact: Fact,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The fields are named after what they hold; the variants say the rest.
pub enum Fact {
    /// The execution became known.
    ExecutionCreated {
        execution: Arc<str>,
        branch: u32,
        revision: Arc<str>,
        initiator: Arc<str>,
        input: Data,
    },
    /// It was triggered and takes its place in the queue.
    ExecutionQueued { by: Arc<str> },
    /// It got a slot.
    ExecutionStarted {
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        deadline: Option<Timestamp>,
    },
    /// An attempt was opened for a worker.
    StepStarted {
        step: Arc<str>,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        due: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        heartbeat_due: Option<Timestamp>,
    },
    /// A step began to wait for something outside.
    StepWaiting {
        step: Arc<str>,
        attempt: u32,
        wait: WaitFor,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        due: Option<Timestamp>,
    },
    /// A worker took an attempt.
    TaskAssigned { task: Task, worker: Arc<str> },
    /// A worker gave an attempt back, or lost it.
    TaskReleased { task: Task },
    /// A worker showed that it is alive.
    HeartbeatRecorded {
        step: Arc<str>,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        heartbeat_due: Option<Timestamp>,
    },
    /// A worker said how far it is.
    ProgressReported {
        step: Arc<str>,
        attempt: u32,
        progress: Fraction,
        #[serde(default, skip_serializing_if = "str::is_empty")]
        detail: Arc<str>,
    },
    /// A worker said what an attempt cost; how it ended is told by the next event.
    UsageReported { task: Task, usage: Usage },
    /// A step is done.
    StepCompleted {
        step: Arc<str>,
        attempt: u32,
        output: Data,
    },
    /// An attempt failed; what follows is told by the next event.
    AttemptFailed {
        step: Arc<str>,
        attempt: u32,
        failure: Failure,
    },
    /// The next attempt has its time.
    RetryScheduled {
        step: Arc<str>,
        attempt: u32,
        #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
        at: Timestamp,
    },
    /// An attempt with the validator's feedback was opened.
    CorrectionRequested {
        step: Arc<str>,
        attempt: u32,
        feedback: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        due: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        heartbeat_due: Option<Timestamp>,
    },
    /// A step was left out.
    StepSkipped { step: Arc<str>, cause: SkipCause },
    /// A signal arrived.
    SignalReceived {
        name: Arc<str>,
        id: Arc<str>,
        payload: Data,
    },
    /// A signal was given to the step that waited for it.
    SignalDelivered {
        name: Arc<str>,
        id: Arc<str>,
        step: Arc<str>,
    },
    /// A person said yes.
    ApprovalGranted {
        step: Arc<str>,
        attempt: u32,
        by: Arc<str>,
        comment: Arc<str>,
    },
    /// A person said no.
    ApprovalRejected {
        step: Arc<str>,
        attempt: u32,
        by: Arc<str>,
        comment: Arc<str>,
    },
    /// Nobody said anything in time.
    ApprovalExpired { step: Arc<str>, attempt: u32 },
    /// The execution is held.
    ExecutionPaused { cause: PauseCause },
    /// The execution goes on.
    ExecutionResumed { by: Arc<str> },
    /// A person has to decide about a step.
    ExecutionEscalated { step: Arc<str>, reason: Reason },
    /// A person decided about a step.
    EscalationResolved {
        step: Arc<str>,
        resolution: Resolution,
        by: Arc<str>,
        comment: Arc<str>,
    },
    /// Completed steps are undone from here on.
    CompensationStarted { cause: TurnCause },
    /// An attempt to undo a step was opened.
    StepCompensationStarted {
        step: Arc<str>,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        due: Option<Timestamp>,
    },
    /// An attempt to undo a step failed; with a time, another follows.
    StepCompensationFailed {
        step: Arc<str>,
        attempt: u32,
        failure: Failure,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        retry_at: Option<Timestamp>,
    },
    /// A step was undone.
    StepCompensated { step: Arc<str>, attempt: u32 },
    /// Every step is settled.
    ExecutionCompleted { output: Data },
    /// Everything that had to be undone was undone.
    ExecutionRolledBack { reason: Reason },
    /// The execution failed.
    ExecutionFailed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<Arc<str>>,
        reason: Reason,
    },
    /// The execution was ended by someone.
    ExecutionCancelled {
        by: Arc<str>,
        reason: Reason,
        comment: Arc<str>,
    },
    /// The execution goes on with another revision of its definition.
    RevisionAdopted {
        revision: Arc<str>,
        definition: Box<Definition>,
    },
    /// From here on the log is another branch.
    BranchOpened {
        branch: u32,
        parent: u32,
        cutoff: u64,
        by: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redo: Option<Box<Redo>>,
    },
    /// What was stored beside the log contradicted it, or the log was not whole, and was mended.
    ExecutionRecovered {
        /// What was found, in words.
        reason: Arc<str>,
        /// The branch that was current before.
        from: u32,
        /// The branch that is current now.
        branch: u32,
        /// The last event that counts.
        cutoff: u64,
        /// Steps whose work is done again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        again: Vec<Arc<str>>,
        /// Where in the store's log events were found damaged, and were left behind.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<i64>,
        by: Arc<str>,
    },
}

/// Serde for an optional moment as milliseconds.
pub(crate) use jiff::fmt::serde::timestamp::millisecond::optional as moment;

impl Fact {
    /// The step it is about.
    #[must_use]
    pub fn step(&self) -> Option<&Arc<str>> {
        match self {
            Self::StepStarted { step, .. }
            | Self::StepWaiting { step, .. }
            | Self::HeartbeatRecorded { step, .. }
            | Self::ProgressReported { step, .. }
            | Self::StepCompleted { step, .. }
            | Self::AttemptFailed { step, .. }
            | Self::RetryScheduled { step, .. }
            | Self::CorrectionRequested { step, .. }
            | Self::StepSkipped { step, .. }
            | Self::SignalDelivered { step, .. }
            | Self::ApprovalGranted { step, .. }
            | Self::ApprovalRejected { step, .. }
            | Self::ApprovalExpired { step, .. }
            | Self::ExecutionEscalated { step, .. }
            | Self::EscalationResolved { step, .. }
            | Self::StepCompensationStarted { step, .. }
            | Self::StepCompensationFailed { step, .. }
            | Self::StepCompensated { step, .. } => Some(step),
            Self::TaskAssigned { task, .. }
            | Self::TaskReleased { task }
            | Self::UsageReported { task, .. } => Some(&task.step),
            Self::ExecutionFailed { step, .. } => step.as_ref(),
            Self::ExecutionCreated { .. }
            | Self::ExecutionQueued { .. }
            | Self::ExecutionStarted { .. }
            | Self::SignalReceived { .. }
            | Self::ExecutionPaused { .. }
            | Self::ExecutionResumed { .. }
            | Self::CompensationStarted { .. }
            | Self::ExecutionCompleted { .. }
            | Self::ExecutionRolledBack { .. }
            | Self::ExecutionCancelled { .. }
            | Self::RevisionAdopted { .. }
            | Self::BranchOpened { .. }
            | Self::ExecutionRecovered { .. } => None,
        }
    }

    /// Its name, as it is written in the log.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ExecutionCreated { .. } => "ExecutionCreated",
            Self::ExecutionQueued { .. } => "ExecutionQueued",
            Self::ExecutionStarted { .. } => "ExecutionStarted",
            Self::StepStarted { .. } => "StepStarted",
            Self::StepWaiting { .. } => "StepWaiting",
            Self::TaskAssigned { .. } => "TaskAssigned",
            Self::TaskReleased { .. } => "TaskReleased",
            Self::HeartbeatRecorded { .. } => "HeartbeatRecorded",
            Self::ProgressReported { .. } => "ProgressReported",
            Self::UsageReported { .. } => "UsageReported",
            Self::StepCompleted { .. } => "StepCompleted",
            Self::AttemptFailed { .. } => "AttemptFailed",
            Self::RetryScheduled { .. } => "RetryScheduled",
            Self::CorrectionRequested { .. } => "CorrectionRequested",
            Self::StepSkipped { .. } => "StepSkipped",
            Self::SignalReceived { .. } => "SignalReceived",
            Self::SignalDelivered { .. } => "SignalDelivered",
            Self::ApprovalGranted { .. } => "ApprovalGranted",
            Self::ApprovalRejected { .. } => "ApprovalRejected",
            Self::ApprovalExpired { .. } => "ApprovalExpired",
            Self::ExecutionPaused { .. } => "ExecutionPaused",
            Self::ExecutionResumed { .. } => "ExecutionResumed",
            Self::ExecutionEscalated { .. } => "ExecutionEscalated",
            Self::EscalationResolved { .. } => "EscalationResolved",
            Self::CompensationStarted { .. } => "CompensationStarted",
            Self::StepCompensationStarted { .. } => "StepCompensationStarted",
            Self::StepCompensationFailed { .. } => "StepCompensationFailed",
            Self::StepCompensated { .. } => "StepCompensated",
            Self::ExecutionCompleted { .. } => "ExecutionCompleted",
            Self::ExecutionRolledBack { .. } => "ExecutionRolledBack",
            Self::ExecutionFailed { .. } => "ExecutionFailed",
            Self::ExecutionCancelled { .. } => "ExecutionCancelled",
            Self::RevisionAdopted { .. } => "RevisionAdopted",
            Self::BranchOpened { .. } => "BranchOpened",
            Self::ExecutionRecovered { .. } => "ExecutionRecovered",
        }
    }
}
