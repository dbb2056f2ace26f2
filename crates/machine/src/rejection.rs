//! Why a command was rejected. A rejected command writes nothing.

use std::sync::Arc;

use thiserror::Error;

use crate::{ExecutionState, StepState};

/// Why a command was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The messages explain the fields.
pub enum Rejection {
    /// The execution does not exist.
    #[error("the execution has not been created")]
    NotCreated,
    /// The execution exists already.
    #[error("the execution exists already")]
    AlreadyCreated,
    /// A terminal state accepts no command.
    #[error("the execution has already finished as {state}")]
    AlreadyFinished { state: ExecutionState },
    /// The command is not allowed in this state.
    #[error("this command is not allowed while the execution is {state}")]
    WrongState { state: ExecutionState },
    /// A rollback after a failure or a timeout runs to its end.
    #[error("the execution is rolling back after a failure or a timeout and cannot be cancelled")]
    RollingBack,
    /// A person has to decide about a step first.
    #[error("a person has to decide about a step of the execution first")]
    Escalated,
    /// No step and no compensation waits for its next attempt.
    #[error("no step is backing off")]
    NothingBacksOff,
    /// A part of the execution cannot run again while a worker compensates a step.
    #[error("worker `{worker}` is compensating step `{step}`")]
    CompensationInProgress { step: Arc<str>, worker: Arc<str> },
    /// Running a part of the execution again would replace a decision that the person may not make.
    #[error("{0}")]
    EscalationUnresolved(Box<Rejection>),
    /// A step, input or feedback was given although every step runs again.
    #[error("every step runs again, so no step, input or feedback can be given")]
    StepAndStart,
    /// No step was named, and none failed or was interrupted.
    #[error("no step of the execution has failed or was interrupted")]
    NothingFailed,
    /// The step has not begun, so it cannot run again.
    #[error("{}", step.as_ref().map_or_else(|| "no step has begun".to_owned(), |step| format!("the step `{step}` has not begun")))]
    NotBegun { step: Option<Arc<str>> },
    /// The step only waits.
    #[error("the step `{step}` only waits and takes no input")]
    TakesNoInput { step: Arc<str> },
    /// No worker runs the step.
    #[error("the step `{step}` takes no feedback, because no worker runs it")]
    TakesNoFeedback { step: Arc<str> },
    /// The definition has no such step.
    #[error("the definition has no step `{step}`")]
    UnknownStep { step: Arc<str> },
    /// The attempt is not the open one.
    #[error("attempt {attempt} of step `{step}` is not open; the step is {state}")]
    StaleAttempt {
        step: Arc<str>,
        attempt: u32,
        state: StepState,
    },
    /// Another worker has the attempt.
    #[error("worker `{worker}` already has attempt {attempt} of step `{step}`")]
    AlreadyAssigned {
        step: Arc<str>,
        attempt: u32,
        worker: Arc<str>,
    },
    /// The timer was cancelled, or has fired.
    #[error("this timer is no longer set")]
    StaleTimer,
    /// The timer is not due yet.
    #[error("this timer is not due yet")]
    TimerNotDue,
    /// The definition has no step that waits for a signal of this name.
    #[error("no step waits for a signal `{name}`")]
    UnknownSignal { name: Arc<str> },
    /// Every step that waits for the signal has ended or has received one.
    #[error("no step can take another signal `{name}`")]
    StaleSignal { name: Arc<str> },
    /// Too many signals for one execution.
    #[error("the execution has received the maximum number of signals")]
    TooManySignals,
    /// The approval is not the open one.
    #[error("attempt {attempt} of the approval `{step}` is not open")]
    StaleApproval { step: Arc<str>, attempt: u32 },
    /// The step never asked for an approval.
    #[error("step `{step}` asks for no approval")]
    NoApproval { step: Arc<str> },
    /// The approval was not decided in time.
    #[error("the approval `{step}` has expired")]
    ApprovalExpired { step: Arc<str> },
    /// The approval was decided differently, or by someone else.
    #[error("the approval `{step}` has already been decided by `{by}`")]
    AlreadyDecided { step: Arc<str>, by: Arc<str> },
    /// The person lacks the role.
    #[error("a decision about `{step}` needs the role `{role}`")]
    RoleRequired { step: Arc<str>, role: Arc<str> },
    /// A person who started an execution cannot decide about it.
    #[error("`{by}` started the execution and cannot decide about it")]
    SelfApproval { by: Arc<str> },
    /// A person cannot decide about what they had run again or under another revision.
    #[error(
        "`{by}` ran a part of the execution again or changed its revision, and cannot decide \
         about it"
    )]
    RedoneBySelf { by: Arc<str> },
    /// A worker of a step cannot decide about it.
    #[error("`{by}` worked on step `{step}` and cannot decide about it")]
    OwnWork { by: Arc<str>, step: Arc<str> },
    /// A person cannot reassign a request to one of their own roles and decide it.
    #[error("`{by}` reassigned the approval `{step}` and cannot decide about it")]
    ReassignedBySelf { by: Arc<str>, step: Arc<str> },
    /// The escalation is not the open one.
    #[error("the escalation of attempt {attempt} of `{step}` is not open")]
    StaleEscalation { step: Arc<str>, attempt: u32 },
    /// The step is not escalated.
    #[error("the step `{step}` is not escalated")]
    NotEscalated { step: Arc<str> },
    /// The step is not between attempts.
    #[error("the step `{step}` is not backing off")]
    NotBackingOff { step: Arc<str> },
    /// The definition cannot be adopted, and the execution cannot pause: it has not started, or it is
    /// paused or escalated already.
    #[error("the execution cannot adopt revision {offered}: {}", conflicts.join("; "))]
    Incompatible {
        offered: Arc<str>,
        conflicts: Vec<String>,
    },
    /// The definition cannot be run at all.
    #[error("the definition cannot be run: {reason}")]
    UnusableDefinition { reason: String },
    /// The branch is not a new one.
    #[error("branch {branch} is not greater than the current branch {present}")]
    StaleBranch { branch: u32, present: u32 },
}

impl Rejection {
    /// What the sender can do: a sentence that refers to actions as `stateway_model::hint` does.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotCreated => "Create the execution first.",
            Self::AlreadyCreated => "Use another execution id.",
            Self::AlreadyFinished { .. } => {
                "Start a new execution, or run this one again from a step with {RetryFrom}."
            }
            Self::WrongState { .. } => "Read the execution again and act on its current state.",
            Self::RollingBack => {
                "Wait until the rollback has ended, or end the execution immediately with a kill \
                 ({KillExecution})."
            }
            Self::Escalated => "See {ListEscalations}, then resume, reassign or cancel the step.",
            Self::NothingBacksOff => "Read the execution again; {GetExecution} shows its steps.",
            Self::CompensationInProgress { .. } => "Wait until the compensation has ended.",
            Self::EscalationUnresolved(_) => {
                "An escalation of the execution is not resolved. Ask someone who may resolve the \
                 escalation."
            }
            Self::StepAndStart => "Name a step to give it other input or feedback.",
            Self::NothingFailed => "Name a step, or run every step again.",
            Self::NotBegun { .. } => "Name a step that has begun.",
            Self::TakesNoInput { .. } => "Leave the input out.",
            Self::TakesNoFeedback { .. } => "Leave the feedback out.",
            Self::UnknownStep { .. } => "Check the name against the definition.",
            Self::StaleAttempt { .. } => "Drop the result; the attempt was cancelled or replaced.",
            Self::AlreadyAssigned { .. } => "Leave the task to the worker that has it.",
            Self::StaleTimer => "Drop the timer.",
            Self::TimerNotDue => "Fire the timer when it is due.",
            Self::UnknownSignal { .. } => "Check the name against the `signal:` steps.",
            Self::StaleSignal { .. } => "Drop the signal; the step that waited for it has ended.",
            Self::TooManySignals => "Start a new execution.",
            Self::StaleApproval { .. } => {
                "List the approvals again; this request was decided or replaced."
            }
            Self::NoApproval { .. } => "{ListApprovals} shows the approvals.",
            Self::ApprovalExpired { .. } => {
                "Read the execution again; `onExpiry` has been applied."
            }
            Self::AlreadyDecided { .. } => "No action is needed; the first decision is final.",
            Self::RoleRequired { .. } => {
                "Ask a person who has the role, or name your role ({SendRoles})."
            }
            Self::SelfApproval { .. }
            | Self::RedoneBySelf { .. }
            | Self::OwnWork { .. }
            | Self::ReassignedBySelf { .. } => {
                "Ask another person to decide. A decision needs the name of the person ({SendName})."
            }
            Self::StaleEscalation { .. } => "List the escalations again; this one was resolved.",
            Self::NotEscalated { .. } => "Read the escalations again.",
            Self::NotBackingOff { .. } => "Read the step again.",
            Self::Incompatible { .. } => {
                "Offer a revision without these conflicts. The execution keeps its revision."
            }
            Self::UnusableDefinition { .. } => "Offer a valid definition.",
            Self::StaleBranch { .. } => "Use the next free branch number.",
        }
    }
}
