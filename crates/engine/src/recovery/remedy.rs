//! Which work is done again when a log is left before its end.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_machine::{Event, Fact, Obligation, State, StepState, obligations};

/// The log ends too early: what was with workers at its end may be done, and if the execution was
/// over, so is everything else.
pub(super) fn again_after_loss(state: &State, was_over: bool) -> Vec<Arc<str>> {
    if was_over {
        let unsettled = state
            .step_states()
            .filter(|(_, step)| !matches!(step, StepState::Completed | StepState::Skipped));
        return unsettled.map(|(step, _)| step.into()).collect();
    }
    with_workers(state).into_iter().collect()
}

/// Events after the last that can be trusted are left behind: whatever they say was done, and
/// what was with workers before them.
pub(super) fn again_after_break(state: &State, left: &[Event]) -> Vec<Arc<str>> {
    let mut again = with_workers(state);
    for event in left {
        let done = match &event.fact {
            Fact::TaskAssigned { task, .. } => Some(&task.step),
            Fact::StepCompleted { step, .. } | Fact::AttemptFailed { step, .. } => Some(step),
            _ => None,
        };
        again.extend(done.cloned());
    }
    again.into_iter().collect()
}

/// Steps with an attempt that a worker has.
fn with_workers(state: &State) -> BTreeSet<Arc<str>> {
    obligations(state)
        .into_iter()
        .filter_map(|owed| match owed {
            Obligation::Task(order) if order.worker.is_some() => Some(order.key.task.step),
            _ => None,
        })
        .collect()
}
