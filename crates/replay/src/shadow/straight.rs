//! A log without the time between a failure and its repetition: as if each branch had continued
//! immediately where the branch before was left. A shadow runs straight through and needs no branch.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use stateway_machine::{Event, Fact, PolicyDecision};

/// Whether the step that a branch runs again has not started on the log it continues from, so that
/// the branch may as well have been opened at the very beginning.
pub(super) fn opens_early(fact: &Fact, begun: &BTreeSet<&str>) -> bool {
    match fact {
        Fact::BranchOpened { redo, .. } | Fact::ExecutionForked { redo, .. } => redo
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
        if let Some(step) = event.fact.begins().map(|step| &**step) {
            begun.insert(step);
        }
        if let Some(last) = last
            && opens_early(&event.fact, &begun)
        {
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

fn move_times(fact: &mut Fact, by: SignedDuration) {
    let optional = |at: &mut Option<Timestamp>| *at = at.map(|at| earlier(at, by));
    match fact {
        Fact::ExecutionStarted { deadline } => optional(deadline),
        Fact::StepStarted {
            queue_due,
            due,
            heartbeat_due,
            ..
        }
        | Fact::CorrectionRequested {
            queue_due,
            due,
            heartbeat_due,
            ..
        } => [queue_due, due, heartbeat_due]
            .into_iter()
            .for_each(optional),
        Fact::TaskAssigned {
            due, heartbeat_due, ..
        } => [due, heartbeat_due].into_iter().for_each(optional),
        Fact::TaskReleased { queue_due, .. } | Fact::ApprovalGranted { queue_due, .. } => {
            optional(queue_due);
        }
        Fact::PolicyDecided {
            decision: PolicyDecision::RequireApproval { due, .. },
            ..
        }
        | Fact::StepWaiting { due, .. } => optional(due),
        Fact::StepCompensationStarted { queue_due, due, .. } => {
            [queue_due, due].into_iter().for_each(optional);
        }
        Fact::HeartbeatRecorded { heartbeat_due, .. } => optional(heartbeat_due),
        Fact::StepCompensationFailed { retry_at, .. } => optional(retry_at),
        Fact::RetryScheduled { at, .. } => *at = earlier(*at, by),
        _ => {}
    }
}

fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(at)
}
