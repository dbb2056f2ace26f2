//! Continuing with another revision: slots move to their new places by name.

use std::sync::Arc;

use stateway_definition::Definition;

use super::change::{count_unmet, is_settled};
use crate::StepState;
use crate::ledger::Ledger;
use crate::plan::{Plan, StepIx};
use crate::state::StepRun;

/// A definition that cannot be run changes nothing; `decide` has refused it before.
pub(super) fn adopt<L: Ledger>(l: &mut L, definition: &Definition) {
    let old = Arc::clone(&l.head().plan);
    let Ok(plan) = Plan::new(definition.clone()) else {
        return;
    };
    let plan = plan.limited(*old.limits());
    let moved = |ix: StepIx| plan.find(&old.step(ix).name);
    let mut steps: Vec<StepRun> = Vec::with_capacity(plan.len());
    for (_, step) in plan.steps() {
        let mut run = match old.find(&step.name) {
            Some(before) => l.run(before).clone(),
            None => StepRun::new(0),
        };
        run.completed_before = run.completed_before.and_then(moved);
        steps.push(run);
    }
    let left = steps.iter().filter(|run| !is_settled(run)).count();
    let head = l.head_mut();
    for list in [
        &mut head.open,
        &mut head.unsettled,
        &mut head.parked,
        &mut head.escalated,
    ] {
        *list = list.iter().copied().filter_map(moved).collect();
        list.sort_unstable();
    }
    head.last_completed = head.last_completed.and_then(moved);
    head.undo_next = head.undo_next.and_then(moved);
    head.last_failed = head.last_failed.and_then(moved);
    head.left = u32::try_from(left).unwrap_or(u32::MAX);
    let plan = Arc::new(plan);
    l.replace(Arc::clone(&plan), steps);
    count_unmet(l);
    let waits = |ix: &StepIx| {
        let run = l.run(*ix);
        run.state == StepState::Pending && run.unmet == 0
    };
    let ready = plan.steps().map(|(ix, _)| ix).filter(waits).collect();
    l.head_mut().ready = ready;
}
