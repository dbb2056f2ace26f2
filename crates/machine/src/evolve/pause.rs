//! While an execution is paused or escalated, the timeouts of its steps do not count. During the pause
//! each timeout is stored relative to the start of the pause.

use jiff::Timestamp;

use crate::event::Event;
use crate::ledger::Ledger;

/// The execution stops starting work.
pub(super) fn begin<L: Ledger>(l: &mut L, event: &Event) {
    l.head_mut().paused_since.get_or_insert(event.at);
}

/// A timeout that is set while the execution may be paused, as it is kept.
pub(super) fn keep<L: Ledger>(l: &L, due: Option<Timestamp>, event: &Event) -> Option<Timestamp> {
    let Some(since) = l.head().paused_since else {
        return due;
    };
    let passed = event.at.duration_since(since);
    due.map(|due| due.checked_sub(passed).unwrap_or(due))
}

/// The execution continues, or ends: what was left of each timeout is left again. Heartbeats and
/// sleeps are not put off: a worker has to be heard of and time passes all the same.
pub(super) fn release<L: Ledger>(l: &mut L, event: &Event) {
    let Some(since) = l.head_mut().paused_since.take() else {
        return;
    };
    let lost = event.at.duration_since(since);
    let put_off = |due: &mut Option<Timestamp>| {
        *due = due.map(|at| at.checked_add(lost).unwrap_or(at));
    };
    for ix in l.head().open.clone() {
        let run = l.run_mut(ix);
        put_off(&mut run.due);
        put_off(&mut run.queue_due);
    }
}
