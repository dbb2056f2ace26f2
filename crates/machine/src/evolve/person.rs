//! Decisions of people, and steps that wait for them.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::{ErrorCategory, Reason};

use super::attempt::failed;
use super::change::{Refresh, change, refresh};
use super::{compensation, pause, with};
use crate::event::{Event, PauseCause, Resolution, WaitFor};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{Decision, insert, note, remove};
use crate::{ExecutionState, Failure, FailureCause, StepState};

pub(super) fn decided<L: Ledger>(l: &mut L, ix: StepIx, attempt: u32, grant: bool, by: &Arc<str>) {
    l.run_mut(ix).decision = Some(Decision {
        attempt,
        grant,
        by: Arc::clone(by),
    });
}

/// An approval step is completed by the event that follows; an attempt that a policy stopped is
/// ready for a worker again.
pub(super) fn granted<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    by: &Arc<str>,
    queue_due: Option<Timestamp>,
    event: &Event,
) {
    decided(l, ix, attempt, true, by);
    let Some(request) = l.run_mut(ix).policy.take() else {
        return;
    };
    let queue_due = pause::keep(l, queue_due, event);
    change(l, ix, |run| {
        (run.state, run.wait) = (StepState::Running, None);
        (run.since, run.due, run.queue_due) = (Some(event.at), None, queue_due);
        run.approved_rules.push(request.rule);
    });
    refresh(l, Refresh::Always);
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

/// An approval that a policy rule asked for is asked for again before the step runs.
pub(super) fn expired<L: Ledger>(l: &mut L, ix: StepIx, event: &Event) {
    let request = l.run(ix).policy.clone();
    let category = ErrorCategory::Timeout;
    let failure = Failure::of(FailureCause::Expired, category, "nobody decided in time");
    failed(l, ix, failure, event);
    l.run_mut(ix).ask_again = request;
}

pub(super) fn paused<L: Ledger>(l: &mut L, cause: &PauseCause, event: &Event) {
    pause::begin(l, event);
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Paused, Some(Reason::Paused));
    head.pause_cause = Some(cause.clone());
    if let PauseCause::StepFailed { step } = cause {
        with(l, step, |l, ix| {
            remove(&mut l.head_mut().unsettled, ix);
            insert(&mut l.head_mut().parked, ix);
        });
    }
}

/// Steps for which the execution was paused start over.
pub(super) fn resumed<L: Ledger>(l: &mut L, event: &Event) {
    pause::release(l, event);
    let head = l.head_mut();
    (head.state, head.reason, head.pause_cause) = (ExecutionState::Running, None, None);
    for ix in std::mem::take(&mut head.parked) {
        start_over(l, ix);
    }
    refresh(l, Refresh::WhileOpen);
}

fn start_over<L: Ledger>(l: &mut L, ix: StepIx) {
    change(l, ix, |run| {
        (run.state, run.wait, run.ended) = (StepState::Pending, None, None);
        (run.failures, run.corrections, run.lost) = (0, 0, 0);
        run.forget_rollback();
    });
    insert(&mut l.head_mut().ready, ix);
}

pub(super) fn escalated<L: Ledger>(l: &mut L, ix: StepIx, role: &Arc<str>, event: &Event) {
    pause::begin(l, event);
    remove(&mut l.head_mut().unsettled, ix);
    let branch = l.head().branch;
    change(l, ix, |run| {
        (run.state, run.wait) = (StepState::Waiting, Some(WaitFor::Person));
        (run.since, run.ended, run.branch) = (Some(event.at), None, branch);
        run.escalation_role = Some(Arc::clone(role)).filter(|role| !role.is_empty());
        run.unresolved = true;
    });
    let head = l.head_mut();
    insert(&mut head.escalated, ix);
    head.rolled_back = head.state == ExecutionState::Compensating;
    (head.state, head.reason) = (ExecutionState::Escalated, Some(Reason::Escalated));
}

pub(super) fn resolved<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    resolution: &Resolution,
    by: &Arc<str>,
    event: &Event,
) {
    remove(&mut l.head_mut().escalated, ix);
    l.run_mut(ix).unresolved = false;
    match resolution {
        Resolution::Cancel => return,
        Resolution::Resume => let_exceed(l, ix),
        Resolution::Reassign { role } => {
            reassign(l, ix, role);
            note(&mut l.run_mut(ix).reassigned_by, by);
        }
    }
    start_over(l, ix);
    if !l.head().escalated.is_empty() {
        return;
    }
    if std::mem::take(&mut l.head_mut().rolled_back) {
        compensation::start_over(l);
    }
    pause::release(l, event);
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Running, None);
    refresh(l, Refresh::WhileOpen);
}

/// The role gets the part that the escalation is about: the decision, if the approval of a policy
/// rule expired, and the work otherwise.
/// A person resumes a step whose budget is used up: its next attempt may run.
fn let_exceed<L: Ledger>(l: &mut L, ix: StepIx) {
    let run = l.run_mut(ix);
    let cause = run.failure.as_ref().map(|failure| failure.cause);
    if cause == Some(FailureCause::BudgetExceeded) {
        run.over_budget = run.attempt + 1;
    }
}

fn reassign<L: Ledger>(l: &mut L, ix: StepIx, role: &Arc<str>) {
    let run = l.run_mut(ix);
    let failure = run.failure.as_ref();
    let expired = failure.is_some_and(|failure| failure.cause == FailureCause::Expired);
    match &mut run.ask_again {
        Some(request) if expired => request.role = Arc::clone(role),
        _ => run.role = Some(Arc::clone(role)),
    }
}
