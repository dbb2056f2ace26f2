//! Attempts of a step: opened, taken, done, failed, repeated, left out.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::{Fraction, Progress};

use super::change::{Refresh, change, refresh, settle_dependants};
use crate::event::{Data, Event, SkipCause, Task, WaitFor};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{insert, remove};
use crate::{Failure, StepState};

/// When an attempt times out, and when its worker has to be heard of.
type Limits = (Option<Timestamp>, Option<Timestamp>);

pub(super) fn started<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    limits: Limits,
    event: &Event,
) {
    open(l, ix, StepState::Running, attempt, event);
    let run = l.run_mut(ix);
    (run.due, run.heartbeat_due) = limits;
    refresh(l, Refresh::Always);
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
    (run.due, run.heartbeat_due) = limits;
    refresh(l, Refresh::Always);
}

fn open<L: Ledger>(l: &mut L, ix: StepIx, state: StepState, attempt: u32, event: &Event) {
    remove(&mut l.head_mut().ready, ix);
    change(l, ix, |run| {
        (run.state, run.attempt) = (state, attempt);
        (run.since, run.first_started) = (Some(event.at), run.first_started.or(Some(event.at)));
        (run.due, run.heartbeat_due, run.resume_at) = (None, None, None);
        (run.worker, run.wait, run.feedback, run.ended) = (None, None, None, None);
        run.progress = None;
    });
}

pub(super) fn assigned<L: Ledger>(l: &mut L, ix: StepIx, task: &Task, worker: &Arc<str>) {
    change(l, ix, |run| {
        run.worker = Some(Arc::clone(worker));
        if !task.undo {
            run.state = StepState::Running;
        }
    });
}

pub(super) fn released<L: Ledger>(l: &mut L, ix: StepIx) {
    l.run_mut(ix).worker = None;
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
    run.progress = None;
    l.head_mut().last_completed = Some(ix);
    settled(l, ix);
}

pub(super) fn skipped<L: Ledger>(l: &mut L, ix: StepIx, cause: &SkipCause, event: &Event) {
    remove(&mut l.head_mut().unsettled, ix);
    close(l, ix, StepState::Skipped, event);
    l.run_mut(ix).skipped_by_failure = *cause == SkipCause::Failure;
    settled(l, ix);
}

/// A step is completed or skipped: its dependants come one step nearer.
fn settled<L: Ledger>(l: &mut L, ix: StepIx) {
    let head = l.head_mut();
    head.left = head.left.saturating_sub(1);
    settle_dependants(l, ix);
    refresh(l, Refresh::Always);
}

pub(super) fn failed<L: Ledger>(l: &mut L, ix: StepIx, failure: Failure, event: &Event) {
    close(l, ix, StepState::Failed, event);
    let run = l.run_mut(ix);
    run.failures += 1;
    (run.failure, run.failed_at) = (Some(Arc::new(failure)), Some(event.at));
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
    });
}
