//! From a command to the step that a host carries out.

use jiff::Timestamp;
use stateway_machine::{
    Command, Event, Fact, Obligation, OpenWork, Rejection, State, TaskKey, Withdrawal, child_id,
    child_outcome, decide, obligations, obligations_of, usage,
};
use stateway_model::Reason;

use crate::step::{EndedChild, Outcome, Step, TimerOrder};

/// Decides about a command and applies its events to the state.
///
/// # Errors
/// The command is rejected; nothing has changed.
pub fn handle(state: &mut State, command: Command, now: Timestamp) -> Result<Step, Rejection> {
    let events = decide(state, command, now)?;
    Ok(apply(state, events))
}

/// Applies the events of one command to the state. For a host that checks or stores the events between
/// [`decide`] and this; [`handle`] does both.
#[must_use]
pub fn apply(state: &mut State, events: Vec<Event>) -> Step {
    if events.is_empty() {
        return Step::default();
    }
    let open = OpenWork::before(state, &events);
    events.iter().for_each(|event| state.apply(event));
    let mut step = Step {
        withdraw: open.withdrawn(state, &events),
        end_children: ended(state, open.ended_children(state, &events)),
        reconcile: has(&events, leaves_log),
        started: has(&events, |fact| {
            matches!(fact, Fact::ExecutionStarted { .. })
        }),
        ended: outcome(state),
        ..Step::default()
    };
    let owed = obligations_of(state, &events);
    owed.into_iter().for_each(|owed| step.owe(owed));
    step.events = events;
    step
}

/// Everything that is open, for a host that loads an execution from its log.
#[must_use]
pub fn resume(state: &State) -> Step {
    let mut step = Step {
        ended: outcome(state),
        ..Step::default()
    };
    let owed = obligations(state);
    owed.into_iter().for_each(|owed| step.owe(owed));
    step
}

/// Everything that ends when a host leaves this log for an earlier point of it.
#[must_use]
pub fn leave(state: &State) -> Step {
    let open = OpenWork::all(state);
    Step {
        end_children: ended(state, open.children().to_vec()),
        withdraw: open.withdraw_all(Withdrawal::NotNeeded),
        ..Step::default()
    }
}

/// The keys of the tasks and children that are open.
#[must_use]
pub fn open_keys(state: &State) -> Vec<TaskKey> {
    let owed = obligations(state).into_iter();
    owed.filter_map(|owed| match owed {
        Obligation::Task(order) => Some(order.key),
        Obligation::Child(order) => Some(order.key),
        Obligation::Slot | Obligation::Timer { .. } => None,
    })
    .collect()
}

/// The timers that are set.
#[must_use]
pub fn timers(state: &State) -> Vec<TimerOrder> {
    resume(state).timers
}

/// The timer that is due first.
#[must_use]
pub fn next_timer(state: &State) -> Option<TimerOrder> {
    timers(state).into_iter().min_by_key(|timer| timer.due)
}

fn outcome(state: &State) -> Option<Outcome> {
    child_outcome(state).map(|result| Outcome {
        result,
        usage: usage(state),
    })
}

fn ended(state: &State, keys: Vec<TaskKey>) -> Vec<EndedChild> {
    let kill = state.reason() == Some(Reason::Killed);
    keys.into_iter()
        .map(|key| EndedChild {
            id: child_id(&key),
            key,
            kill,
        })
        .collect()
}

fn has(events: &[Event], wanted: impl Fn(&Fact) -> bool) -> bool {
    events.iter().any(|event| wanted(&event.fact))
}

const fn leaves_log(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::BranchOpened { .. } | Fact::ExecutionForked { .. } | Fact::ExecutionRecovered { .. }
    )
}
