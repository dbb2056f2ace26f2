//! The end of an execution, and the turn to undoing: whatever is open is given up.

use std::sync::Arc;

use stateway_model::Reason;

use super::change::change;
use crate::event::Data;
use crate::ledger::Ledger;
use crate::{Event, ExecutionState, StepState};

pub(super) fn completed<L: Ledger>(l: &mut L, output: &Data, event: &Event) {
    l.head_mut().output = Some(Arc::clone(output));
    end(l, ExecutionState::Completed, None, event);
}

pub(super) fn end<L: Ledger>(
    l: &mut L,
    state: ExecutionState,
    reason: Option<Reason>,
    event: &Event,
) {
    give_up(l, event);
    let head = l.head_mut();
    (head.state, head.reason) = (state, reason);
    head.times.ended = Some(event.at);
    head.undo_next = None;
}

/// Cancels the open steps; nothing is begun any more.
pub(super) fn give_up<L: Ledger>(l: &mut L, event: &Event) {
    let open = l.head().open.clone();
    for ix in open {
        change(l, ix, |run| {
            (run.state, run.ended) = (StepState::Cancelled, Some(event.at));
            (run.due, run.heartbeat_due, run.resume_at, run.wait) = (None, None, None, None);
        });
    }
    let head = l.head_mut();
    head.ready.clear();
    head.unsettled.clear();
    head.parked.clear();
    head.escalated.clear();
    head.hold = None;
}
