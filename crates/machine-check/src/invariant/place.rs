//! Commands in their place: about what is open, by people with the role, and written down with the
//! person or the event that caused them.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{Awaited, Event, Obligation, State, Task, Verb, awaited, obligations};

use super::{Checked, ensure};

/// A command about one attempt, timer or request is only accepted while that very one is open, and
/// a decision only from a person who has the role.
///
/// # Errors
/// What was accepted out of place.
pub fn is_in_place(before: &State, verb: &Verb, now: Timestamp) -> Checked {
    let owed = obligations(before);
    let open = |wanted: &Task| {
        owed.iter()
            .any(|o| matches!(o, Obligation::Task(order) if order.key.task == *wanted))
    };
    let fits = match verb {
        Verb::CompleteTask { task, .. }
        | Verb::FailTask { task, .. }
        | Verb::AssignTask { task, .. }
        | Verb::DecidePolicy { task, .. }
        | Verb::ReleaseTask { task, .. } => open(task),
        Verb::RecordHeartbeat { step, attempt, .. } => open(&Task::of(Arc::clone(step), *attempt)),
        Verb::FinishChild { step, attempt, .. } => {
            let child = Task::of(Arc::clone(step), *attempt);
            owed.iter()
                .any(|o| matches!(o, Obligation::Child(order) if order.key.task == child))
        }
        Verb::FireTimer { timer, .. } => owed.iter().any(
            |o| matches!(o, Obligation::Timer { timer: set, due } if set == timer && *due <= now),
        ),
        _ => may_decide(before, verb),
    };
    ensure(fits, || format!("out of place, and accepted: {verb:?}"))
}

/// Whether a person who decides has the role that is asked for. A decision that is repeated needs
/// none.
fn may_decide(before: &State, verb: &Verb) -> bool {
    let mut asked = awaited(before).into_iter();
    match verb {
        Verb::DecideApproval {
            step,
            attempt,
            roles,
            ..
        } => asked.all(|awaited| match awaited {
            Awaited::Approval {
                step: of,
                attempt: open,
                role,
                ..
            } if of == *step && open == *attempt => roles.contains(&role),
            _ => true,
        }),
        Verb::ResolveEscalation {
            step,
            attempt,
            roles,
            operators,
            ..
        } => asked.any(|awaited| match awaited {
            Awaited::Person {
                step: of,
                attempt: open,
                role,
                ..
            } => {
                let fits = |has: &Arc<str>| match &role {
                    Some(role) => role == has,
                    None => operators.contains(has),
                };
                of == *step && open == *attempt && roles.iter().any(fits)
            }
            _ => false,
        }),
        _ => true,
    }
}

/// What a person does is written down with the person, what the engine and workers do with the event
/// that they react to; whatever follows has a cause.
pub(super) fn is_attributed(verb: &Verb, events: &[Event]) -> Checked {
    let Some((first, rest)) = events.split_first() else {
        return Ok(());
    };
    let attributed = match verb.by() {
        Some(by) => first.cause.is_none() && first.actor == *by,
        None => first.cause.is_some(),
    };
    ensure(attributed && rest.iter().all(|e| e.cause.is_some()), || {
        format!("without a cause or a person: {verb:?} leads to {events:?}")
    })
}
