//! The invariants of the machine.
//!
//! Each module checks one promise of the machine against its own bookkeeping, which is made from
//! the events alone: `duty` who may decide, `loss` that no work is forgotten, `live` that whatever
//! is open can continue, `rollback` that everything is compensated in order, `time` when timeouts
//! are due.

mod duty;
mod live;
mod loss;
mod place;
mod rollback;
mod time;

pub use live::{everything_open_can_continue, meet};
pub use place::is_in_place;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{
    Event, ExecutionState, Fact, FailureCause, Obligation, Plan, State, StepState, Verb, decode,
    encode, evolve, obligations, obligations_of, replay, restore, snapshot, sub_state, usage,
};
use stateway_model::Usage;
use stateway_replay::{execution_may_move, step_may_move};

use duty::Duty;
use live::Hands;
use rollback::Rollback;
use time::Clock;

/// Follows one execution and says which invariant breaks first.
#[derive(Debug, Default)]
pub struct Checker {
    attempts: BTreeMap<Arc<str>, u32>,
    received: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    delivered: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    usage: Usage,
    clock: Clock,
    duty: Duty,
    hands: Hands,
    rollback: Rollback,
}

type Checked = Result<(), String>;

fn ensure(holds: bool, broken: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(broken()) }
}

impl Checker {
    /// A checker that has seen these events and found nothing wrong.
    #[must_use]
    pub fn of(plan: &Arc<Plan>, events: &[Event]) -> Self {
        let mut checker = Self::default();
        let mut state = State::new(Arc::clone(plan));
        for event in events {
            let next = evolve(state.clone(), event);
            let _ = checker.event(&state, event, &next);
            state = next;
        }
        checker
    }

    /// After one event.
    ///
    /// # Errors
    /// What is broken.
    pub fn event(&mut self, before: &State, event: &Event, after: &State) -> Checked {
        let attempts = self.attempt(before, event);
        let signals = self.signal(event);
        let clock = self.clock.event(before, event);
        let duty = self.duty.event(before, event);
        let hands = self.hands.event(before, event);
        let rollback = self.rollback.event(before, event, after);
        self.cost(event);
        moves_are_legal(before, event, after)?;
        ensure(!before.state().is_terminal(), || {
            "an event follows a terminal state".to_owned()
        })?;
        let cause = event
            .cause
            .is_none_or(|cause| (1..event.sequence).contains(&cause));
        ensure(cause, || {
            format!("event {} is caused by {:?}", event.sequence, event.cause)
        })?;
        attempts
            .and(signals)
            .and(clock)
            .and(duty)
            .and(hands)
            .and(rollback)
    }

    fn attempt(&mut self, before: &State, event: &Event) -> Checked {
        match &event.fact {
            Fact::StepStarted { step, attempt, .. }
            | Fact::StepWaiting { step, attempt, .. }
            | Fact::CorrectionRequested { step, attempt, .. } => {
                let last = self
                    .attempts
                    .insert(Arc::clone(step), *attempt)
                    .unwrap_or(0);
                ensure(*attempt == last + 1, || {
                    format!("attempt {attempt} of {step} follows {last}")
                })?;
                attempt_may_open(before, step)
            }
            _ => Ok(()),
        }
    }

    fn signal(&mut self, event: &Event) -> Checked {
        match &event.fact {
            Fact::SignalReceived { name, id, .. } => {
                let received = self.received.entry(Arc::clone(name)).or_default();
                received.push(Arc::clone(id));
                Ok(())
            }
            Fact::SignalDelivered { name, id, .. } => {
                let delivered = self.delivered.entry(Arc::clone(name)).or_default();
                delivered.push(Arc::clone(id));
                let received = self.received.get(name).cloned().unwrap_or_default();
                ensure(received.starts_with(delivered), || {
                    format!("signals {delivered:?} were given where {received:?} came")
                })
            }
            _ => Ok(()),
        }
    }

    fn cost(&mut self, event: &Event) {
        match &event.fact {
            Fact::UsageReported { usage, .. } => self.usage = self.usage + *usage,
            Fact::BranchOpened { spent, .. } => self.usage = self.usage + *spent,
            Fact::ExecutionForked { .. } => self.usage = Usage::default(),
            _ => {}
        }
    }

    /// After everything one command led to.
    ///
    /// # Errors
    /// What is broken.
    pub fn batch(
        &self,
        before: &[Obligation],
        verb: &Verb,
        events: &[Event],
        after: &State,
        now: Timestamp,
    ) -> Checked {
        place::is_attributed(verb, events)?;
        let owed = obligations(after);
        one_attempt_per_step(&owed)?;
        self.clock.batch(&owed, after)?;
        self.hands.batch(&owed, after)?;
        live::everything_open_can_continue(&owed, after, now)?;
        let (before, owed) = (without_limits(before), without_limits(&owed));
        loss::nothing_is_lost(&before, &owed, events)?;
        let added: Vec<_> = owed.iter().filter(|o| !before.contains(o)).collect();
        let reported = without_limits(&obligations_of(after, events));
        ensure(added.iter().all(|o| reported.contains(o)), || {
            format!("obligations_of reports {reported:?} of {added:?}")
        })?;
        ensure(reported.iter().all(|o| owed.contains(o)), || {
            format!("{reported:?} is not in {owed:?}")
        })?;
        ensure(self.usage == usage(after), || {
            format!(
                "the usage is {:?}, {:?} was reported",
                usage(after),
                self.usage
            )
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
        let ids: BTreeSet<_> = self.delivered.values().flatten().collect();
        let count: usize = self.delivered.values().map(Vec::len).sum();
        ensure(ids.len() == count, || "a signal was given twice".into())?;
        self.rollback.finish(live)?;
        ending_is_explained(live)
    }
}

fn ending_is_explained(live: &State) -> Checked {
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
        ExecutionState::RolledBack | ExecutionState::Failed | ExecutionState::Cancelled => {
            ensure(reason.is_some(), || {
                "an execution ended without a reason".into()
            })
        }
        other => Err(format!("{other} is no end")),
    }
}

/// An attempt of a step opens while nothing of it is open, everything it depends on is settled, and
/// the execution may start steps.
fn attempt_may_open(before: &State, step: &str) -> Checked {
    let state = before.step_state(step);
    let free = matches!(
        state,
        Some(StepState::Pending | StepState::BackingOff | StepState::Failed)
    );
    ensure(free && before.state().is_active(), || {
        let execution = before.state();
        format!("an attempt of {step} opens while it is {state:?} and the execution {execution}")
    })?;
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

/// Tasks without the time when they are due, which moves while the execution is paused; their
/// timers are compared with it.
fn without_limits(owed: &[Obligation]) -> Vec<Obligation> {
    let mut owed = owed.to_vec();
    for owed in &mut owed {
        if let Obligation::Task(order) = owed {
            order.due = None;
        }
    }
    owed
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

/// The cause of a failed attempt, to run a step or to compensate it.
const fn failed_by(fact: &Fact) -> Option<FailureCause> {
    match fact {
        Fact::AttemptFailed { failure, .. } | Fact::StepCompensationFailed { failure, .. } => {
            Some(failure.cause)
        }
        _ => None,
    }
}
