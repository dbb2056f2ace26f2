//! Commands, with their ids and all times and random values they need.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stateway_definition::Definition;
use stateway_model::{Progress, Usage, words};

use crate::event::{Data, PolicyDecision, Redo, Resolution, Task};
use crate::{ExecutionState, Failure, Timer};

/// One command. Its id becomes the causation of the events it leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Unique for the sender.
    pub id: Arc<str>,
    /// What is wanted.
    pub verb: Verb,
}

impl Command {
    /// A command with its id.
    #[must_use]
    pub fn new(id: impl Into<Arc<str>>, verb: Verb) -> Self {
        Self {
            id: id.into(),
            verb,
        }
    }
}

/// What is wanted. The names in its serialised form are those of [`VerbName`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // The fields are named after what they hold; the variants say the rest.
pub enum Verb {
    /// Make an execution known.
    Create {
        execution: Arc<str>,
        correlation: Arc<str>,
        initiator: Arc<str>,
        input: Data,
        /// People who had a part of the parent run again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        redone_by: Vec<Arc<str>>,
    },
    /// Put the execution into the queue.
    Trigger { by: Arc<str> },
    /// The execution gets a slot.
    GrantSlot,
    /// A worker takes an attempt, in the name of a person or a service; empty where it gave none.
    AssignTask {
        task: Task,
        worker: Arc<str>,
        #[serde(default, skip_serializing_if = "str::is_empty")]
        identity: Arc<str>,
    },
    /// A worker returns an attempt, or is lost.
    ReleaseTask {
        task: Task,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lost: bool,
    },
    /// The policy rules decided whether an attempt may be handed out.
    DecidePolicy {
        task: Task,
        rule: Arc<str>,
        decision: PolicyDecision,
    },
    /// A worker sends a heartbeat, possibly with progress.
    RecordHeartbeat {
        step: Arc<str>,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<Progress>,
    },
    /// A worker is done.
    CompleteTask {
        task: Task,
        output: Data,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// A worker failed.
    FailTask {
        task: Task,
        failure: Failure,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// A child execution ended, with its usage, including its own children.
    FinishChild {
        step: Arc<str>,
        attempt: u32,
        outcome: Result<Data, Failure>,
        usage: Usage,
    },
    /// A timer fires. The note of the host becomes part of the error message, for example how many
    /// workers of a role are connected.
    FireTimer {
        timer: Timer,
        #[serde(default, skip_serializing_if = "str::is_empty")]
        note: Arc<str>,
    },
    /// A signal arrives. A repeated signal has the same id.
    SendSignal {
        name: Arc<str>,
        id: Arc<str>,
        payload: Data,
        by: Arc<str>,
    },
    /// A person decides.
    DecideApproval {
        step: Arc<str>,
        attempt: u32,
        grant: bool,
        by: Arc<str>,
        roles: Vec<Arc<str>>,
        comment: Arc<str>,
    },
    /// Pause the execution.
    Pause {
        by: Arc<str>,
        #[serde(default, skip_serializing_if = "str::is_empty")]
        comment: Arc<str>,
    },
    /// Resume the execution.
    Resume { by: Arc<str> },
    /// Start the next attempt immediately.
    RetryNow { step: Arc<str>, by: Arc<str> },
    /// Start the next attempt of every step and compensation that is backing off immediately.
    RetryAll { by: Arc<str> },
    /// Decide about an escalated step.
    ResolveEscalation {
        step: Arc<str>,
        /// The attempt that was escalated.
        attempt: u32,
        resolution: Resolution,
        by: Arc<str>,
        /// The roles the person has.
        roles: Vec<Arc<str>>,
        /// The roles that may decide where the definition names none.
        operators: Vec<Arc<str>>,
        comment: Arc<str>,
        /// Whether a cancellation compensates; none: as the definition's failure policy says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compensate: Option<bool>,
    },
    /// End the execution.
    Cancel {
        mode: CancelMode,
        by: Arc<str>,
        comment: Arc<str>,
    },
    /// Continue with this definition, if that is possible.
    OfferDefinition {
        definition: Arc<Definition>,
        by: Arc<str>,
    },
    /// Continue as another branch of the log.
    OpenBranch {
        branch: u32,
        cutoff: u64,
        by: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redo: Option<Box<Redo>>,
        /// How the execution had ended; none when it was open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reopened: Option<ExecutionState>,
        /// The usage of the part of the parent that the branch does not share.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        spent: Usage,
        /// The same for each step.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        spent_by_step: BTreeMap<Arc<str>, Usage>,
    },
    /// Continue from a copy of another execution's log.
    Fork {
        from: Arc<str>,
        branch: u32,
        cutoff: u64,
        by: Arc<str>,
        redo: Box<Redo>,
    },
    /// Record that the derived data of the execution was repaired, and continue from the log.
    Recover {
        reason: Arc<str>,
        from: u32,
        cutoff: u64,
        again: Vec<Arc<str>>,
        left: Vec<i64>,
        by: Arc<str>,
    },
}

words! {
    /// How an execution is ended.
    pub enum CancelMode as "cancel mode" {
        /// Compensate if the definition's `failurePolicy` is `compensate`, otherwise stop.
        Policy = "policy",
        /// Stop without compensation.
        Stop = "stop",
        /// Stop and compensate completed steps.
        Compensate = "compensate",
        /// Stop immediately, a compensation included.
        Kill = "kill",
    }
}

words! {
    /// The name of a verb, without what it carries.
    pub enum VerbName as "verb" {
        /// See [`Verb::Create`].
        Create = "create",
        /// See [`Verb::Trigger`].
        Trigger = "trigger",
        /// See [`Verb::GrantSlot`].
        GrantSlot = "grant_slot",
        /// See [`Verb::AssignTask`].
        AssignTask = "assign_task",
        /// See [`Verb::ReleaseTask`].
        ReleaseTask = "release_task",
        /// See [`Verb::DecidePolicy`].
        DecidePolicy = "decide_policy",
        /// See [`Verb::RecordHeartbeat`].
        RecordHeartbeat = "record_heartbeat",
        /// See [`Verb::CompleteTask`].
        CompleteTask = "complete_task",
        /// See [`Verb::FailTask`].
        FailTask = "fail_task",
        /// See [`Verb::FinishChild`].
        FinishChild = "finish_child",
        /// See [`Verb::FireTimer`].
        FireTimer = "fire_timer",
        /// See [`Verb::SendSignal`].
        SendSignal = "send_signal",
        /// See [`Verb::DecideApproval`].
        DecideApproval = "decide_approval",
        /// See [`Verb::Pause`].
        Pause = "pause",
        /// See [`Verb::Resume`].
        Resume = "resume",
        /// See [`Verb::RetryNow`].
        RetryNow = "retry_now",
        /// See [`Verb::RetryAll`].
        RetryAll = "retry_all",
        /// See [`Verb::ResolveEscalation`].
        ResolveEscalation = "resolve_escalation",
        /// See [`Verb::Cancel`], with or without compensation.
        Cancel = "cancel",
        /// See [`Verb::Cancel`], by force.
        Kill = "kill",
        /// See [`Verb::OfferDefinition`].
        OfferDefinition = "offer_definition",
        /// See [`Verb::OpenBranch`].
        OpenBranch = "open_branch",
        /// See [`Verb::Fork`].
        Fork = "fork",
        /// See [`Verb::Recover`].
        Recover = "recover",
    }
}

impl Verb {
    /// A worker completed a task and reports no usage.
    #[must_use]
    pub const fn complete(task: Task, output: Data) -> Self {
        Self::CompleteTask {
            task,
            output,
            usage: None,
        }
    }

    /// A worker failed a task and reports no usage.
    #[must_use]
    pub const fn fail(task: Task, failure: Failure) -> Self {
        Self::FailTask {
            task,
            failure,
            usage: None,
        }
    }

    /// A heartbeat without progress.
    #[must_use]
    pub fn heartbeat(step: impl Into<Arc<str>>, attempt: u32) -> Self {
        Self::RecordHeartbeat {
            step: step.into(),
            attempt,
            progress: None,
        }
    }

    /// A timer fires and the host knows no more about it.
    #[must_use]
    pub fn fire(timer: Timer) -> Self {
        let note = "".into();
        Self::FireTimer { timer, note }
    }

    /// The person who sends it; nothing for what workers and the engine itself do.
    #[must_use]
    pub const fn by(&self) -> Option<&Arc<str>> {
        match self {
            Self::Create { initiator: by, .. }
            | Self::Trigger { by }
            | Self::SendSignal { by, .. }
            | Self::DecideApproval { by, .. }
            | Self::Pause { by, .. }
            | Self::Resume { by }
            | Self::RetryNow { by, .. }
            | Self::RetryAll { by }
            | Self::ResolveEscalation { by, .. }
            | Self::Cancel { by, .. }
            | Self::OfferDefinition { by, .. }
            | Self::OpenBranch { by, .. }
            | Self::Fork { by, .. }
            | Self::Recover { by, .. } => Some(by),
            Self::GrantSlot
            | Self::AssignTask { .. }
            | Self::ReleaseTask { .. }
            | Self::DecidePolicy { .. }
            | Self::RecordHeartbeat { .. }
            | Self::CompleteTask { .. }
            | Self::FailTask { .. }
            | Self::FinishChild { .. }
            | Self::FireTimer { .. } => None,
        }
    }

    /// The step that a worker, a child or a timer of the engine acts on.
    #[must_use]
    pub const fn step(&self) -> Option<&Arc<str>> {
        match self {
            Self::AssignTask { task, .. }
            | Self::ReleaseTask { task, .. }
            | Self::DecidePolicy { task, .. }
            | Self::CompleteTask { task, .. }
            | Self::FailTask { task, .. } => Some(&task.step),
            Self::RecordHeartbeat { step, .. }
            | Self::FinishChild { step, .. }
            | Self::FireTimer {
                timer: Timer::Step { step, .. },
                ..
            } => Some(step),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> VerbName {
        match self {
            Self::Create { .. } => VerbName::Create,
            Self::Trigger { .. } => VerbName::Trigger,
            Self::GrantSlot => VerbName::GrantSlot,
            Self::AssignTask { .. } => VerbName::AssignTask,
            Self::ReleaseTask { .. } => VerbName::ReleaseTask,
            Self::DecidePolicy { .. } => VerbName::DecidePolicy,
            Self::RecordHeartbeat { .. } => VerbName::RecordHeartbeat,
            Self::CompleteTask { .. } => VerbName::CompleteTask,
            Self::FailTask { .. } => VerbName::FailTask,
            Self::FinishChild { .. } => VerbName::FinishChild,
            Self::FireTimer { .. } => VerbName::FireTimer,
            Self::SendSignal { .. } => VerbName::SendSignal,
            Self::DecideApproval { .. } => VerbName::DecideApproval,
            Self::Pause { .. } => VerbName::Pause,
            Self::Resume { .. } => VerbName::Resume,
            Self::RetryNow { .. } => VerbName::RetryNow,
            Self::RetryAll { .. } => VerbName::RetryAll,
            Self::ResolveEscalation { .. } => VerbName::ResolveEscalation,
            Self::Cancel {
                mode: CancelMode::Kill,
                ..
            } => VerbName::Kill,
            Self::Cancel { .. } => VerbName::Cancel,
            Self::OfferDefinition { .. } => VerbName::OfferDefinition,
            Self::OpenBranch { .. } => VerbName::OpenBranch,
            Self::Fork { .. } => VerbName::Fork,
            Self::Recover { .. } => VerbName::Recover,
        }
    }
}
