//! What happened: the log's events, version 2.
//!
//! An event is a fact with its place in the log, its time, the command and the event that caused
//! it, who acted, and the correlation it belongs to. Facts are in the past tense and hold everything
//! a replay needs; the definition itself is not repeated in each log but pinned by its content hash,
//! and carried whole only where an execution moves to another revision.

mod detail;

pub use detail::{
    PauseCause, PolicyDecision, Redo, Resolution, SkipCause, Task, TurnCause, WaitFor,
};

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_definition::Definition;
use stateway_model::{Fraction, Reason, Usage};

use crate::{ExecutionState, Failure};

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
    /// The sequence of the event that caused it. None when a person or a caller did, and in logs of
    /// version 1.
    pub cause: Option<u64>,
    /// The person or worker that acted; empty for the engine itself, and in logs of version 1.
    pub actor: Arc<str>,
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
        /// People who had a part of the parent run again; they may not decide about the child either.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        redone_by: Vec<Arc<str>>,
    },
    /// It was triggered and takes its place in the queue.
    ExecutionQueued { by: Arc<str> },
    /// It got a slot.
    ExecutionStarted {
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        deadline: Option<Timestamp>,
    },
    /// An attempt was opened for a worker. Version 1 counted `due` and `heartbeat_due` from here;
    /// since then they count from the moment a worker takes the attempt.
    StepStarted {
        step: Arc<str>,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        queue_due: Option<Timestamp>,
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
    TaskAssigned {
        task: Task,
        worker: Arc<str>,
        /// The person or service in whose name the worker is connected; empty where it gave none, and
        /// in logs of version 1.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        identity: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        due: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        heartbeat_due: Option<Timestamp>,
    },
    /// A worker gave an attempt back, or was lost with it.
    TaskReleased {
        task: Task,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lost: bool,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        queue_due: Option<Timestamp>,
    },
    /// The policy rules decided whether an attempt may be handed out.
    PolicyDecided {
        task: Task,
        /// The name of the rule that decided.
        rule: Arc<str>,
        decision: PolicyDecision,
    },
    /// A worker was lost while its execution was ending: the step may have completed or not.
    OutcomeUnknown {
        step: Arc<str>,
        attempt: u32,
        /// Whether the step is compensated as if it had completed.
        compensate: bool,
    },
    /// A worker showed that it is alive.
    HeartbeatRecorded {
        step: Arc<str>,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        heartbeat_due: Option<Timestamp>,
    },
    /// A worker reported its progress.
    ProgressReported {
        step: Arc<str>,
        attempt: u32,
        progress: Fraction,
        #[serde(default, skip_serializing_if = "str::is_empty")]
        detail: Arc<str>,
    },
    /// A worker reported the usage of an attempt; the next event has its outcome.
    UsageReported { task: Task, usage: Usage },
    /// A step is done.
    StepCompleted {
        step: Arc<str>,
        attempt: u32,
        output: Data,
    },
    /// An attempt failed; the next event has the consequence.
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
        queue_due: Option<Timestamp>,
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
    /// A person approved. With a policy's approval the attempt is ready for a worker again.
    ApprovalGranted {
        step: Arc<str>,
        attempt: u32,
        by: Arc<str>,
        comment: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        queue_due: Option<Timestamp>,
    },
    /// A person rejected.
    ApprovalRejected {
        step: Arc<str>,
        attempt: u32,
        by: Arc<str>,
        comment: Arc<str>,
    },
    /// No decision in time.
    ApprovalExpired { step: Arc<str>, attempt: u32 },
    /// The execution is paused.
    ExecutionPaused { cause: PauseCause },
    /// The execution continues.
    ExecutionResumed { by: Arc<str> },
    /// A person has to decide about a step.
    ExecutionEscalated {
        step: Arc<str>,
        reason: Reason,
        /// The attempt that led to it.
        #[serde(default, skip_serializing_if = "is_zero")]
        attempt: u32,
        /// The role that may decide; empty where the definition names none.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        role: Arc<str>,
    },
    /// A person decided about a step.
    EscalationResolved {
        step: Arc<str>,
        #[serde(default, skip_serializing_if = "is_zero")]
        attempt: u32,
        resolution: Resolution,
        by: Arc<str>,
        comment: Arc<str>,
    },
    /// The execution rolls back: completed steps are compensated from here on.
    CompensationStarted {
        cause: TurnCause,
        /// What happened, in one line, where no step's failure says it.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        message: Arc<str>,
        /// Steps that a worker or a child is still busy with. They are asked to cancel and awaited.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        awaited: Vec<Arc<str>>,
    },
    /// The execution is cancelled without compensation once the awaited steps have ended.
    CancellationStarted {
        by: Arc<str>,
        reason: Reason,
        comment: Arc<str>,
        awaited: Vec<Arc<str>>,
    },
    /// An attempt to compensate a step was opened.
    StepCompensationStarted {
        step: Arc<str>,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        queue_due: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        due: Option<Timestamp>,
    },
    /// An attempt to compensate a step failed; with a time, another follows.
    StepCompensationFailed {
        step: Arc<str>,
        attempt: u32,
        failure: Failure,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
        retry_at: Option<Timestamp>,
    },
    /// A step was compensated.
    StepCompensated { step: Arc<str>, attempt: u32 },
    /// Every step is settled.
    ExecutionCompleted { output: Data },
    /// Every compensation that had to run has run.
    ExecutionRolledBack {
        reason: Reason,
        /// Completed steps that were not rolled back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<Arc<str>>,
    },
    /// The execution failed.
    ExecutionFailed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<Arc<str>>,
        reason: Reason,
        /// What happened, in one line, where no step's failure says it.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        message: Arc<str>,
        /// Completed steps that were not rolled back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<Arc<str>>,
    },
    /// The execution was ended by someone.
    ExecutionCancelled {
        by: Arc<str>,
        reason: Reason,
        comment: Arc<str>,
        /// Completed steps that were not rolled back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<Arc<str>>,
    },
    /// An execution that had ended runs again on a new branch, under the same name.
    ExecutionReopened {
        by: Arc<str>,
        /// How it had ended.
        from: ExecutionState,
    },
    /// The log up to here is a copy of another execution's; from here on this one runs by itself.
    ExecutionForked {
        /// The execution that was forked.
        from: Arc<str>,
        /// The branch of its log.
        branch: u32,
        /// The last event of it that was copied.
        cutoff: u64,
        by: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redo: Option<Box<Redo>>,
        /// The create time, the start time and the workflow's timeout count from this event. Absent in
        /// older logs, where they count from the start of the execution that was forked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        own_times: bool,
    },
    /// The execution continues with another revision of its definition.
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
        /// What the part of the parent cost that this branch does not share.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        spent: Usage,
        /// The same for each step that cost something.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        spent_by_step: BTreeMap<Arc<str>, Usage>,
    },
    /// What was stored beside the log contradicted it, or the log was not whole, and was repaired.
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

#[allow(clippy::trivially_copy_pass_by_ref)] // The form that serde asks for.
const fn is_zero(number: &u32) -> bool {
    *number == 0
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
            | Self::OutcomeUnknown { step, .. }
            | Self::StepCompensated { step, .. } => Some(step),
            Self::TaskAssigned { task, .. }
            | Self::TaskReleased { task, .. }
            | Self::PolicyDecided { task, .. }
            | Self::UsageReported { task, .. } => Some(&task.step),
            Self::ExecutionFailed { step, .. } => step.as_ref(),
            Self::ExecutionCreated { .. }
            | Self::ExecutionQueued { .. }
            | Self::ExecutionStarted { .. }
            | Self::SignalReceived { .. }
            | Self::ExecutionPaused { .. }
            | Self::ExecutionResumed { .. }
            | Self::CompensationStarted { .. }
            | Self::CancellationStarted { .. }
            | Self::ExecutionReopened { .. }
            | Self::ExecutionForked { .. }
            | Self::ExecutionCompleted { .. }
            | Self::ExecutionRolledBack { .. }
            | Self::ExecutionCancelled { .. }
            | Self::RevisionAdopted { .. }
            | Self::BranchOpened { .. }
            | Self::ExecutionRecovered { .. } => None,
        }
    }

    /// The step that the fact begins, or skips.
    #[must_use]
    pub const fn begins(&self) -> Option<&Arc<str>> {
        match self {
            Self::StepStarted { step, .. }
            | Self::StepWaiting { step, .. }
            | Self::StepSkipped { step, .. } => Some(step),
            _ => None,
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
            Self::PolicyDecided { .. } => "PolicyDecided",
            Self::OutcomeUnknown { .. } => "OutcomeUnknown",
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
            Self::CancellationStarted { .. } => "CancellationStarted",
            Self::ExecutionReopened { .. } => "ExecutionReopened",
            Self::ExecutionForked { .. } => "ExecutionForked",
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
