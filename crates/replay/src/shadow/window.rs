//! Which of the several timers of an attempt is meant: an attempt waits for a worker, is with one,
//! waits for another, and has a timer of its own each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use stateway_machine::{Fact, PolicyDecision, State, StepTimer, Task, Timer};

/// One timer of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Window {
    timer: Timer,
    hand_outs: u32,
}

/// How often each attempt has changed hands so far.
#[derive(Debug, Default)]
pub(super) struct Windows(BTreeMap<Task, u32>);

impl Windows {
    /// Counts a fact that gives an attempt other timers.
    pub(super) fn count(&mut self, fact: &Fact) {
        let task = match fact {
            Fact::TaskAssigned { task, .. } | Fact::TaskReleased { task, .. } => task.clone(),
            Fact::PolicyDecided {
                task,
                decision: PolicyDecision::RequireApproval { .. },
                ..
            } => task.clone(),
            Fact::ApprovalGranted { step, attempt, .. } => Task::of(Arc::clone(step), *attempt),
            _ => return,
        };
        *self.0.entry(task).or_default() += 1;
    }

    /// The timer as it is set now.
    pub(super) fn of(&self, timer: Timer) -> Window {
        let task = limited(&timer);
        let hand_outs = task.and_then(|task| self.0.get(&task)).copied();
        Window {
            timer,
            hand_outs: hand_outs.unwrap_or(0),
        }
    }
}

/// How long after it was set a timer is due: since the attempt was opened, since the step began to
/// wait for its time, or since the execution started.
pub(super) fn lasts(
    state: &State,
    opened: &BTreeMap<Task, Timestamp>,
    timer: &Timer,
    due: Timestamp,
) -> Option<SignedDuration> {
    let since = match (timer, limited(timer)) {
        (_, Some(task)) => opened.get(&task).copied(),
        (Timer::Step { step, .. }, None) => state.step(step)?.since,
        (Timer::Execution, None) => state.times().started,
    };
    since.map(|since| due.duration_since(since))
}

/// The attempt that a timer limits; none for a timer that starts something.
pub(super) fn limited(timer: &Timer) -> Option<Task> {
    let Timer::Step {
        step,
        attempt,
        kind,
    } = timer
    else {
        return None;
    };
    match kind {
        StepTimer::Timeout | StepTimer::Queue | StepTimer::Expiry | StepTimer::Heartbeat => {
            Some(Task::of(Arc::clone(step), *attempt))
        }
        StepTimer::UndoTimeout | StepTimer::UndoQueue => {
            Some(Task::undo(Arc::clone(step), *attempt))
        }
        StepTimer::Retry | StepTimer::Sleep | StepTimer::UndoRetry => None,
    }
}
