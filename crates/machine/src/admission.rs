//! Which verbs are considered in which state. Every pair has an answer; this table gives it.

use crate::ExecutionState::{
    AwaitingApproval, AwaitingSignal, Cancelled, Cancelling, Compensating, Completed, Created,
    Escalated, Failed, Paused, Queued, RolledBack, Running,
};
use crate::{ExecutionState, Rejection, State, VerbName};

/// A rollback retries compensations.
const RETRYING: &[ExecutionState] = &[Running, AwaitingSignal, AwaitingApproval, Compensating];
const STARTED: &[ExecutionState] = &[Running, AwaitingSignal, AwaitingApproval, Paused, Escalated];
const PAUSABLE: &[ExecutionState] = &[Running, AwaitingSignal, AwaitingApproval, Paused];
const HANDING_OUT: &[ExecutionState] = &[
    Running,
    AwaitingSignal,
    AwaitingApproval,
    Paused,
    Escalated,
    Compensating,
];
const WORKING: &[ExecutionState] = &[
    Running,
    AwaitingSignal,
    AwaitingApproval,
    Paused,
    Escalated,
    Cancelling,
    Compensating,
];
const CANCELLABLE: &[ExecutionState] = &[
    Created,
    Queued,
    Running,
    AwaitingSignal,
    AwaitingApproval,
    Paused,
    Escalated,
    Cancelling,
    Compensating,
    Cancelled,
];
const BEFORE_END: &[ExecutionState] = &[
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
    Cancelling,
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
    Cancelling,
    Compensating,
];

/// The states in which a verb is considered at all. The command may still be rejected.
#[must_use]
pub const fn admitting_states(verb: VerbName) -> &'static [ExecutionState] {
    match verb {
        VerbName::Create => &[],
        VerbName::Trigger => &[Created],
        VerbName::GrantSlot => &[Queued],
        VerbName::AssignTask | VerbName::DecidePolicy => HANDING_OUT,
        VerbName::ReleaseTask
        | VerbName::RecordHeartbeat
        | VerbName::CompleteTask
        | VerbName::FailTask
        | VerbName::FinishChild
        | VerbName::FireTimer => WORKING,
        VerbName::DecideApproval => STARTED,
        VerbName::SendSignal | VerbName::OfferDefinition => BEFORE_END,
        // Repeating it is accepted and changes nothing.
        VerbName::Cancel | VerbName::Kill => CANCELLABLE,
        VerbName::Pause => PAUSABLE,
        VerbName::RetryNow | VerbName::RetryAll => RETRYING,
        VerbName::Resume => &[Paused],
        VerbName::ResolveEscalation => &[Escalated],
        VerbName::OpenBranch | VerbName::Fork => OPEN,
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
        Escalated if verb == VerbName::Resume => Err(Rejection::Escalated),
        _ => Err(Rejection::WrongState { state: at }),
    }
}
