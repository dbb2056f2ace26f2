//! Nothing hangs: whatever is open can continue, and a task is handed out a limited number of times.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use stateway_definition::DEFAULT_MAX_HAND_OUTS;
use stateway_machine::{
    Awaited, Command, Data, Event, Fact, FailureCause, Obligation, Rejection, State, StepState,
    Task, Timer, Verb, awaited, decide, obligations,
};
use stateway_model::Usage;

use super::{Checked, ensure, failed_by};

/// How many workers in a row were lost with each attempt.
#[derive(Debug, Default)]
pub(super) struct Hands {
    lost: BTreeMap<Task, u32>,
}

impl Hands {
    pub(super) fn event(&mut self, before: &State, event: &Event) -> Checked {
        match &event.fact {
            Fact::TaskReleased { task, lost, .. } => {
                let count = self.lost.entry(task.clone()).or_default();
                *count = if *lost { *count + 1 } else { 0 };
            }
            Fact::CompensationStarted { awaited, .. }
            | Fact::CancellationStarted { awaited, .. } => {
                return awaits_what_is_in_hands(before, awaited);
            }
            fact if failed_by(fact) == Some(FailureCause::WorkerLost) => {
                return self.fails_after_enough(before, fact);
            }
            _ => {}
        }
        Ok(())
    }

    fn fails_after_enough(&self, before: &State, fact: &Fact) -> Checked {
        let task = match fact {
            Fact::AttemptFailed { step, attempt, .. } => Task::of(Arc::clone(step), *attempt),
            Fact::StepCompensationFailed { step, attempt, .. } => {
                Task::undo(Arc::clone(step), *attempt)
            }
            _ => return Ok(()),
        };
        let lost = self.lost.get(&task).copied().unwrap_or(0);
        ensure(lost == most_lost(before, &task.step), || {
            format!("{task:?} fails after {lost} lost workers")
        })
    }

    pub(super) fn batch(&self, owed: &[Obligation], after: &State) -> Checked {
        for owed in owed {
            let Obligation::Task(order) = owed else {
                continue;
            };
            let task = &order.key.task;
            let lost = self.lost.get(task).copied().unwrap_or(0);
            ensure(lost < most_lost(after, &task.step), || {
                format!("{task:?} is open after {lost} lost workers")
            })?;
            let ends = after.state().is_ending() && !task.undo;
            ensure(order.cancel == ends, || {
                format!(
                    "{task:?} of what is {}: cancel is {}",
                    after.state(),
                    order.cancel
                )
            })?;
            ensure(!order.cancel || order.worker.is_some(), || {
                format!("{task:?} is to be cancelled, and no worker has it")
            })?;
        }
        Ok(())
    }
}

fn most_lost(state: &State, step: &str) -> u32 {
    let define = state.plan().definition().step(step);
    let own = define.and_then(|step| step.max_hand_outs);
    own.unwrap_or(DEFAULT_MAX_HAND_OUTS)
}

/// The tasks of workers and the children are awaited, and nothing else is.
fn awaits_what_is_in_hands(before: &State, awaited: &[Arc<str>]) -> Checked {
    let owed = obligations(before);
    let busy: Vec<Arc<str>> = in_hands(&owed)
        .filter(|task| !task.undo)
        .map(|task| Arc::clone(&task.step))
        .collect();
    ensure(busy == awaited, || {
        format!("{awaited:?} is awaited where {busy:?} is in hands")
    })
}

/// The attempts that workers and children are busy with.
pub(super) fn in_hands(owed: &[Obligation]) -> impl Iterator<Item = &Task> {
    owed.iter().filter_map(|owed| match owed {
        Obligation::Task(order) => order.worker.as_ref().map(|_| &order.key.task),
        Obligation::Child(order) => Some(&order.key.task),
        Obligation::Slot | Obligation::Timer { .. } => None,
    })
}

/// Each timer that is set does something when it fires, each task can be taken or answered, and
/// each open step has one or the other, or someone outside to wait for.
///
/// # Errors
/// What cannot continue.
pub fn everything_open_can_continue(owed: &[Obligation], after: &State, now: Timestamp) -> Checked {
    let outside = awaited(after);
    if after.state().is_terminal() {
        return ensure(owed.is_empty() && outside.is_empty(), || {
            format!("{owed:?} {outside:?} is open of what has ended")
        });
    }
    let moves_on = owed.iter().any(moves_on) || !outside.is_empty();
    ensure(moves_on, || {
        format!("nothing moves on what is {}", after.state())
    })?;
    for owed in owed {
        has_effect(owed, after, now)?;
    }
    let steps = after.step_states().filter(|(_, state)| state.is_open());
    for (step, state) in steps {
        // The time of the next attempt is checked again when the execution is resumed.
        let paused = state == StepState::BackingOff && after.state().is_held();
        let obliged = owed.iter().any(|owed| step_of(owed) == Some(step));
        let asked = outside.iter().any(|awaited| asks(awaited, step));
        ensure(paused || obliged || asked, || {
            format!("nothing moves on {step}, which is {state}")
        })?;
    }
    Ok(())
}

/// Meeting an obligation is accepted and writes something.
fn has_effect(owed: &Obligation, state: &State, now: Timestamp) -> Checked {
    let effect = meet(owed, state, now);
    let holds = effect.as_ref().is_ok_and(|events| !events.is_empty());
    ensure(holds, || {
        format!("{owed:?} is owed and leads to {effect:?}")
    })
}

/// What follows when an obligation is met: a timer fires, a worker takes a task or is lost with it, a
/// child completes.
///
/// # Errors
/// Why the command is rejected.
pub fn meet(owed: &Obligation, state: &State, now: Timestamp) -> Result<Vec<Event>, Rejection> {
    let (verb, at) = match owed {
        Obligation::Slot => (Verb::GrantSlot, now),
        Obligation::Timer { timer, due } => (Verb::fire(timer.clone()), now.max(*due)),
        Obligation::Child(order) => {
            let Task { step, attempt, .. } = order.key.task.clone();
            let (outcome, usage) = (Ok(Data::new(Value::Null)), Usage::default());
            let verb = Verb::FinishChild {
                step,
                attempt,
                outcome,
                usage,
            };
            (verb, now)
        }
        Obligation::Task(order) if order.worker.is_some() => {
            let task = order.key.task.clone();
            (Verb::ReleaseTask { task, lost: true }, now)
        }
        Obligation::Task(order) => {
            let (task, worker) = (order.key.task.clone(), "w".into());
            let identity = "".into();
            let verb = Verb::AssignTask {
                task,
                worker,
                identity,
            };
            (verb, now)
        }
    };
    decide(state, Command::new("c", verb), at)
}

/// The workflow's own timeout ends an execution; it does not move it on.
fn moves_on(obligation: &Obligation) -> bool {
    !matches!(
        obligation,
        Obligation::Timer {
            timer: Timer::Execution,
            ..
        }
    )
}

fn step_of(owed: &Obligation) -> Option<&str> {
    match owed {
        Obligation::Task(order) => Some(&order.key.task.step),
        Obligation::Child(order) => Some(&order.key.task.step),
        Obligation::Timer {
            timer: Timer::Step { step, .. },
            ..
        } => Some(step),
        Obligation::Timer { .. } | Obligation::Slot => None,
    }
}

fn asks(awaited: &Awaited, of: &str) -> bool {
    match awaited {
        Awaited::Signal { step, .. }
        | Awaited::Approval { step, .. }
        | Awaited::Person { step, .. } => **step == *of,
        Awaited::Trigger | Awaited::Resume => false,
    }
}
