//! Signals that wait for a step, and the step that takes one.

use std::sync::Arc;

use crate::event::{Data, Event};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{WaitingSignal, note};

pub(super) fn received<L: Ledger>(
    l: &mut L,
    name: &Arc<str>,
    id: &Arc<str>,
    payload: &Data,
    event: &Event,
) {
    let signals = Arc::make_mut(&mut l.head_mut().signals);
    signals.seen.insert(Arc::clone(id));
    let queue = signals.waiting.entry(Arc::clone(name)).or_default();
    queue.push_back(WaitingSignal {
        id: Arc::clone(id),
        payload: Arc::clone(payload),
        by: Arc::clone(&event.actor),
    });
}

/// The signal is the result of the step, so its sender has worked on the step.
pub(super) fn delivered<L: Ledger>(l: &mut L, ix: StepIx, name: &Arc<str>, id: &Arc<str>) {
    let signals = Arc::make_mut(&mut l.head_mut().signals);
    let Some(queue) = signals.waiting.get_mut(name) else {
        return;
    };
    let taken = queue.iter().position(|waiting| waiting.id == *id);
    let taken = taken.and_then(|at| queue.remove(at));
    if queue.is_empty() {
        signals.waiting.remove(name);
    }
    if let Some(taken) = taken {
        note(&mut l.run_mut(ix).worked_on_by, &taken.by);
    }
}
