//! An obligation disappears only with an event that explains it, and an event explains only the
//! obligations of its own step: a timer that is dropped beside another event is found.

use stateway_machine::{Event, Fact, Obligation, PolicyDecision, StepTimer, Task, TaskKey, Timer};

use super::{Checked, ensure};

pub(super) fn nothing_is_lost(
    before: &[Obligation],
    after: &[Obligation],
    events: &[Event],
) -> Checked {
    let gone = before.iter().filter(|owed| !after.contains(owed));
    for gone in gone {
        let explained = events
            .iter()
            .any(|event| explains(&event.fact, gone, after));
        ensure(explained, || format!("{gone:?} disappeared"))?;
    }
    Ok(())
}

fn explains(fact: &Fact, gone: &Obligation, after: &[Obligation]) -> bool {
    let of_step = |step: &str| step_of(gone) == Some(step);
    match fact {
        // Everything is over.
        Fact::ExecutionCompleted { .. }
        | Fact::ExecutionRolledBack { .. }
        | Fact::ExecutionFailed { .. }
        | Fact::ExecutionCancelled { .. } => true,
        // Everything but what a worker or a child is busy with, which is to be cancelled.
        Fact::CompensationStarted { awaited, .. } | Fact::CancellationStarted { awaited, .. } => {
            let awaited = step_of(gone).is_some_and(|step| awaited.iter().any(|it| **it == *step));
            !awaited || continues(gone, after)
        }
        Fact::ExecutionStarted { .. } => *gone == Obligation::Slot,
        // A paused execution begins no attempt, and its timeouts stand still.
        Fact::ExecutionPaused { .. } | Fact::ExecutionEscalated { .. } => matches!(
            timer_of(gone),
            Some(StepTimer::Retry | StepTimer::Timeout | StepTimer::Queue | StepTimer::Expiry)
        ),
        // The same attempts under new keys, and their timers put off.
        Fact::BranchOpened { .. } | Fact::ExecutionForked { .. } => continues(gone, after),
        // The same attempt, with a worker; it does not wait for one any more.
        Fact::TaskAssigned { task, .. } => {
            let queues = matches!(
                timer_of(gone),
                Some(StepTimer::Queue | StepTimer::UndoQueue)
            );
            is_task(gone, task) && continues(gone, after) || of_step(&task.step) && queues
        }
        // The same attempt without a worker; the worker's time has ended.
        Fact::TaskReleased { task, .. } => {
            let worked = matches!(
                timer_of(gone),
                Some(StepTimer::Timeout | StepTimer::UndoTimeout | StepTimer::Heartbeat)
            );
            // An attempt that was to be cancelled is over when its worker gives it back.
            let over = matches!(gone, Obligation::Task(order) if order.cancel);
            is_task(gone, task) && (over || continues(gone, after)) || of_step(&task.step) && worked
        }
        Fact::HeartbeatRecorded { step, .. } => {
            let beats = |owed: &Obligation| timer_of(owed) == Some(StepTimer::Heartbeat);
            let still = |owed: &Obligation| step_of(owed) == Some(step) && beats(owed);
            of_step(step) && beats(gone) && after.iter().any(still)
        }
        Fact::StepStarted { step, .. } | Fact::StepWaiting { step, .. } => {
            of_step(step) && timer_of(gone) == Some(StepTimer::Retry)
        }
        Fact::StepCompensationStarted { step, .. } => {
            of_step(step) && timer_of(gone) == Some(StepTimer::UndoRetry)
        }
        // The attempt waits for a person instead of a worker.
        Fact::PolicyDecided {
            task,
            decision: PolicyDecision::RequireApproval { .. },
            ..
        } => of_step(&task.step),
        // The attempt waits for a worker again.
        Fact::ApprovalGranted { step, .. } => {
            of_step(step) && timer_of(gone) == Some(StepTimer::Expiry)
        }
        // The attempt or the wait is over.
        Fact::StepCompleted { step, .. }
        | Fact::AttemptFailed { step, .. }
        | Fact::StepSkipped { step, .. }
        | Fact::ApprovalRejected { step, .. }
        | Fact::ApprovalExpired { step, .. }
        | Fact::OutcomeUnknown { step, .. }
        | Fact::StepCompensated { step, .. }
        | Fact::StepCompensationFailed { step, .. } => of_step(step),
        Fact::ExecutionCreated { .. }
        | Fact::ExecutionQueued { .. }
        | Fact::ExecutionReopened { .. }
        | Fact::PolicyDecided { .. }
        | Fact::ProgressReported { .. }
        | Fact::UsageReported { .. }
        | Fact::RetryScheduled { .. }
        | Fact::CorrectionRequested { .. }
        | Fact::SignalReceived { .. }
        | Fact::SignalDelivered { .. }
        | Fact::ExecutionResumed { .. }
        | Fact::EscalationResolved { .. }
        | Fact::RevisionAdopted { .. }
        | Fact::ExecutionRecovered { .. } => false,
    }
}

/// Whether the same attempt is still open, or the same timer set for a later time.
fn continues(gone: &Obligation, after: &[Obligation]) -> bool {
    let task = task_of(gone);
    let again = |owed: &Obligation| match (owed, gone) {
        (
            Obligation::Timer { timer, due },
            Obligation::Timer {
                timer: before,
                due: earlier,
            },
        ) => timer == before && due >= earlier,
        _ => task.is_some() && task_of(owed) == task,
    };
    after.iter().any(again)
}

fn key_of(owed: &Obligation) -> Option<&TaskKey> {
    match owed {
        Obligation::Task(order) => Some(&order.key),
        Obligation::Child(order) => Some(&order.key),
        Obligation::Timer { .. } | Obligation::Slot => None,
    }
}

fn task_of(owed: &Obligation) -> Option<&Task> {
    key_of(owed).map(|key| &key.task)
}

fn is_task(owed: &Obligation, task: &Task) -> bool {
    matches!(owed, Obligation::Task(order) if order.key.task == *task)
}

fn timer_of(owed: &Obligation) -> Option<StepTimer> {
    match owed {
        Obligation::Timer {
            timer: Timer::Step { kind, .. },
            ..
        } => Some(*kind),
        _ => None,
    }
}

fn step_of(owed: &Obligation) -> Option<&str> {
    match owed {
        Obligation::Timer {
            timer: Timer::Step { step, .. },
            ..
        } => Some(step),
        other => key_of(other).map(|key| &*key.task.step),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;

    fn timer(step: &str, kind: StepTimer) -> Obligation {
        Obligation::Timer {
            timer: Timer::Step {
                step: step.into(),
                attempt: 1,
                kind,
            },
            due: Timestamp::UNIX_EPOCH,
        }
    }

    fn event(fact: Fact) -> Event {
        Event {
            sequence: 1,
            at: Timestamp::UNIX_EPOCH,
            causation: "c".into(),
            cause: None,
            actor: "".into(),
            correlation: "c".into(),
            fact,
        }
    }

    #[test]
    fn a_timer_dropped_beside_another_event_is_found() {
        let lost = [timer("a", StepTimer::Timeout)];
        let paused = event(Fact::ExecutionResumed { by: "bob".into() });
        let assigned = event(Fact::TaskAssigned {
            task: Task::of("a", 1),
            worker: Arc::from("w"),
            identity: "".into(),
            due: None,
            heartbeat_due: None,
        });
        for beside in [paused, assigned] {
            assert!(nothing_is_lost(&lost, &[], &[beside]).is_err());
        }
        let failed = event(Fact::StepCompleted {
            step: "a".into(),
            attempt: 1,
            output: Arc::default(),
        });
        assert!(nothing_is_lost(&lost, &[], &[failed]).is_ok());
    }
}
