//! The state of an execution in its row. It follows from the log.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_driver::resume;
use stateway_machine::{Awaited, ExecutionState, State, awaited, seeking, sub_state_where};
use stateway_model::{Reason, SubState};

use crate::view::Origin;

/// The state of an execution, as its row has it.
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

/// The open work of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OpenWork {
    /// Attempts that are with workers or ready for them.
    pub(crate) tasks: bool,
    pub(crate) queued: bool,
    /// The first of its timers; for one that is put off, when it is released.
    pub(crate) due: Option<Timestamp>,
    /// A worker has to send heartbeats. When it last did so is known in memory only.
    pub(crate) heartbeats: bool,
}

impl OpenWork {
    pub(crate) fn of(state: &State, not_before: Option<Timestamp>) -> Self {
        let open = resume(state);
        let due = if state.state() == ExecutionState::Created {
            not_before
        } else {
            open.timers.iter().map(|timer| timer.due).min()
        };
        Self {
            tasks: !open.start.is_empty(),
            queued: open.slot,
            due,
            heartbeats: open.timers.iter().any(|set| set.timer.is_heartbeat()),
        }
    }

    /// When the keeper has to load the execution. The end of a child reaches its parent in the same
    /// turn, so only tasks, the queue and timers matter.
    const fn wake_at(&self) -> Option<Timestamp> {
        if self.tasks || self.queued {
            Some(Timestamp::UNIX_EPOCH)
        } else {
            self.due
        }
    }
}

impl Status {
    /// The content that a row should have for this state.
    pub(crate) fn of(state: &State, under_way: &OpenWork) -> Self {
        Self::unserved(state, under_way, &[])
    }

    /// The same where no connected worker can take the tasks of some steps.
    pub(crate) fn unserved(state: &State, under_way: &OpenWork, steps: &[Arc<str>]) -> Self {
        let (shown, reason) = sub_state_where(state, steps);
        Self {
            branch: state.branch(),
            state: state.state(),
            sub_state: shown,
            reason,
            wake_at: under_way.wake_at(),
            inbox: people(state),
            ended: state.times().ended,
        }
    }

    /// The execution is due earlier by the wall clock than by its log, which is ahead of that clock.
    pub(crate) fn wake_no_later_than(&mut self, due: Option<Timestamp>) {
        if self.wake_at.is_some() && due.is_some() {
            self.wake_at = self.wake_at.min(due);
        }
    }

    /// Whether a row agrees with the log that led to this state. Which workers are connected is not
    /// in the log: the row may be written while some or all tasks had no worker.
    pub(crate) fn agrees(state: &State, under_way: &OpenWork, row: &Self) -> bool {
        let served = Self::of(state, under_way);
        let mut row = row.clone();
        if served.is_due_after(&row) {
            row.wake_at = served.wake_at;
        }
        if served == row {
            return true;
        }
        let steps: Vec<_> = seeking(state).into_iter().map(|task| task.step).collect();
        if steps.is_empty() {
            return false;
        }
        let waiting = Self {
            sub_state: row.sub_state,
            reason: row.reason,
            ..served
        };
        row.reason == Some(Reason::NoWorker) && waiting == row
            || Self::unserved(state, under_way, &steps) == row
    }

    /// Whether a row is due earlier than its log says: the wall clock was moved back.
    fn is_due_after(&self, row: &Self) -> bool {
        let timer = |status: &Self| status.wake_at.filter(|due| *due > Timestamp::UNIX_EPOCH);
        timer(row).is_some_and(|due| timer(self).is_some_and(|by_log| by_log > due))
    }

    /// Whether a row agrees with the log, on whatever branch.
    pub(crate) fn is_like(state: &State, under_way: &OpenWork, row: &Self) -> bool {
        let row = Self {
            branch: state.branch(),
            ..row.clone()
        };
        Self::agrees(state, under_way, &row)
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
pub(crate) struct ExecutionRow {
    pub(crate) origin: Arc<Origin>,
    pub(crate) revision: Arc<str>,
    pub(crate) status: Status,
    /// Written in an older form: where it differs from the log, it is out of date and not damaged.
    pub(crate) older: bool,
    /// The execution as lists show it, where the row was read for that and has it. See `summary.rs`.
    pub(crate) summary: Option<Arc<[u8]>>,
}
