//! Attempts of a step: opened, taken, completed, failed, retried, left out.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::{Fraction, Progress};

use super::change::{Refresh, change, refresh, settle_dependants};
use super::pause;
use crate::event::{Data, Event, PolicyDecision, SkipCause, Task, WaitFor};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{PolicyRequest, insert, note, remove};
use crate::{ExecutionState, Failure, StepState};

/// When an attempt fails that no worker takes, when it times out, and when its worker has to send
/// a heartbeat.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) queue_due: Option<Timestamp>,
    pub(super) due: Option<Timestamp>,
    pub(super) heartbeat_due: Option<Timestamp>,
}

pub(super) fn started<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    limits: Limits,
    event: &Event,
) {
    open(l, ix, StepState::Running, attempt, event);
    limit(l, ix, &limits);
    refresh(l, Refresh::Always);
}

fn limit<L: Ledger>(l: &mut L, ix: StepIx, limits: &Limits) {
    let run = l.run_mut(ix);
    (run.queue_due, run.due) = (limits.queue_due, limits.due);
    run.heartbeat_due = limits.heartbeat_due;
}

pub(super) fn waiting<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    wait: &WaitFor,
    due: Option<Timestamp>,
    event: &Event,
) {
    open(l, ix, StepState::Waiting, attempt, event);
    change(l, ix, |run| {
        run.wait = Some(wait.clone());
        // A sleep ends at its time; every other wait fails at it.
        let sleeps = *wait == WaitFor::Timer;
        (run.due, run.resume_at) = if sleeps { (None, due) } else { (due, None) };
    });
    refresh(l, Refresh::Always);
}

pub(super) fn corrected<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    feedback: &Arc<str>,
    limits: Limits,
    event: &Event,
) {
    remove(&mut l.head_mut().unsettled, ix);
    open(l, ix, StepState::Correcting, attempt, event);
    let run = l.run_mut(ix);
    run.corrections += 1;
    run.feedback = Some(Arc::clone(feedback));
    limit(l, ix, &limits);
    refresh(l, Refresh::Always);
}

fn open<L: Ledger>(l: &mut L, ix: StepIx, state: StepState, attempt: u32, event: &Event) {
    remove(&mut l.head_mut().ready, ix);
    let branch = l.head().branch;
    change(l, ix, |run| {
        (run.state, run.attempt, run.branch) = (state, attempt, branch);
        (run.queue_due, run.timed, run.lost) = (None, false, 0);
        (run.since, run.first_started) = (Some(event.at), run.first_started.or(Some(event.at)));
        (run.due, run.heartbeat_due, run.resume_at) = (None, None, None);
        (run.worker, run.wait, run.feedback, run.ended) = (None, None, None, None);
        run.progress = None;
    });
}

/// The worker that takes an attempt, and in whose name.
#[derive(Clone, Copy)]
pub(super) struct Hands<'e> {
    pub(super) worker: &'e Arc<str>,
    pub(super) identity: &'e Arc<str>,
}

/// A worker took the attempt: its own time counts from here. Whatever becomes of the attempt, the
/// worker has worked on the step.
pub(super) fn assigned<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    task: &Task,
    hands: Hands<'_>,
    (due, heartbeat_due): (Option<Timestamp>, Option<Timestamp>),
    event: &Event,
) {
    let due = pause::keep(l, due, event);
    change(l, ix, |run| {
        run.worker = Some(Arc::clone(hands.worker));
        run.identity = Some(Arc::clone(hands.identity)).filter(|name| !name.is_empty());
        run.hand_outs = run.hand_outs.saturating_add(1);
        run.handed_to = Some(Arc::clone(hands.worker));
        note(&mut run.worked_on_by, hands.worker);
        note(&mut run.worked_on_by, hands.identity);
        run.queue_due = None;
        if due.is_some() {
            (run.due, run.timed) = (due, true);
        }
        run.heartbeat_due = heartbeat_due.or(run.heartbeat_due);
        if !task.undo {
            run.state = StepState::Running;
        }
    });
}

/// The attempt waits for another worker; one that was asked to cancel is over instead.
pub(super) fn released<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    lost: bool,
    queue_due: Option<Timestamp>,
    event: &Event,
) {
    let queue_due = pause::keep(l, queue_due, event);
    let run = l.run_mut(ix);
    run.worker = None;
    (run.heartbeat_due, run.progress) = (None, None);
    run.lost = if lost { run.lost + 1 } else { 0 };
    run.effects_unknown |= lost && run.state != StepState::Compensating;
    if std::mem::take(&mut run.timed) {
        run.due = None;
    }
    run.queue_due = queue_due;
    if run.cancelling && !lost {
        close(l, ix, StepState::Cancelled, event);
    }
}

/// A policy rule decided about the attempt. Only a required approval changes the step: it waits.
pub(super) fn judged<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    rule: &Arc<str>,
    decision: &PolicyDecision,
    event: &Event,
) {
    match decision {
        PolicyDecision::Allow | PolicyDecision::Deny { .. } => {}
        PolicyDecision::RequireApproval { role, due } => {
            let lasts = due.map(|due| event.at.duration_until(due));
            let request = PolicyRequest {
                rule: Arc::clone(rule),
                role: Arc::clone(role),
                lasts: lasts.map(|lasts| lasts.try_into().unwrap_or_default()),
            };
            let due = pause::keep(l, *due, event);
            change(l, ix, |run| {
                (run.state, run.since) = (StepState::Waiting, Some(event.at));
                run.wait = Some(WaitFor::Approval(Arc::clone(role)));
                (run.due, run.queue_due, run.timed) = (due, None, false);
                (run.policy, run.ask_again) = (Some(request), None);
            });
            refresh(l, Refresh::Always);
        }
    }
}

pub(super) fn progressed<L: Ledger>(l: &mut L, ix: StepIx, fraction: Fraction, detail: &str) {
    let detail = detail.to_owned();
    l.run_mut(ix).progress = Some(Arc::new(Progress { fraction, detail }));
}

pub(super) fn completed<L: Ledger>(l: &mut L, ix: StepIx, output: &Data, event: &Event) {
    let before = l.head().last_completed;
    close(l, ix, StepState::Completed, event);
    let run = l.run_mut(ix);
    (run.output, run.completed_before) = (Some(Arc::clone(output)), before);
    (run.progress, run.effects_unknown) = (None, false);
    let head = l.head_mut();
    head.last_completed = Some(ix);
    if head.state == ExecutionState::Compensating {
        head.undo_next = Some(ix);
    }
    settled(l, ix);
}

pub(super) fn skipped<L: Ledger>(l: &mut L, ix: StepIx, cause: &SkipCause, event: &Event) {
    remove(&mut l.head_mut().unsettled, ix);
    close(l, ix, StepState::Skipped, event);
    l.run_mut(ix).skipped_by_failure = *cause == SkipCause::Failure;
    settled(l, ix);
}

/// A step is completed or skipped: its dependants wait for one step less.
fn settled<L: Ledger>(l: &mut L, ix: StepIx) {
    let head = l.head_mut();
    head.left = head.left.saturating_sub(1);
    settle_dependants(l, ix);
    refresh(l, Refresh::Always);
}

/// A step that was asked to cancel and fails is cancelled: nothing follows from its failure.
pub(super) fn failed<L: Ledger>(l: &mut L, ix: StepIx, failure: Failure, event: &Event) {
    let cancelled = l.run(ix).cancelling;
    let state = if cancelled {
        StepState::Cancelled
    } else {
        StepState::Failed
    };
    close(l, ix, state, event);
    let run = l.run_mut(ix);
    run.failures += 1;
    run.effects_unknown |= failure.effects_unknown;
    (run.failure, run.failed_at) = (Some(Arc::new(failure)), Some(event.at));
    run.failed_attempt = run.attempt;
    if cancelled {
        return;
    }
    let head = l.head_mut();
    head.last_failed = Some(ix);
    insert(&mut head.unsettled, ix);
    refresh(l, Refresh::WhileOpen);
}

pub(super) fn scheduled<L: Ledger>(l: &mut L, ix: StepIx, at: Timestamp, event: &Event) {
    remove(&mut l.head_mut().unsettled, ix);
    change(l, ix, |run| {
        (run.state, run.ended, run.resume_at) = (StepState::BackingOff, None, Some(at));
        run.since = Some(event.at);
    });
    refresh(l, Refresh::Always);
}

/// Ends what is under way in a step.
pub(super) fn close<L: Ledger>(l: &mut L, ix: StepIx, state: StepState, event: &Event) {
    remove(&mut l.head_mut().ready, ix);
    change(l, ix, |run| {
        (run.state, run.ended) = (state, Some(event.at));
        (run.due, run.heartbeat_due, run.resume_at, run.wait) = (None, None, None, None);
        (run.queue_due, run.timed, run.policy) = (None, false, None);
    });
}
