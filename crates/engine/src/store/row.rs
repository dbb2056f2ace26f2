//! Rows, and what the keeper and readers make of them.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::Row;
use stateway_machine::{ExecutionState, State, sub_state};
use stateway_model::{Reason, SubState};

use super::StoreError;
use crate::view::{Origin, Parent};

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
    use stateway_machine::{Awaited, awaited};
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

/// The columns [`Kept::read`] reads, in its order.
pub(super) const KEPT: &str = "number, id, definition, revision, labels, parent, parent_step, \
     parent_attempt, depth, not_before, branch, state, sub_state, reason, wake_at, inbox, ended_at";

impl Kept {
    pub(super) fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let number: i64 = row.get(0)?;
        let damaged = |what: &str| StoreError::corrupt(format_args!("execution {number}: {what}"));
        let labels: String = row.get(4)?;
        let parent = match row.get::<_, Option<i64>>(5)? {
            Some(parent) => Some(Parent {
                number: parent,
                step: row.get::<_, String>(6)?.into(),
                attempt: row.get(7)?,
            }),
            None => None,
        };
        let origin = Origin {
            number,
            id: row.get::<_, String>(1)?.into(),
            definition: row.get::<_, String>(2)?.into(),
            labels: Arc::new(serde_json::from_str(&labels).map_err(|_| damaged("labels"))?),
            parent,
            depth: row.get(8)?,
            not_before: time(row.get(9)?),
        };
        let word = |at: usize| row.get::<_, String>(at);
        let status = Status {
            branch: row.get(10)?,
            state: word(11)?.parse().map_err(|_| damaged("state"))?,
            sub_state: word(12)?.parse().map_err(|_| damaged("sub_state"))?,
            reason: match row.get::<_, Option<String>>(13)? {
                Some(reason) => Some(reason.parse().map_err(|_| damaged("reason"))?),
                None => None,
            },
            wake_at: time(row.get(14)?),
            inbox: row.get(15)?,
            ended: time(row.get(16)?),
        };
        Ok(Self {
            origin: Arc::new(origin),
            revision: row.get::<_, String>(3)?.into(),
            status,
        })
    }
}

/// A time as it is stored.
pub(super) fn time(milliseconds: Option<i64>) -> Option<Timestamp> {
    Timestamp::from_millisecond(milliseconds?).ok()
}
