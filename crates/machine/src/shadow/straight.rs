//! A log without the time between a failure and its repetition: as if each branch had gone on at
//! once from where the one before was left. A shadow runs straight through and needs no branch.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::{Event, Fact};

/// Whether what a branch does again has not begun on the log it goes on from, so that it may as well
/// have been opened at the very beginning.
pub(super) fn opens_early(fact: &Fact, begun: &BTreeSet<&str>) -> bool {
    match fact {
        Fact::BranchOpened { redo, .. } => redo
            .as_ref()
            .is_none_or(|redo| !begun.contains(&*redo.step)),
        _ => false,
    }
}

/// The log, its times moved together.
pub(super) fn straight(events: &[Event]) -> Vec<Event> {
    let mut begun = BTreeSet::new();
    let mut lost = SignedDuration::ZERO;
    let mut last: Option<Timestamp> = None;
    let mut found = Vec::with_capacity(events.len());
    for event in events {
        if let Some(step) = begins(&event.fact) {
            begun.insert(step);
        }
        if let (true, Some(last)) = (opens_early(&event.fact, &begun), last) {
            lost = lost.saturating_add(event.at.duration_since(last));
        }
        last = Some(event.at);
        let mut event = event.clone();
        event.at = earlier(event.at, lost);
        move_times(&mut event.fact, lost);
        found.push(event);
    }
    found
}

/// The step that a fact begins.
pub(super) fn begins(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::StepStarted { step, .. }
        | Fact::StepWaiting { step, .. }
        | Fact::StepSkipped { step, .. } => Some(step),
        _ => None,
    }
}

fn move_times(fact: &mut Fact, by: SignedDuration) {
    let optional = |at: &mut Option<Timestamp>| *at = at.map(|at| earlier(at, by));
    match fact {
        Fact::ExecutionStarted { deadline } => optional(deadline),
        Fact::StepStarted {
            due, heartbeat_due, ..
        }
        | Fact::CorrectionRequested {
            due, heartbeat_due, ..
        } => {
            optional(due);
            optional(heartbeat_due);
        }
        Fact::StepWaiting { due, .. } | Fact::StepCompensationStarted { due, .. } => optional(due),
        Fact::HeartbeatRecorded { heartbeat_due, .. } => optional(heartbeat_due),
        Fact::StepCompensationFailed { retry_at, .. } => optional(retry_at),
        Fact::RetryScheduled { at, .. } => *at = earlier(*at, by),
        _ => {}
    }
}

fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(at)
}
