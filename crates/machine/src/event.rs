//! What happened: the log's events, version 1.
//!
//! An event is a fact with its place in the log, its time, the command that caused it and the
//! correlation it belongs to. Facts are in the past tense and hold everything a replay needs; the
//! definition itself is not repeated in each log but pinned by its content hash, and carried whole
//! only where an execution moves to another revision.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_definition::Definition;
use stateway_model::Reason;

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
    },
}

/// One attempt that was handed out: to do a step, or to undo it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The step.
    pub step: Arc<str>,
    /// The attempt, from 1; doing and undoing are counted apart.
    pub attempt: u32,
    /// Whether the step is being undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

impl Task {
    /// An attempt to do a step.
    #[must_use]
    pub fn of(step: impl Into<Arc<str>>, attempt: u32) -> Self {
        Self {
            step: step.into(),
            attempt,
            undo: false,
        }
    }

    /// An attempt to undo a step.
    #[must_use]
    pub fn undo(step: impl Into<Arc<str>>, attempt: u32) -> Self {
        Self {
            step: step.into(),
            attempt,
            undo: true,
        }
    }
}

/// What a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WaitFor {
    /// A moment.
    Timer,
    /// A message of this name.
    Signal(Arc<str>),
    /// Someone of this role.
    Approval(Arc<str>),
    /// An execution of this definition.
    Child(Arc<str>),
    /// A person, after an escalation.
    Person,
}

/// Why a step was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SkipCause {
    /// Its condition does not hold.
    Condition,
    /// It needs the output of this step, which was left out.
    Upstream(Arc<str>),
    /// It failed, and `onFailure` says to go on.
    Failure,
}

/// Why an execution is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PauseCause {
    /// Someone wanted it.
    ByHand {
        /// Who.
        by: Arc<str>,
        /// Why.
        comment: Arc<str>,
    },
    /// A step failed, and `onFailure` says to hold.
    StepFailed {
        /// The step.
        step: Arc<str>,
    },
    /// The definition changed in a way that the execution cannot follow.
    RevisionMismatch {
        /// The revision that was offered.
        offered: Arc<str>,
        /// Why it cannot be followed.
        conflicts: Vec<String>,
    },
}

/// Why an execution turned back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TurnCause {
    /// A step failed.
    StepFailed {
        /// The step.
        step: Arc<str>,
        /// Why it was not tried again.
        reason: Reason,
    },
    /// The execution took too long.
    TimedOut,
    /// Someone cancelled it and wants it undone.
    Cancelled {
        /// Who.
        by: Arc<str>,
    },
}

/// What a person decided about an escalated step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Resolution {
    /// Try it again as it is.
    Resume,
    /// Try it again with another role.
    Reassign {
        /// The role.
        role: Arc<str>,
    },
    /// End the execution.
    Cancel,
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
            Self::TaskAssigned { task, .. } | Self::TaskReleased { task } => Some(&task.step),
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
            | Self::BranchOpened { .. } => None,
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
        }
    }
}
