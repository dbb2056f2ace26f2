//! What has to be done now: tasks handed out, children started, timers set, a slot given.
//!
//! Obligations follow from the state alone, so none can be lost: they can be derived from the log
//! again. Carrying one out twice is harmless, because each has a key.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_definition::{Reference, StepKind};

use crate::event::{Data, Event, Fact, Task, WaitFor};
use crate::plan::StepIx;
use crate::scope::input_of;
use crate::timer::Timer;
use crate::{ExecutionState, State, StepState};

/// One thing that has to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obligation {
    /// The execution needs a slot.
    Slot,
    /// An attempt has to be done by a worker, or is with one.
    Task(TaskOrder),
    /// A child execution has to run, or to be cancelled.
    Child(ChildOrder),
    /// A timer has to fire.
    Timer {
        /// Which one.
        timer: Timer,
        /// When.
        due: Timestamp,
    },
}

/// What makes an attempt one attempt, on every engine and after every crash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskKey {
    /// The execution.
    pub execution: Arc<str>,
    /// The branch of its log.
    pub branch: u32,
    /// Step, attempt, and whether it is a compensation.
    pub task: Task,
}

impl std::fmt::Display for TaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            execution,
            branch,
            task,
        } = self;
        let undo = if task.undo { "/undo" } else { "" };
        write!(
            f,
            "{execution}/{branch}/{}/{}{undo}",
            task.step, task.attempt
        )
    }
}

/// An attempt for a worker, or for the engine's own HTTP client: the step's kind in the
/// definition says which. Its input is worked out by [`task_input`] when it is handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOrder {
    /// Its key.
    pub key: TaskKey,
    /// The role a worker must have; empty: any worker.
    pub role: Arc<str>,
    /// The worker that has it.
    pub worker: Option<Arc<str>>,
    /// The identity under which that worker took it, if it has one.
    pub identity: Option<Arc<str>>,
    /// The number of its hand-out, counted for the step. It fences a worker that had the attempt
    /// before: that worker answers with another number.
    pub hand_out: u32,
    /// A validator's feedback on the attempt before, or a person's on the work before.
    pub feedback: Option<Arc<str>>,
    /// When it times out, once a worker has it.
    pub due: Option<Timestamp>,
    /// The execution ends: the worker is asked to stop, and its answer is awaited.
    pub cancel: bool,
    /// A compensation of a step whose outcome is unknown: the step may have completed or not.
    pub unknown: bool,
}

/// A child execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildOrder {
    /// Its key; the child's own id is derived from it.
    pub key: TaskKey,
    /// The definition to start.
    pub definition: Arc<str>,
    /// The parent ends: the child is cancelled, and its end is awaited.
    pub cancel: bool,
}

/// Everything that has to be done now, in the order of the definition.
#[must_use]
pub fn obligations(state: &State) -> Vec<Obligation> {
    let mut found = Vec::new();
    if state.state() == ExecutionState::Queued {
        found.push(Obligation::Slot);
    }
    found.extend(deadline(state));
    for ix in &state.head.open {
        of_step(state, *ix, &mut found);
    }
    found
}

/// What these events, the last ones applied to the state, added to the obligations. A host calls it
/// after each command; [`obligations`] is for when it loads an execution.
#[must_use]
pub fn obligations_of(state: &State, events: &[Event]) -> Vec<Obligation> {
    let mut found = Vec::new();
    let mut steps = Vec::new();
    for event in events {
        match &event.fact {
            Fact::ExecutionQueued { .. } => found.push(Obligation::Slot),
            Fact::ExecutionStarted { .. } => found.extend(deadline(state)),
            // What was not due while the execution was paused is due again; what is in a worker's
            // hands may have to be cancelled.
            Fact::ExecutionResumed { .. }
            | Fact::EscalationResolved { .. }
            | Fact::CompensationStarted { .. }
            | Fact::CancellationStarted { .. }
            | Fact::BranchOpened { .. }
            | Fact::ExecutionForked { .. }
            | Fact::ExecutionRecovered { .. }
            | Fact::RevisionAdopted { .. } => return obligations(state),
            // The workflow's timeout does not count during a rollback; it does after it.
            Fact::ExecutionEscalated { step, .. } => {
                found.extend(deadline(state));
                steps.extend(state.plan().find(step));
            }
            fact => steps.extend(fact.step().and_then(|step| state.plan().find(step))),
        }
    }
    steps.sort_unstable();
    steps.dedup();
    steps.retain(|ix| state.head.open.binary_search(ix).is_ok());
    steps
        .into_iter()
        .for_each(|ix| of_step(state, ix, &mut found));
    found
}

fn deadline(state: &State) -> Option<Obligation> {
    let counts = state.state().is_active() || state.state().is_held();
    let due = state.head.deadline.filter(|_| counts)?;
    Some(Obligation::Timer {
        timer: Timer::Execution,
        due,
    })
}

fn of_step(state: &State, ix: StepIx, found: &mut Vec<Obligation>) {
    let run = state.run(ix);
    let undo = run.state == StepState::Compensating;
    if run.has_open_attempt() {
        found.push(Obligation::Task(order(state, ix, undo)));
    }
    if let Some(WaitFor::Child(definition)) = &run.wait {
        found.push(Obligation::Child(ChildOrder {
            key: key(state, ix, false),
            definition: Arc::clone(definition),
            cancel: run.cancelling,
        }));
    }
    let step = state.plan().name(ix);
    let timers = run.set_timers(state.state());
    found.extend(timers.map(|(kind, due)| Obligation::Timer {
        timer: Timer::Step {
            step: Arc::clone(&step),
            attempt: run.timed_attempt(),
            kind,
        },
        due,
    }));
}

pub(crate) fn key(state: &State, ix: StepIx, undo: bool) -> TaskKey {
    let run = state.run(ix);
    let attempt = if undo { run.undo_attempt } else { run.attempt };
    let step = state.plan().name(ix);
    TaskKey {
        execution: Arc::clone(state.execution()),
        branch: state.branch(),
        task: Task {
            step,
            attempt,
            undo,
        },
    }
}

fn order(state: &State, ix: StepIx, undo: bool) -> TaskOrder {
    let (plan, run) = (state.plan(), state.run(ix));
    let role: Arc<str> = match (&plan.define(ix).kind, undo) {
        (_, true) => plan
            .compensation(ix)
            .map_or("", |undo| undo.agent.as_str())
            .into(),
        (StepKind::Task { agent, .. }, false) => {
            run.role.clone().unwrap_or_else(|| agent.as_str().into())
        }
        _ => "".into(),
    };
    TaskOrder {
        key: key(state, ix, undo),
        role,
        worker: run.worker.clone(),
        identity: run.identity.clone().filter(|_| run.worker.is_some()),
        hand_out: run.hand_outs,
        feedback: (run.feedback.clone().or_else(|| run.advice.clone())).filter(|_| !undo),
        due: state.limit(run.due),
        cancel: run.cancelling,
        unknown: undo && run.unknown,
    }
}

/// The order of one open attempt; none when it is not open.
#[must_use]
pub fn task_order(state: &State, task: &Task) -> Option<TaskOrder> {
    let ix = state.plan().find(&task.step)?;
    let open = state.run(ix).has_open_attempt();
    let order = order(state, ix, task.undo);
    (open && order.key.task == *task).then_some(order)
}

/// What a task is given: a step its input, a compensation the output of its step.
///
/// # Errors
/// The reference that has no value; a task whose attempt is open has none.
pub fn task_input(state: &State, task: &Task) -> Result<Data, Reference> {
    let Some(ix) = state.plan().find(&task.step) else {
        return Ok(Arc::clone(state.input()));
    };
    if task.undo {
        return Ok(state.run(ix).output.clone().unwrap_or_default());
    }
    input_of(state, ix)
}
