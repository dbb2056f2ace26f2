//! The way back.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::Reason;

use super::attempt::close;
use super::change::change;
use super::end::give_up;
use crate::event::{Event, TurnCause};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::Ending;
use crate::{ExecutionState, Failure, StepState};

pub(super) fn turned<L: Ledger>(l: &mut L, cause: &TurnCause, event: &Event) {
    give_up(l, event);
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Compensating, Some(Reason::Compensating));
    head.undo_next = head.last_completed;
    head.ending = Some(match cause {
        TurnCause::StepFailed { .. } | TurnCause::TimedOut => Ending::RolledBack,
        TurnCause::Cancelled { by, comment: _ } => Ending::Cancelled { by: Arc::clone(by) },
    });
}

pub(super) fn started<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    due: Option<Timestamp>,
    event: &Event,
) {
    l.head_mut().undo_next = l.run(ix).completed_before;
    change(l, ix, |run| {
        (run.state, run.undo_attempt) = (StepState::Compensating, attempt);
        (run.since, run.due, run.resume_at, run.worker) = (Some(event.at), due, None, None);
    });
}

pub(super) fn failed<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    failure: &Failure,
    retry_at: Option<Timestamp>,
    event: &Event,
) {
    l.head_mut().last_failed = Some(ix);
    let run = l.run_mut(ix);
    (run.failure, run.failed_at) = (Some(Arc::new(failure.clone())), Some(event.at));
    match retry_at {
        None => close(l, ix, StepState::Failed, event),
        Some(_) => change(l, ix, |run| {
            (run.resume_at, run.due, run.worker) = (retry_at, None, None);
        }),
    }
}

pub(super) fn done<L: Ledger>(l: &mut L, ix: StepIx, event: &Event) {
    close(l, ix, StepState::Compensated, event);
}
