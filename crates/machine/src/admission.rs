//! Which verbs are considered in which state. Every pair has an answer; this table gives it.

use crate::ExecutionState::{
    AwaitingApproval, AwaitingSignal, Cancelled, Compensating, Completed, Created, Escalated,
    Failed, Paused, Queued, RolledBack, Running,
};
use crate::{ExecutionState, Rejection, State, VerbName};

const ACTIVE: &[ExecutionState] = &[Running, AwaitingSignal, AwaitingApproval];
const STARTED: &[ExecutionState] = &[Running, AwaitingSignal, AwaitingApproval, Paused, Escalated];
const WORKING: &[ExecutionState] = &[
    Running,
    AwaitingSignal,
    AwaitingApproval,
    Paused,
    Escalated,
    Compensating,
];
const BEFORE_UNDO: &[ExecutionState] = &[
    Created,
    Queued,
    Running,
    AwaitingSignal,
    AwaitingApproval,
    Paused,
    Escalated,
];
const EVERY: &[ExecutionState] = &[
    Created,
    Queued,
    Running,
    AwaitingSignal,
    AwaitingApproval,
    Paused,
    Escalated,
    Compensating,
    Completed,
    RolledBack,
    Failed,
    Cancelled,
];
const OPEN: &[ExecutionState] = &[
    Created,
    Queued,
    Running,
    AwaitingSignal,
    AwaitingApproval,
    Paused,
    Escalated,
    Compensating,
];

/// The states in which a verb is considered at all. What it says may still be refused.
#[must_use]
pub const fn admitting_states(verb: VerbName) -> &'static [ExecutionState] {
    match verb {
        VerbName::Create => &[],
        VerbName::Trigger => &[Created],
        VerbName::GrantSlot => &[Queued],
        VerbName::AssignTask
        | VerbName::ReleaseTask
        | VerbName::RecordHeartbeat
        | VerbName::CompleteTask
        | VerbName::FailTask
        | VerbName::FireTimer => WORKING,
        VerbName::FinishChild | VerbName::DecideApproval => STARTED,
        VerbName::SendSignal | VerbName::Cancel | VerbName::OfferDefinition => BEFORE_UNDO,
        VerbName::Pause | VerbName::RetryNow => ACTIVE,
        VerbName::Resume => &[Paused],
        VerbName::ResolveEscalation => &[Escalated],
        VerbName::Kill | VerbName::OpenBranch => OPEN,
        VerbName::Recover => EVERY,
    }
}

/// Whether a verb is considered where the execution is now.
///
/// # Errors
/// Why it is not.
pub fn admit(state: &State, verb: VerbName) -> Result<(), Rejection> {
    match (state.is_created(), verb) {
        (false, VerbName::Create) => return Ok(()),
        (false, _) => return Err(Rejection::NotCreated),
        (true, VerbName::Create) => return Err(Rejection::AlreadyCreated),
        (true, _) => {}
    }
    let at = state.state();
    match at {
        _ if admitting_states(verb).contains(&at) => Ok(()),
        Completed | RolledBack | Failed | Cancelled => {
            Err(Rejection::AlreadyFinished { state: at })
        }
        _ => Err(Rejection::WrongState { state: at }),
    }
}
