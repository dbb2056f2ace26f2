//! What people decide, and what is held for them.

use std::sync::Arc;

use stateway_model::{ErrorCategory, Reason};

use super::attempt::failed;
use super::change::{Refresh, change, refresh};
use super::with;
use crate::event::{Event, PauseCause, Resolution, WaitFor};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{Decision, insert, remove};
use crate::{ExecutionState, Failure, FailureCause, StepState};

pub(super) fn decided<L: Ledger>(l: &mut L, ix: StepIx, attempt: u32, grant: bool, by: &Arc<str>) {
    l.run_mut(ix).decision = Some(Decision {
        attempt,
        grant,
        by: Arc::clone(by),
    });
}

pub(super) fn rejected<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    by: &Arc<str>,
    comment: &str,
    event: &Event,
) {
    decided(l, ix, attempt, false, by);
    let message = format!("rejected by {by}: {comment}");
    let failure = Failure::of(FailureCause::Rejected, ErrorCategory::Governance, message);
    failed(l, ix, failure, event);
}

pub(super) fn expired<L: Ledger>(l: &mut L, ix: StepIx, event: &Event) {
    let category = ErrorCategory::Timeout;
    let failure = Failure::of(FailureCause::Expired, category, "nobody decided in time");
    failed(l, ix, failure, event);
}

pub(super) fn paused<L: Ledger>(l: &mut L, cause: &PauseCause) {
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Paused, Some(Reason::Paused));
    head.hold = Some(cause.clone());
    if let PauseCause::StepFailed { step } = cause {
        with(l, step, |l, ix| {
            remove(&mut l.head_mut().unsettled, ix);
            insert(&mut l.head_mut().parked, ix);
        });
    }
}

/// Steps for which the execution was held begin afresh.
pub(super) fn resumed<L: Ledger>(l: &mut L) {
    let head = l.head_mut();
    (head.state, head.reason, head.hold) = (ExecutionState::Running, None, None);
    for ix in std::mem::take(&mut head.parked) {
        begin_afresh(l, ix);
    }
    refresh(l, Refresh::WhileOpen);
}

fn begin_afresh<L: Ledger>(l: &mut L, ix: StepIx) {
    change(l, ix, |run| {
        (run.state, run.wait, run.ended) = (StepState::Pending, None, None);
        (run.failures, run.corrections) = (0, 0);
    });
    insert(&mut l.head_mut().ready, ix);
}

pub(super) fn escalated<L: Ledger>(l: &mut L, ix: StepIx, event: &Event) {
    remove(&mut l.head_mut().unsettled, ix);
    change(l, ix, |run| {
        (run.state, run.wait) = (StepState::Waiting, Some(WaitFor::Person));
        (run.since, run.ended) = (Some(event.at), None);
    });
    let head = l.head_mut();
    insert(&mut head.escalated, ix);
    (head.state, head.reason) = (ExecutionState::Escalated, Some(Reason::Escalated));
}

pub(super) fn resolved<L: Ledger>(l: &mut L, ix: StepIx, resolution: &Resolution) {
    remove(&mut l.head_mut().escalated, ix);
    match resolution {
        Resolution::Cancel => return,
        Resolution::Resume => {}
        Resolution::Reassign { role } => l.run_mut(ix).role = Some(Arc::clone(role)),
    }
    begin_afresh(l, ix);
    let head = l.head_mut();
    if head.escalated.is_empty() {
        (head.state, head.reason) = (ExecutionState::Running, None);
        refresh(l, Refresh::WhileOpen);
    }
}
