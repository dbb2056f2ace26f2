//! The one place where a step's slot changes state, so that the head's lists and counts agree.

use crate::event::WaitFor;
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{StepRun, insert, remove};
use crate::{ExecutionState, StepState};

/// What an open step means for the execution's own state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bearing {
    None,
    Works,
    AwaitsSignal,
    AwaitsApproval,
}

fn bearing(run: &StepRun) -> Bearing {
    match (run.state.is_open(), &run.wait) {
        (false, _) => Bearing::None,
        (true, Some(WaitFor::Signal(_))) => Bearing::AwaitsSignal,
        (true, Some(WaitFor::Approval(_))) => Bearing::AwaitsApproval,
        (true, Some(WaitFor::Timer | WaitFor::Child(_) | WaitFor::Person) | None) => Bearing::Works,
    }
}

/// Changes a slot and keeps the head's lists and counts.
pub(super) fn change<L: Ledger>(l: &mut L, ix: StepIx, edit: impl FnOnce(&mut StepRun)) {
    let run = l.run_mut(ix);
    let before = bearing(run);
    edit(run);
    let after = bearing(run);
    let head = l.head_mut();
    match before {
        Bearing::AwaitsSignal => head.awaiting_signal -= 1,
        Bearing::AwaitsApproval => head.awaiting_approval -= 1,
        Bearing::None | Bearing::Works => {}
    }
    match after {
        Bearing::AwaitsSignal => head.awaiting_signal += 1,
        Bearing::AwaitsApproval => head.awaiting_approval += 1,
        Bearing::None | Bearing::Works => {}
    }
    match (before == Bearing::None, after == Bearing::None) {
        (true, false) => insert(&mut head.open, ix),
        (false, true) => remove(&mut head.open, ix),
        _ => {}
    }
}

/// When the execution's own state is computed again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refresh {
    /// Always; without an open step the execution is running.
    Always,
    /// Only while a step is open: what follows a failure is not decided yet.
    WhileOpen,
}

/// An active execution waits when every open step does.
pub(super) fn refresh<L: Ledger>(l: &mut L, when: Refresh) {
    let head = l.head_mut();
    if !head.state.is_active() || (head.open.is_empty() && when == Refresh::WhileOpen) {
        return;
    }
    let open = u32::try_from(head.open.len()).unwrap_or(u32::MAX);
    let all_wait = open > 0 && open == head.awaiting_signal + head.awaiting_approval;
    head.state = match (all_wait, head.awaiting_approval) {
        (false, _) => ExecutionState::Running,
        (true, 0) => ExecutionState::AwaitingSignal,
        (true, _) => ExecutionState::AwaitingApproval,
    };
}

/// Dependants of a settled step wait for one step less; the ones with nothing left are ready, unless
/// the execution is ending. A dependant that is settled itself, as after a rollback, passes it on.
pub(super) fn settle_dependants<L: Ledger>(l: &mut L, ix: StepIx) {
    let ending = l.head().state.is_ending();
    for dependant in meet_dependants(l, vec![ix]) {
        if l.run(dependant).state == StepState::Pending && !ending {
            insert(&mut l.head_mut().ready, dependant);
        }
    }
}

/// Counts again how many dependencies of each step are not settled. A settled step after one that is
/// not counts as one that is not.
pub(super) fn count_unmet<L: Ledger>(l: &mut L) {
    let plan = std::sync::Arc::clone(&l.head().plan);
    let mut settled = Vec::new();
    for (ix, step) in plan.steps() {
        l.run_mut(ix).unmet = step.dependencies;
        if step.dependencies == 0 && is_settled(l.run(ix)) {
            settled.push(ix);
        }
    }
    meet_dependants(l, settled);
}

/// Removes these settled steps from the waits of their dependants; the dependants without further waits
/// any more.
fn meet_dependants<L: Ledger>(l: &mut L, mut settled: Vec<StepIx>) -> Vec<StepIx> {
    let plan = std::sync::Arc::clone(&l.head().plan);
    let mut met = Vec::new();
    while let Some(ix) = settled.pop() {
        for dependant in &plan.step(ix).dependants {
            let run = l.run_mut(*dependant);
            let waited = run.unmet > 0;
            run.unmet = run.unmet.saturating_sub(1);
            if waited && run.unmet == 0 {
                met.push(*dependant);
                if is_settled(run) {
                    settled.push(*dependant);
                }
            }
        }
    }
    met
}

pub(super) const fn is_settled(run: &StepRun) -> bool {
    matches!(run.state, StepState::Completed | StepState::Skipped)
}
