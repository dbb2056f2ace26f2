//! The end of an execution, and the turn towards it: what no worker has is given up, what a worker
//! or a child is busy with is asked to cancel and awaited.

use std::sync::Arc;

use stateway_model::Reason;

use super::change::change;
use super::pause;
use crate::event::Data;
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{Cancellation, Ending, Fault};
use crate::{Event, ExecutionState, FailureCause, StepState};

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
    give_up(l, &[], event);
    let head = l.head_mut();
    (head.state, head.reason) = (state, reason);
    head.times.ended = Some(event.at);
    head.undo_next = None;
}

/// The execution is cancelled without compensation once the awaited steps have ended.
pub(super) fn cancelling<L: Ledger>(
    l: &mut L,
    (by, reason, comment): (&Arc<str>, Reason, &Arc<str>),
    awaited: &[Arc<str>],
    event: &Event,
) {
    give_up(l, awaited, event);
    cancelled(l, by, comment, event);
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Cancelling, Some(Reason::Cancelling));
    head.ending = Some(Ending::Cancelled {
        by: Arc::clone(by),
        comment: Arc::clone(comment),
        reason: Some(reason),
    });
}

/// Notes who cancelled the execution; the first one counts.
pub(super) fn cancelled<L: Ledger>(l: &mut L, by: &Arc<str>, comment: &Arc<str>, event: &Event) {
    l.head_mut().cancelled.get_or_insert_with(|| Cancellation {
        by: Arc::clone(by),
        comment: Arc::clone(comment),
        at: event.at,
    });
}

/// Notes what went wrong with the execution as a whole.
pub(super) fn fault<L: Ledger>(l: &mut L, cause: FailureCause, message: &Arc<str>, event: &Event) {
    let message = if message.is_empty() {
        "the execution took longer than its timeout".into()
    } else {
        Arc::clone(message)
    };
    l.head_mut().fault = Some(Fault {
        cause,
        message,
        at: event.at,
    });
}

/// Cancels the open steps but those awaited; nothing is started any more.
pub(super) fn give_up<L: Ledger>(l: &mut L, awaited: &[Arc<str>], event: &Event) {
    pause::release(l, event);
    let plan = Arc::clone(&l.head().plan);
    for ix in l.head().open.clone() {
        if awaited.contains(&plan.step(ix).name) {
            l.run_mut(ix).cancelling = true;
        } else {
            abandon(l, ix, event);
        }
    }
    let head = l.head_mut();
    head.ready.clear();
    head.unsettled.clear();
    head.parked.clear();
    head.escalated.clear();
    head.pause_cause = None;
}

fn abandon<L: Ledger>(l: &mut L, ix: StepIx, event: &Event) {
    change(l, ix, |run| {
        let state = if run.compensated {
            StepState::Compensated
        } else {
            StepState::Cancelled
        };
        (run.state, run.ended) = (state, Some(event.at));
        (run.due, run.heartbeat_due, run.resume_at, run.wait) = (None, None, None, None);
        (run.queue_due, run.timed, run.policy) = (None, false, None);
    });
}
