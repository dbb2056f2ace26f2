//! Where an execution is, as its row says it. It follows from the log.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{Awaited, ExecutionState, State, awaited, sub_state};
use stateway_model::{Reason, SubState};

use crate::view::Origin;

/// Where an execution is, as its row says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) branch: u32,
    pub(crate) state: ExecutionState,
    pub(crate) sub_state: SubState,
    pub(crate) reason: Option<Reason>,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) inbox: u32,
    pub(crate) ended: Option<Timestamp>,
}

impl Status {
    /// What a row should say of this state.
    pub(crate) fn of(state: &State, wake_at: Option<Timestamp>) -> Self {
        let (shown, reason) = sub_state(state);
        Self {
            branch: state.branch(),
            state: state.state(),
            sub_state: shown,
            reason,
            wake_at,
            inbox: people(state),
            ended: state.times().ended,
        }
    }
}

/// How many people an execution waits for.
fn people(state: &State) -> u32 {
    if state.state() == ExecutionState::Created {
        return 0;
    }
    let waits = awaited(state);
    let people = waits
        .iter()
        .filter(|wait| matches!(wait, Awaited::Approval { .. } | Awaited::Person { .. }));
    u32::try_from(people.count()).unwrap_or(u32::MAX)
}

/// An execution as its row has it.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) origin: Arc<Origin>,
    pub(crate) revision: Arc<str>,
    pub(crate) status: Status,
}
