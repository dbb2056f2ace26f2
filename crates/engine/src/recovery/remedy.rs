//! Which work is done again when a log is left before its end.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_machine::{Event, Fact, Obligation, State, StepState, obligations};

use super::Remedy;

/// The log ends too early: whatever is not settled by it may have been done; none when by the log
/// there is nothing left to do.
pub(super) fn after_loss(state: &State) -> Option<Remedy> {
    if state.state().is_terminal() {
        return None;
    }
    let unsettled = state
        .step_states()
        .filter(|(_, step)| !matches!(step, StepState::Completed | StepState::Skipped));
    Some(Remedy::Branch {
        cutoff: state.sequence(),
        again: unsettled.map(|(step, _)| step.into()).collect(),
    })
}

/// Events after the last that can be trusted are left behind: whatever they say was done, and
/// what was with workers or children before them.
pub(super) fn after_break(state: &State, left: &[Event]) -> Remedy {
    let mut again = under_way(state);
    for event in left {
        let done = match &event.fact {
            Fact::TaskAssigned { task, .. } => Some(&task.step),
            Fact::StepCompleted { step, .. }
            | Fact::AttemptFailed { step, .. }
            | Fact::StepWaiting { step, .. } => Some(step),
            _ => None,
        };
        again.extend(done.cloned());
    }
    Remedy::Branch {
        cutoff: state.sequence(),
        again: again.into_iter().collect(),
    }
}

/// Whether an event is an end.
pub(super) const fn is_end(event: &Event) -> bool {
    matches!(
        event.fact,
        Fact::ExecutionCompleted { .. }
            | Fact::ExecutionRolledBack { .. }
            | Fact::ExecutionFailed { .. }
            | Fact::ExecutionCancelled { .. }
    )
}

/// Steps with an attempt that a worker or a child has.
fn under_way(state: &State) -> BTreeSet<Arc<str>> {
    obligations(state)
        .into_iter()
        .filter_map(|owed| match owed {
            Obligation::Task(order) if order.worker.is_some() => Some(order.key.task.step),
            Obligation::Child(order) => Some(order.key.task.step),
            _ => None,
        })
        .collect()
}
