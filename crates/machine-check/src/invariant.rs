//! What must hold, whatever happens.

mod loss;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{
    Event, ExecutionState, Fact, Obligation, Plan, State, StepState, Task, Timer, Verb, VerbName,
    awaited, decode, encode, execution_may_move, obligations, obligations_of, replay, restore,
    snapshot, step_may_move, sub_state, usage,
};
use stateway_model::Usage;

/// Follows one execution and says which invariant breaks first.
#[derive(Debug, Default)]
pub struct Checker {
    attempts: BTreeMap<Arc<str>, u32>,
    completed: Vec<Arc<str>>,
    undone: Vec<Arc<str>>,
    received: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    delivered: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

type Checked = Result<(), String>;

fn ensure(holds: bool, broken: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(broken()) }
}

impl Checker {
    /// After one event.
    ///
    /// # Errors
    /// What is broken.
    pub fn event(&mut self, before: &State, event: &Event, after: &State, by: VerbName) -> Checked {
        moves_are_legal(before, event, after)?;
        ensure(!before.state().is_terminal(), || {
            "an event follows a terminal state".to_owned()
        })?;
        match &event.fact {
            Fact::StepStarted { step, attempt, .. }
            | Fact::StepWaiting { step, attempt, .. }
            | Fact::CorrectionRequested { step, attempt, .. } => {
                self.attempt_opens(before, step, *attempt)
            }
            Fact::StepCompleted { step, .. } => {
                self.completed.push(Arc::clone(step));
                Ok(())
            }
            Fact::StepCompensationStarted { step, attempt, .. } => {
                if *attempt == 1 {
                    self.undone.push(Arc::clone(step));
                }
                self.undo_is_in_order(before, step)
            }
            Fact::SignalReceived { name, id, .. } => {
                self.received
                    .entry(Arc::clone(name))
                    .or_default()
                    .push(Arc::clone(id));
                Ok(())
            }
            Fact::SignalDelivered { name, id, .. } => self.signal_is_next(name, id),
            Fact::ApprovalGranted { .. } => ensure(by == VerbName::DecideApproval, || {
                format!("an approval was given by {by}")
            }),
            _ => Ok(()),
        }
    }

    fn attempt_opens(&mut self, before: &State, step: &Arc<str>, attempt: u32) -> Checked {
        let state = before.step_state(step);
        let free = matches!(
            state,
            Some(StepState::Pending | StepState::BackingOff | StepState::Failed)
        );
        ensure(free, || {
            format!("an attempt of {step} opens while it is {state:?}")
        })?;
        dependencies_are_settled(before, step)?;
        let last = self.attempts.insert(Arc::clone(step), attempt).unwrap_or(0);
        ensure(attempt == last + 1, || {
            format!("attempt {attempt} of {step} follows {last}")
        })
    }

    /// Completed, not read-only, with a compensation, and every later one already undone.
    fn undo_is_in_order(&self, before: &State, step: &Arc<str>) -> Checked {
        ensure(has_undo(before, step), || {
            format!("{step} has nothing to undo")
        })?;
        let expected: Vec<&Arc<str>> = self
            .completed
            .iter()
            .rev()
            .filter(|name| has_undo(before, name))
            .collect();
        let actual: Vec<&Arc<str>> = self.undone.iter().collect();
        ensure(expected.starts_with(&actual), || {
            format!("undone {actual:?} where {expected:?} is the reverse order of completion")
        })
    }

    /// A rollback that ends as one has undone all that was to be undone.
    fn everything_is_undone(&self, live: &State) -> Checked {
        let left: Vec<&str> = live
            .step_states()
            .filter(|(step, state)| *state == StepState::Completed && has_undo(live, step))
            .map(|(step, _)| step)
            .collect();
        ensure(left.is_empty(), || {
            format!("rolled back without undoing {left:?}")
        })
    }

    fn signal_is_next(&mut self, name: &Arc<str>, id: &Arc<str>) -> Checked {
        let delivered = self.delivered.entry(Arc::clone(name)).or_default();
        delivered.push(Arc::clone(id));
        let received = self.received.get(name).cloned().unwrap_or_default();
        ensure(received.starts_with(delivered), || {
            format!("signals {delivered:?} were given where {received:?} came")
        })
    }

    /// After everything one command led to.
    ///
    /// # Errors
    /// What is broken.
    pub fn batch(&self, before: &[Obligation], events: &[Event], after: &State) -> Checked {
        let now = obligations(after);
        one_attempt_per_step(&now)?;
        loss::nothing_is_lost(before, &now, events)?;
        let added: Vec<_> = now.iter().filter(|o| !before.contains(o)).collect();
        let told = obligations_of(after, events);
        ensure(added.iter().all(|o| told.contains(o)), || {
            format!("obligations_of tells {told:?} of {added:?}")
        })?;
        ensure(told.iter().all(|o| now.contains(o)), || {
            format!("{told:?} is not in {now:?}")
        })?;
        let moves_on = now.iter().any(moves_on) || !awaited(after).is_empty();
        ensure(after.state().is_terminal() || moves_on, || {
            format!("nothing moves on what is {}", after.state())
        })
    }

    /// At the end.
    ///
    /// # Errors
    /// What is broken.
    pub fn finish(&self, plan: &Arc<Plan>, events: &[Event], live: &State) -> Checked {
        ensure(obligations(live).is_empty(), || {
            "a finished execution has obligations".into()
        })?;
        let written: Result<Vec<Event>, _> =
            events.iter().map(|event| decode(&encode(event))).collect();
        let written = written.map_err(|error| error.to_string())?;
        ensure(written == events, || {
            "an event is not what was written".into()
        })?;
        let replayed = replay(Arc::clone(plan), &written).map_err(|error| error.to_string())?;
        ensure(replayed == *live, || {
            "the replay differs from the live run".into()
        })?;
        let told = events.iter().filter_map(|event| match &event.fact {
            Fact::UsageReported { usage, .. } => Some(*usage),
            _ => None,
        });
        ensure(told.sum::<Usage>() == usage(live), || {
            "the usage is not the sum of what was told".into()
        })?;
        let ids: BTreeSet<_> = self.delivered.values().flatten().collect();
        let count: usize = self.delivered.values().map(Vec::len).sum();
        ensure(ids.len() == count, || "a signal was given twice".into())?;
        self.ending_is_explained(live)
    }

    fn ending_is_explained(&self, live: &State) -> Checked {
        let states: Vec<StepState> = live.step_states().map(|(_, state)| state).collect();
        let (_, reason) = sub_state(live);
        match live.state() {
            ExecutionState::Completed => {
                let done =
                    |state: &StepState| matches!(state, StepState::Completed | StepState::Skipped);
                ensure(states.iter().all(done), || {
                    format!("completed with {states:?}")
                })
            }
            ExecutionState::RolledBack => {
                self.everything_is_undone(live)?;
                let undone = states
                    .iter()
                    .filter(|s| **s == StepState::Compensated)
                    .count();
                ensure(undone == self.undone.len(), || {
                    format!("rolled back with {states:?}")
                })
            }
            ExecutionState::Failed | ExecutionState::Cancelled => ensure(reason.is_some(), || {
                "an execution ended without a reason".into()
            }),
            other => Err(format!("{other} is no end")),
        }
    }
}

fn has_undo(state: &State, step: &str) -> bool {
    let definition = state.plan().definition();
    let changes = definition.step(step).is_some_and(|step| !step.read_only);
    changes && definition.compensation_of(step).is_some()
}

/// A step begins only when everything it depends on is completed or skipped.
fn dependencies_are_settled(before: &State, step: &str) -> Checked {
    let definition = before.plan().definition();
    let dependencies = definition
        .step(step)
        .map_or(&[][..], |step| &step.depends_on);
    let open = dependencies.iter().find(|name| {
        let state = before.step_state(name);
        !matches!(state, Some(StepState::Completed | StepState::Skipped))
    });
    ensure(open.is_none(), || format!("{step} begins before {open:?}"))
}

/// A command about one attempt, timer or request is only ever taken while that very one is open.
///
/// # Errors
/// What was taken out of place.
pub fn is_in_place(before: &State, verb: &Verb, now: Timestamp) -> Checked {
    let due = obligations(before);
    let open = |wanted: &Task| {
        due.iter()
            .any(|o| matches!(o, Obligation::Task(order) if order.key.task == *wanted))
    };
    let fits = match verb {
        Verb::CompleteTask { task, .. }
        | Verb::FailTask { task, .. }
        | Verb::AssignTask { task, .. }
        | Verb::ReleaseTask { task } => open(task),
        Verb::RecordHeartbeat { step, attempt, .. } => open(&Task::of(Arc::clone(step), *attempt)),
        Verb::FinishChild { step, attempt, .. } => {
            let child = Task::of(Arc::clone(step), *attempt);
            due.iter()
                .any(|o| matches!(o, Obligation::Child(order) if order.key.task == child))
        }
        Verb::FireTimer { timer } => due.iter().any(
            |o| matches!(o, Obligation::Timer { timer: set, due } if set == timer && *due <= now),
        ),
        _ => true,
    };
    ensure(fits, || format!("out of place, and taken: {verb:?}"))
}

/// What is read from a snapshot is the state that was written.
///
/// # Errors
/// What differs.
pub fn snapshot_is_the_state(state: &State) -> Checked {
    let read = restore(Arc::clone(state.plan()), &snapshot(state));
    let read = read.map_err(|error| format!("the snapshot is refused: {error}"))?;
    ensure(read == *state, || {
        format!("the snapshot gives {read:?} for {state:?}")
    })
}

fn moves_are_legal(before: &State, event: &Event, after: &State) -> Checked {
    let (from, to) = (before.state(), after.state());
    ensure(execution_may_move(from, to), || {
        format!("{from} → {to} by {:?}", event.fact)
    })?;
    // Another revision may have other steps; it moves none of them.
    if matches!(event.fact, Fact::RevisionAdopted { .. }) {
        return Ok(());
    }
    for ((step, from), (_, to)) in before.step_states().zip(after.step_states()) {
        ensure(step_may_move(from, to), || {
            format!("{step}: {from} → {to} by {:?}", event.fact)
        })?;
    }
    Ok(())
}

/// The workflow's own timeout ends an execution; it does not move it on.
#[must_use]
pub fn moves_on(obligation: &Obligation) -> bool {
    !matches!(
        obligation,
        Obligation::Timer {
            timer: Timer::Execution,
            ..
        }
    )
}

fn one_attempt_per_step(obligations: &[Obligation]) -> Checked {
    let mut seen = BTreeSet::new();
    for obligation in obligations {
        if let Obligation::Task(order) = obligation {
            let step = &order.key.task.step;
            ensure(seen.insert(step), || format!("two open attempts of {step}"))?;
        }
    }
    Ok(())
}
