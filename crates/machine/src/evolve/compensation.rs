//! Rolling back: the turn, each compensation, and starting over after a rollback.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::Reason;

use super::attempt::close;
use super::change::{change, count_unmet, is_settled};
use super::end::{cancelled, fault, give_up};
use crate::event::{Event, TurnCause};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::Ending;
use crate::{ExecutionState, Failure, FailureCause, StepState};

pub(super) fn turned<L: Ledger>(
    l: &mut L,
    cause: &TurnCause,
    message: &Arc<str>,
    awaited: &[Arc<str>],
    event: &Event,
) {
    give_up(l, awaited, event);
    let ending = match cause {
        TurnCause::StepFailed { step, reason: _ } => escalates(l, step),
        TurnCause::TimedOut => {
            fault(l, FailureCause::TimedOut, message, event);
            Ending::RolledBack
        }
        TurnCause::OutputTooLarge => {
            fault(l, FailureCause::InvalidOutput, message, event);
            Ending::RolledBack
        }
        TurnCause::Cancelled {
            by,
            comment,
            reason,
        } => {
            cancelled(l, by, comment, event);
            Ending::Cancelled {
                by: Arc::clone(by),
                comment: Arc::clone(comment),
                reason: *reason,
            }
        }
    };
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Compensating, Some(Reason::Compensating));
    head.undo_next = head.last_completed;
    head.ending = Some(ending);
}

/// What follows the rollback that the failure of a step began.
fn escalates<L: Ledger>(l: &L, step: &str) -> Ending {
    let plan = &l.head().plan;
    let escalated = plan.find(step).filter(|ix| plan.define(*ix).then.is_some());
    escalated.map_or(Ending::RolledBack, Ending::Escalated)
}

/// A step whose outcome is unknown takes its place in the order of completion, in case it has completed.
/// A step that failed or was skipped keeps its state until it is compensated.
pub(super) fn unknown<L: Ledger>(l: &mut L, ix: StepIx, compensate: bool, event: &Event) {
    let over = matches!(l.run(ix).state, StepState::Failed | StepState::Skipped);
    if !over {
        close(l, ix, StepState::Cancelled, event);
    }
    let run = l.run_mut(ix);
    (run.unknown, run.effects_unknown) = (true, false);
    if !compensate {
        return;
    }
    let before = l.head().last_completed;
    l.run_mut(ix).completed_before = before;
    let head = l.head_mut();
    head.last_completed = Some(ix);
    if head.state == ExecutionState::Compensating {
        head.undo_next = Some(ix);
    }
}

pub(super) fn started<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    (queue_due, due): (Option<Timestamp>, Option<Timestamp>),
    event: &Event,
) {
    let branch = l.head().branch;
    l.head_mut().undo_next = l.run(ix).completed_before;
    change(l, ix, |run| {
        (run.state, run.undo_attempt, run.branch) = (StepState::Compensating, attempt, branch);
        (run.since, run.due, run.resume_at, run.worker) = (Some(event.at), due, None, None);
        (run.queue_due, run.timed, run.lost) = (queue_due, false, 0);
        (run.cancelling, run.undoing) = (false, true);
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
    run.failed_attempt = run.undo_attempt;
    run.undo_failures += 1;
    match retry_at {
        None => close(l, ix, StepState::Failed, event),
        Some(_) => change(l, ix, |run| {
            (run.resume_at, run.due, run.worker) = (retry_at, None, None);
            (run.queue_due, run.timed, run.heartbeat_due) = (None, false, None);
        }),
    }
}

pub(super) fn done<L: Ledger>(l: &mut L, ix: StepIx, event: &Event) {
    close(l, ix, StepState::Compensated, event);
    l.run_mut(ix).compensated = true;
}

/// A person resumes after a rollback: what was compensated or given up runs again, and so does every
/// step after it, whose input may differ. Other completed steps stay completed.
pub(super) fn start_over<L: Ledger>(l: &mut L) {
    let plan = Arc::clone(&l.head().plan);
    let mut again: Vec<StepIx> = plan.steps().map(|(ix, _)| ix).collect();
    again.retain(|ix| {
        matches!(
            l.run(*ix).state,
            StepState::Compensated | StepState::Cancelled | StepState::Failed
        )
    });
    while let Some(ix) = again.pop() {
        reset(l, ix);
        let dependants = plan.step(ix).dependants.iter();
        again.extend(dependants.filter(|next| is_settled(l.run(**next))));
    }
    relink(l);
    count_unmet(l);
    let settled = plan.steps().filter(|(ix, _)| is_settled(l.run(*ix)));
    let left = plan.len() - settled.count();
    let ready = |ix: &StepIx| {
        let run = l.run(*ix);
        run.state == StepState::Pending && run.unmet == 0
    };
    let ready = plan.steps().map(|(ix, _)| ix).filter(ready).collect();
    let head = l.head_mut();
    head.left = u32::try_from(left).unwrap_or(u32::MAX);
    (head.ending, head.undo_next, head.last_failed) = (None, None, None);
    head.ready = ready;
}

fn reset<L: Ledger>(l: &mut L, ix: StepIx) {
    change(l, ix, |run| {
        (run.state, run.wait, run.ended) = (StepState::Pending, None, None);
        (run.failures, run.corrections, run.lost) = (0, 0, 0);
        (run.output, run.worker) = (None, None);
        (run.cancelling, run.skipped_by_failure) = (false, false);
        run.forget_rollback();
    });
}

/// The order of completion, without the steps that run again.
fn relink<L: Ledger>(l: &mut L) {
    let mut kept = Vec::new();
    let mut next = l.head().last_completed;
    // A broken log can make a ring of it; a whole one never has more links than steps.
    for _ in 0..l.head().plan.len() {
        let Some(ix) = next else { break };
        next = l.run(ix).completed_before;
        l.run_mut(ix).completed_before = None;
        if l.run(ix).state == StepState::Completed {
            kept.push(ix);
        }
    }
    for pair in kept.windows(2) {
        l.run_mut(pair[0]).completed_before = Some(pair[1]);
    }
    l.head_mut().last_completed = kept.first().copied();
}
