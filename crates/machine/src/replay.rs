//! A log to the state it leads to, with the checks that `evolve` leaves out.

use std::sync::Arc;

use thiserror::Error;

use crate::plan::Plan;
use crate::{Event, Fact, State, evolve};

/// Why a log cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// The first event is not the creation.
    #[error("the log does not begin with the creation of its execution")]
    NoBeginning,
    /// The plan is of another revision than the log.
    #[error("the log was written for revision {logged}, the plan is of revision {given}")]
    OtherRevision {
        /// What the log says.
        logged: Arc<str>,
        /// What was given.
        given: Arc<str>,
    },
    /// Events are missing or out of order.
    #[error("event {expected} is missing: the next one is {found}")]
    Gap {
        /// What should follow.
        expected: u64,
        /// What follows.
        found: u64,
    },
}

/// Replays a whole log.
///
/// # Errors
/// A log that is not whole, or not of this plan.
pub fn replay<'e>(
    plan: Arc<Plan>,
    events: impl IntoIterator<Item = &'e Event>,
) -> Result<State, ReplayError> {
    let mut state = State::new(plan);
    for event in events {
        let expected = state.sequence() + 1;
        if event.sequence != expected {
            return Err(ReplayError::Gap {
                expected,
                found: event.sequence,
            });
        }
        check_beginning(&state, event)?;
        state = evolve(state, event);
    }
    Ok(state)
}

fn check_beginning(state: &State, event: &Event) -> Result<(), ReplayError> {
    match (&event.fact, state.is_created()) {
        (Fact::ExecutionCreated { revision, .. }, false) => {
            let given = state.plan().shared_revision();
            if *revision == given {
                return Ok(());
            }
            Err(ReplayError::OtherRevision {
                logged: Arc::clone(revision),
                given,
            })
        }
        (_, false) => Err(ReplayError::NoBeginning),
        (_, true) => Ok(()),
    }
}
