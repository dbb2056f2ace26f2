//! Which work is done again when an execution continues from an earlier event.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_driver::resume;
use stateway_machine::{Event, Fact, State, StepState};

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
    let open = resume(state);
    let tasks = open
        .start
        .into_iter()
        .filter(|order| order.worker.is_some());
    let tasks = tasks.map(|order| order.key.task.step);
    let children = open.start_children.into_iter().chain(open.cancel_children);
    tasks
        .chain(children.map(|order| order.key.task.step))
        .collect()
}
