//! Which events take which tasks from their workers, and end which children.
//!
//! A task is withdrawn when it was open before the events and is not open after them, or no longer
//! belongs to the same worker. The rule compares the two states; the events give the reason.

use std::sync::Arc;

use stateway_model::{Reason, words};

use crate::event::WaitFor;
use crate::obligation::key;
use crate::plan::StepIx;
use crate::{Event, Fact, Failure, FailureCause, State, StepState, TaskKey};

words! {
    /// Why a task is withdrawn from its worker.
    pub enum Withdrawal as "reason for a withdrawal" {
        /// The execution continues, or has ended, without the task.
        NotNeeded = "NOT_NEEDED",
        /// The execution was cancelled and does not wait for the answer.
        Cancelled = "CANCELLED",
        /// The task or the execution took too long.
        TimedOut = "TIMED_OUT",
        /// The worker sent no heartbeat for too long: the task goes to another worker.
        WorkerLost = "WORKER_LOST",
    }
}

/// A task that is no longer needed, or that another worker has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawn {
    /// The task.
    pub key: TaskKey,
    /// The worker that had the task; none where the task waited for a worker.
    pub worker: Option<Arc<str>>,
    /// Why.
    pub why: Withdrawal,
}

/// The tasks and children that are open at one point of the log, as far as the next events may end
/// them. A host takes it before it applies the events.
#[derive(Debug, Clone, Default)]
pub struct OpenWork {
    tasks: Vec<OpenTask>,
    children: Vec<TaskKey>,
}

/// An open task, and the worker that has it.
type OpenTask = (TaskKey, Option<Arc<str>>);

impl OpenWork {
    /// The open work that these events may end. The events are the next ones after the state.
    #[must_use]
    pub fn before(state: &State, events: &[Event]) -> Self {
        let mut found = Self::default();
        if events.iter().any(|event| ends_everything(&event.fact)) {
            let open = state.head.open.iter();
            open.for_each(|ix| found.add(state, *ix));
            return found;
        }
        let named = events.iter().filter_map(|event| event.fact.step());
        let mut steps: Vec<StepIx> = named.filter_map(|step| state.plan().find(step)).collect();
        steps.sort_unstable();
        steps.dedup();
        steps.into_iter().for_each(|ix| found.add(state, ix));
        found
    }

    /// Everything that is open, where the log is left altogether.
    #[must_use]
    pub fn all(state: &State) -> Self {
        let mut found = Self::default();
        let open = state.head.open.iter();
        open.for_each(|ix| found.add(state, *ix));
        found
    }

    fn add(&mut self, state: &State, ix: StepIx) {
        let (task, child) = of_step(state, ix);
        self.tasks.extend(task);
        self.children.extend(child);
    }

    /// The tasks that are withdrawn, in the order of the definition; the state is the one after the
    /// events.
    #[must_use]
    pub fn withdrawn(&self, state: &State, events: &[Event]) -> Vec<Withdrawn> {
        let gone = self.tasks.iter().filter(|(key, worker)| {
            let now = state.plan().find(&key.task.step);
            match now.and_then(|ix| of_step(state, ix).0) {
                Some((open, with)) => open != *key || worker.is_some() && with != *worker,
                None => true,
            }
        });
        gone.map(|(key, worker)| Withdrawn {
            key: key.clone(),
            worker: worker.clone(),
            why: reason(&key.task.step, events),
        })
        .collect()
    }

    /// The open children whose step does not wait for them any more, without those that reported their own
    /// end. `state` is the state after the events.
    #[must_use]
    pub fn ended_children(&self, state: &State, events: &[Event]) -> Vec<TaskKey> {
        let gone = self.children.iter().filter(|key| {
            let now = state.plan().find(&key.task.step);
            let waits = now.and_then(|ix| of_step(state, ix).1).as_ref() == Some(key);
            let reports = |event: &Event| reports_end(&event.fact, &key.task.step);
            !waits && !events.iter().any(reports)
        });
        gone.cloned().collect()
    }

    /// Every task, as withdrawn for one reason.
    #[must_use]
    pub fn withdraw_all(self, why: Withdrawal) -> Vec<Withdrawn> {
        let all = self.tasks.into_iter();
        all.map(|(key, worker)| Withdrawn { key, worker, why })
            .collect()
    }

    /// Every child.
    #[must_use]
    pub fn children(&self) -> &[TaskKey] {
        &self.children
    }
}

/// The open task of a step with the worker that has it, and the child that the step waits for.
fn of_step(state: &State, ix: StepIx) -> (Option<OpenTask>, Option<TaskKey>) {
    let run = state.run(ix);
    let undo = run.state == StepState::Compensating;
    let task = run.has_open_attempt();
    let child = matches!(run.wait, Some(WaitFor::Child(_)));
    (
        task.then(|| (key(state, ix, undo), run.worker.clone())),
        child.then(|| key(state, ix, false)),
    )
}

/// Whether the fact follows from the end of the child that does the step.
fn reports_end(fact: &Fact, of: &Arc<str>) -> bool {
    match fact {
        Fact::StepCompleted { step, .. } => step == of,
        Fact::AttemptFailed { step, failure, .. } => {
            let reported = matches!(
                failure.cause,
                FailureCause::Reported | FailureCause::InvalidOutput
            );
            step == of && reported
        }
        _ => false,
    }
}

/// Whether tasks that the fact does not name may be withdrawn after it.
const fn ends_everything(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::CompensationStarted { .. }
            | Fact::CancellationStarted { .. }
            | Fact::ExecutionCompleted { .. }
            | Fact::ExecutionRolledBack { .. }
            | Fact::ExecutionFailed { .. }
            | Fact::ExecutionCancelled { .. }
            | Fact::RevisionAdopted { .. }
            | Fact::BranchOpened { .. }
            | Fact::ExecutionForked { .. }
            | Fact::ExecutionRecovered { .. }
    )
}

/// The reason by the first event that ends the task of the step, or by the first that ends everything.
fn reason(step: &Arc<str>, events: &[Event]) -> Withdrawal {
    let facts = || events.iter().map(|event| &event.fact);
    let own = facts().find(|fact| ends_task(fact) && fact.step() == Some(step));
    let found = own.or_else(|| facts().find(|fact| ends_everything(fact)));
    found.map_or(Withdrawal::NotNeeded, after)
}

const fn ends_task(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::AttemptFailed { .. }
            | Fact::StepCompleted { .. }
            | Fact::StepCompensated { .. }
            | Fact::StepCompensationFailed { .. }
            | Fact::TaskReleased { .. }
            | Fact::OutcomeUnknown { .. }
    )
}

fn after(fact: &Fact) -> Withdrawal {
    match fact {
        Fact::AttemptFailed { failure, .. } | Fact::StepCompensationFailed { failure, .. } => {
            after_failure(failure)
        }
        // A worker that is lost gives its task back before its outcome counts as unknown.
        Fact::OutcomeUnknown { .. } => Withdrawal::TimedOut,
        Fact::TaskReleased { lost: true, .. } => Withdrawal::WorkerLost,
        Fact::ExecutionFailed {
            step: None,
            reason: Reason::TimedOut,
            ..
        } => Withdrawal::TimedOut,
        Fact::CancellationStarted { .. }
        | Fact::CompensationStarted { .. }
        | Fact::ExecutionCancelled { .. } => Withdrawal::Cancelled,
        _ => Withdrawal::NotNeeded,
    }
}

fn after_failure(failure: &Failure) -> Withdrawal {
    if failure.cause == FailureCause::TimedOut {
        Withdrawal::TimedOut
    } else {
        Withdrawal::NotNeeded
    }
}
