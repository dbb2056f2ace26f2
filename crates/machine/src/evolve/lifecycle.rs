//! From creation to the slot.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::Reason;

use crate::ExecutionState;
use crate::event::{Data, Event};
use crate::ledger::Ledger;

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

pub(super) fn branched<L: Ledger>(l: &mut L, branch: u32) {
    l.head_mut().branch = branch;
}
