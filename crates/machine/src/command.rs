//! What someone wants: commands, with their ids and everything the clock or chance would give.

use std::sync::Arc;

use stateway_definition::Definition;
use stateway_model::{Progress, Usage, words};

use crate::event::{Data, Redo, Resolution, Task};
use crate::{Failure, Timer};

/// One command. Its id becomes the causation of the events it leads to.
#[derive(Debug, Clone)]
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

/// What is wanted.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // The fields are named after what they hold; the variants say the rest.
pub enum Verb {
    /// Make an execution known.
    Create {
        execution: Arc<str>,
        correlation: Arc<str>,
        initiator: Arc<str>,
        input: Data,
    },
    /// Let it take its place in the queue.
    Trigger { by: Arc<str> },
    /// Its turn has come.
    GrantSlot,
    /// A worker takes an attempt.
    AssignTask { task: Task, worker: Arc<str> },
    /// A worker gives an attempt back, or lost it.
    ReleaseTask { task: Task },
    /// A worker is alive, and may say how far it is.
    RecordHeartbeat {
        step: Arc<str>,
        attempt: u32,
        progress: Option<Progress>,
    },
    /// A worker is done.
    CompleteTask {
        task: Task,
        output: Data,
        usage: Option<Usage>,
    },
    /// A worker failed.
    FailTask {
        task: Task,
        failure: Failure,
        usage: Option<Usage>,
    },
    /// A child execution ended.
    FinishChild {
        step: Arc<str>,
        attempt: u32,
        outcome: Result<Data, Failure>,
    },
    /// A time has come.
    FireTimer { timer: Timer },
    /// A message arrives. The id makes a repeated message one message.
    SendSignal {
        name: Arc<str>,
        id: Arc<str>,
        payload: Data,
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
    /// Hold the execution.
    Pause { by: Arc<str>, comment: Arc<str> },
    /// Let it go on.
    Resume { by: Arc<str> },
    /// Do not wait for the next attempt's time.
    RetryNow { step: Arc<str> },
    /// Decide about an escalated step.
    ResolveEscalation {
        step: Arc<str>,
        resolution: Resolution,
        by: Arc<str>,
        comment: Arc<str>,
    },
    /// End the execution.
    Cancel {
        mode: CancelMode,
        by: Arc<str>,
        comment: Arc<str>,
    },
    /// Go on with this definition, if that is possible.
    OfferDefinition { definition: Arc<Definition> },
    /// Go on as another branch of the log.
    OpenBranch {
        branch: u32,
        cutoff: u64,
        by: Arc<str>,
        redo: Option<Box<Redo>>,
    },
    /// Note that what is kept of the execution was mended, and go on from what the log says.
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
        /// Stop; what was done stays done.
        Stop = "stop",
        /// Stop and undo what was done.
        Compensate = "compensate",
        /// Stop whatever is going on, an undoing included.
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
        /// See [`Verb::ResolveEscalation`].
        ResolveEscalation = "resolve_escalation",
        /// See [`Verb::Cancel`], to stop or to undo.
        Cancel = "cancel",
        /// See [`Verb::Cancel`], by force.
        Kill = "kill",
        /// See [`Verb::OfferDefinition`].
        OfferDefinition = "offer_definition",
        /// See [`Verb::OpenBranch`].
        OpenBranch = "open_branch",
        /// See [`Verb::Recover`].
        Recover = "recover",
    }
}

impl Verb {
    /// A worker is done and says nothing of what it used.
    #[must_use]
    pub const fn complete(task: Task, output: Data) -> Self {
        Self::CompleteTask {
            task,
            output,
            usage: None,
        }
    }

    /// A worker failed and says nothing of what it used.
    #[must_use]
    pub const fn fail(task: Task, failure: Failure) -> Self {
        Self::FailTask {
            task,
            failure,
            usage: None,
        }
    }

    /// A worker is alive and says no more.
    #[must_use]
    pub fn heartbeat(step: impl Into<Arc<str>>, attempt: u32) -> Self {
        Self::RecordHeartbeat {
            step: step.into(),
            attempt,
            progress: None,
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
            Self::ResolveEscalation { .. } => VerbName::ResolveEscalation,
            Self::Cancel {
                mode: CancelMode::Kill,
                ..
            } => VerbName::Kill,
            Self::Cancel { .. } => VerbName::Cancel,
            Self::OfferDefinition { .. } => VerbName::OfferDefinition,
            Self::OpenBranch { .. } => VerbName::OpenBranch,
            Self::Recover { .. } => VerbName::Recover,
        }
    }
}
