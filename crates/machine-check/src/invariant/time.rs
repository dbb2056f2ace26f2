//! When timeouts are due: a step's time stands still while its execution is paused or escalated, and
//! between the last event of a branch and the next branch.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_definition::Step;
use stateway_machine::{
    Event, Fact, FailureCause, Obligation, PolicyDecision, State, StepTimer, Task, Timer,
    obligations,
};

use super::{Checked, ensure, failed_by};

/// The time of the steps.
#[derive(Debug, Default)]
pub(super) struct Clock {
    last: Option<Timestamp>,
    /// For how long the steps' time has stood still so far.
    still: SignedDuration,
    /// When each limit is due, if time does not stand still again.
    due: BTreeMap<(Task, Limit), Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    /// In the hands of a worker, or waiting for something outside.
    Attempt,
    /// Waiting for a worker.
    Queue,
}

impl Clock {
    pub(super) fn event(&mut self, before: &State, event: &Event) -> Checked {
        let branches = matches!(
            event.fact,
            Fact::BranchOpened { .. } | Fact::ExecutionForked { .. }
        );
        if let Some(last) = self.last.replace(event.at)
            && (branches || before.state().is_held())
        {
            self.still += event.at.duration_since(last);
        }
        self.set(event);
        counts_from_the_hand_out(before, event)?;
        stands_still(before, event)
    }

    fn set(&mut self, event: &Event) {
        match &event.fact {
            Fact::StepStarted {
                step,
                attempt,
                queue_due,
                ..
            }
            | Fact::CorrectionRequested {
                step,
                attempt,
                queue_due,
                ..
            } => self.limit(
                Task::of(Arc::clone(step), *attempt),
                Limit::Queue,
                *queue_due,
            ),
            Fact::StepWaiting {
                step, attempt, due, ..
            } => self.limit(Task::of(Arc::clone(step), *attempt), Limit::Attempt, *due),
            Fact::StepCompensationStarted {
                step,
                attempt,
                queue_due,
                ..
            } => self.limit(
                Task::undo(Arc::clone(step), *attempt),
                Limit::Queue,
                *queue_due,
            ),
            Fact::TaskAssigned { task, due, .. } => self.limit(task.clone(), Limit::Attempt, *due),
            Fact::TaskReleased {
                task, queue_due, ..
            } => self.limit(task.clone(), Limit::Queue, *queue_due),
            Fact::PolicyDecided {
                task,
                decision: PolicyDecision::RequireApproval { due, .. },
                ..
            } => self.limit(task.clone(), Limit::Attempt, *due),
            Fact::ApprovalGranted {
                step,
                attempt,
                queue_due,
                ..
            } => self.limit(
                Task::of(Arc::clone(step), *attempt),
                Limit::Queue,
                *queue_due,
            ),
            _ => {}
        }
    }

    /// Whatever limit an attempt had before has ended.
    fn limit(&mut self, task: Task, limit: Limit, due: Option<Timestamp>) {
        for limit in [Limit::Attempt, Limit::Queue] {
            self.due.remove(&(task.clone(), limit));
        }
        if let Some(due) = due {
            let due = due.checked_sub(self.still).unwrap_or(due);
            self.due.insert((task, limit), due);
        }
    }

    /// Every timeout that is set is due when the steps' time says so.
    pub(super) fn batch(&self, owed: &[Obligation], after: &State) -> Checked {
        for owed in owed {
            let Obligation::Timer { timer, due } = owed else {
                continue;
            };
            let Some(key) = limit_of(timer) else { continue };
            let expected = self.due.get(&key).copied();
            let actual = due.checked_sub(self.still).unwrap_or(*due);
            ensure(expected == Some(actual) && !after.state().is_held(), || {
                format!(
                    "{timer:?} is due at {due}, {:?} late",
                    expected.map(|at| at - actual)
                )
            })?;
        }
        Ok(())
    }
}

fn limit_of(timer: &Timer) -> Option<(Task, Limit)> {
    let Timer::Step {
        step,
        attempt,
        kind,
    } = timer
    else {
        return None;
    };
    let step = Arc::clone(step);
    Some(match kind {
        StepTimer::Timeout | StepTimer::Expiry => (Task::of(step, *attempt), Limit::Attempt),
        StepTimer::Queue => (Task::of(step, *attempt), Limit::Queue),
        StepTimer::UndoTimeout => (Task::undo(step, *attempt), Limit::Attempt),
        StepTimer::UndoQueue => (Task::undo(step, *attempt), Limit::Queue),
        StepTimer::Heartbeat | StepTimer::Retry | StepTimer::Sleep | StepTimer::UndoRetry => {
            return None;
        }
    })
}

/// A worker has the whole timeout from the moment it takes the task, and a task that no worker has
/// the whole queue timeout.
fn counts_from_the_hand_out(before: &State, event: &Event) -> Checked {
    let (task, found, limit) = match &event.fact {
        Fact::TaskAssigned { task, due, .. } => {
            let limit: fn(&Step) -> _ = |step| step.timeout;
            let compensation = before.plan().undo_of(&task.step);
            let define = before.plan().step_definition(&task.step);
            let limit = if task.undo {
                compensation.and_then(|compensation| compensation.timeout)
            } else {
                define.and_then(limit)
            };
            (task, due, limit)
        }
        _ => return Ok(()),
    };
    let expected = limit.map(|limit| stateway_machine::later(event.at, limit));
    ensure(*found == expected, || {
        format!("{task:?} is due at {found:?}, not at {expected:?}")
    })
}

/// No timeout fires while the execution is paused or escalated, no attempt times out that no worker
/// has, and none fails for want of a worker that has one.
fn stands_still(before: &State, event: &Event) -> Checked {
    let expired = matches!(event.fact, Fact::ApprovalExpired { .. });
    let cause = failed_by(&event.fact);
    let timed_out = cause == Some(FailureCause::TimedOut);
    let queued = cause == Some(FailureCause::QueueTimedOut);
    if !(expired || timed_out || queued) {
        return Ok(());
    }
    ensure(!before.state().is_held(), || {
        format!("{:?} while it is {}", event.fact, before.state())
    })?;
    let step = event.fact.step().map(|step| &**step);
    let owed = obligations(before);
    let order = owed.iter().find_map(|owed| match owed {
        Obligation::Task(order) if Some(&*order.key.task.step) == step => Some(order),
        _ => None,
    });
    let taken = order.map(|order| order.worker.is_some());
    let fits = if queued {
        taken == Some(false)
    } else {
        taken != Some(false)
    };
    ensure(fits, || format!("{:?} with worker: {taken:?}", event.fact))
}
