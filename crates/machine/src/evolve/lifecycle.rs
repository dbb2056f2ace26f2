//! From creation to the slot, and from one branch of the log to another.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_model::{Reason, Usage};

use super::with;
use crate::ExecutionState;
use crate::event::{Data, Event, Redo};
use crate::ledger::Ledger;
use crate::state::{Reopened, note};

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

/// Time stands still between the last event that is shared with the parent and this one: whatever
/// is open has as long left as it had.
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
    put_off(&mut head.paused_since);
    for ix in head.open.clone() {
        let run = l.run_mut(ix);
        run.branch = branch;
        put_off(&mut run.due);
        put_off(&mut run.queue_due);
        put_off(&mut run.heartbeat_due);
        put_off(&mut run.resume_at);
    }
}

/// What the abandoned part of the log cost still counts.
pub(crate) fn spent<L: Ledger>(l: &mut L, whole: Usage, by_step: &BTreeMap<Arc<str>, Usage>) {
    let head = l.head_mut();
    head.spent = head.spent + whole;
    for (step, usage) in by_step {
        with(l, step, |l, ix| {
            let run = l.run_mut(ix);
            run.spent = run.spent + *usage;
        });
    }
}

/// The execution had ended; this branch opens it again.
pub(super) fn reopened<L: Ledger>(l: &mut L, by: &Arc<str>, from: ExecutionState, event: &Event) {
    let head = l.head_mut();
    let before = head.reopened.as_ref().map_or(0, |reopened| reopened.count);
    head.reopened = Some(Reopened {
        count: before + 1,
        by: Arc::clone(by),
        at: event.at,
        from,
    });
}

/// The events so far happened to another execution; time stood still since the last of them.
pub(super) fn forked<L: Ledger>(
    l: &mut L,
    from: &Arc<str>,
    before: Option<Timestamp>,
    event: &Event,
) {
    branched(l, 0, before, event);
    let head = l.head_mut();
    head.forked_from = Some(Arc::clone(from));
    head.reopened = None;
    (head.spent, head.usage) = (Usage::default(), Usage::default());
    let plan = Arc::clone(&head.plan);
    for (ix, _) in plan.steps() {
        let run = l.run(ix);
        if !(run.usage + run.spent).is_zero() {
            let run = l.run_mut(ix);
            (run.usage, run.spent) = (Usage::default(), Usage::default());
        }
    }
}

/// How long the execution may take from its start on.
pub(super) fn timeout<L: Ledger>(l: &mut L) -> Option<SignedDuration> {
    let head = l.head_mut();
    let (deadline, started) = (head.deadline?, head.times.started?);
    Some(deadline.duration_since(started))
}

/// The create time, the start time and the timeout count from here.
pub(super) fn begin_again<L: Ledger>(l: &mut L, timeout: Option<SignedDuration>, event: &Event) {
    let head = l.head_mut();
    head.times.created = Some(event.at);
    head.times.started = head.times.started.and(Some(event.at));
    if let Some(timeout) = timeout {
        head.deadline = event.at.checked_add(timeout).ok();
    }
}

/// A step runs again, with what a person gave it; that person may not decide about the execution.
pub(super) fn redone<L: Ledger>(l: &mut L, redo: &Redo, by: &Arc<str>) {
    note(&mut l.head_mut().redone_by, by);
    with(l, &redo.step, |l, ix| {
        let run = l.run_mut(ix);
        run.given.clone_from(&redo.input);
        run.advice = Some(Arc::clone(&redo.feedback)).filter(|text| !text.is_empty());
    });
}
