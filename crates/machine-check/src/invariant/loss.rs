//! What an engine owes disappears only with an event that says why, and each event explains only
//! what it is about: a timer that is dropped beside some other event is found.

use stateway_machine::{Event, Fact, Obligation, StepTimer, Task, TaskKey, Timer};

use super::{Checked, ensure};

pub(super) fn nothing_is_lost(
    before: &[Obligation],
    after: &[Obligation],
    events: &[Event],
) -> Checked {
    let gone = before.iter().filter(|owed| !after.contains(owed));
    for gone in gone {
        let told = events
            .iter()
            .any(|event| explains(&event.fact, gone, after));
        ensure(told, || format!("{gone:?} disappeared"))?;
    }
    Ok(())
}

fn explains(fact: &Fact, gone: &Obligation, after: &[Obligation]) -> bool {
    let of_step = |step: &str| step_of(gone) == Some(step);
    match fact {
        // Everything is over, or turns back.
        Fact::ExecutionCompleted { .. }
        | Fact::ExecutionRolledBack { .. }
        | Fact::ExecutionFailed { .. }
        | Fact::ExecutionCancelled { .. }
        | Fact::CompensationStarted { .. } => true,
        Fact::ExecutionStarted { .. } => *gone == Obligation::Slot,
        // What is held begins no further attempt.
        Fact::ExecutionPaused { .. } | Fact::ExecutionEscalated { .. } => {
            timer_of(gone) == Some(StepTimer::Retry)
        }
        // The same attempts under new keys, and their timers put off.
        Fact::BranchOpened { .. } => {
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
        // The same attempt with another worker, or none.
        Fact::TaskAssigned { task, .. } | Fact::TaskReleased { task } => {
            is_task(gone, task) && after.iter().any(|owed| key_of(owed) == key_of(gone))
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
        // The attempt or the wait is over.
        Fact::StepCompleted { step, .. }
        | Fact::AttemptFailed { step, .. }
        | Fact::StepSkipped { step, .. }
        | Fact::ApprovalRejected { step, .. }
        | Fact::ApprovalExpired { step, .. }
        | Fact::StepCompensated { step, .. }
        | Fact::StepCompensationFailed { step, .. } => of_step(step),
        Fact::ExecutionCreated { .. }
        | Fact::ExecutionQueued { .. }
        | Fact::ProgressReported { .. }
        | Fact::UsageReported { .. }
        | Fact::RetryScheduled { .. }
        | Fact::CorrectionRequested { .. }
        | Fact::SignalReceived { .. }
        | Fact::SignalDelivered { .. }
        | Fact::ApprovalGranted { .. }
        | Fact::ExecutionResumed { .. }
        | Fact::EscalationResolved { .. }
        | Fact::RevisionAdopted { .. }
        | Fact::ExecutionRecovered { .. } => false,
    }
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
            correlation: "c".into(),
            fact,
        }
    }

    /// Both were taken as explained once: something had happened, if not this.
    #[test]
    fn a_timer_dropped_beside_another_event_is_found() {
        let lost = [timer("a", StepTimer::Timeout)];
        let paused = event(Fact::ExecutionResumed { by: "bob".into() });
        let assigned = event(Fact::TaskAssigned {
            task: Task::of("a", 1),
            worker: Arc::from("w"),
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
