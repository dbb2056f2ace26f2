//! From creation to the slot.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::Reason;

use crate::ExecutionState;
use crate::event::{Data, Event, Redo};
use crate::ledger::Ledger;
use crate::plan::StepIx;

pub(super) fn created<L: Ledger>(
    l: &mut L,
    execution: &Arc<str>,
    branch: u32,
    initiator: &Arc<str>,
    input: &Data,
    event: &Event,
) {
    let head = l.head_mut();
    (head.id, head.branch) = (Arc::clone(execution), branch);
    head.correlation = Arc::clone(&event.correlation);
    (head.initiator, head.input) = (Arc::clone(initiator), Arc::clone(input));
    head.times.created = Some(event.at);
}

pub(super) fn queued<L: Ledger>(l: &mut L) {
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Queued, Some(Reason::Queued));
}

pub(super) fn started<L: Ledger>(l: &mut L, deadline: Option<Timestamp>, event: &Event) {
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Running, None);
    (head.deadline, head.times.started) = (deadline, Some(event.at));
}

/// The time between the last event that is shared with the parent and this one counts for nobody:
/// whatever is under way has as long left as it had.
pub(super) fn branched<L: Ledger>(
    l: &mut L,
    branch: u32,
    before: Option<Timestamp>,
    event: &Event,
) {
    let lost = before.map(|before| event.at.duration_since(before));
    let put_off = |due: &mut Option<Timestamp>| {
        if let (Some(at), Some(lost)) = (*due, lost) {
            *due = Some(at.checked_add(lost).unwrap_or(at));
        }
    };
    let head = l.head_mut();
    head.branch = branch;
    put_off(&mut head.deadline);
    for ix in head.open.clone() {
        let run = l.run_mut(ix);
        put_off(&mut run.due);
        put_off(&mut run.heartbeat_due);
        put_off(&mut run.resume_at);
    }
}

/// The step is done again, with what a person gave it.
pub(super) fn redone<L: Ledger>(l: &mut L, ix: StepIx, redo: &Redo) {
    let run = l.run_mut(ix);
    run.given.clone_from(&redo.input);
    run.advice = Some(Arc::clone(&redo.feedback)).filter(|said| !said.is_empty());
}
