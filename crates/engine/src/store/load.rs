//! Bringing an execution back from what is kept.

use std::sync::Arc;

use stateway_machine::{Event, Plan, State, decode, restore};

use super::chain::{self, Hash};
use super::{ExecutionRow, Reading, StoreError};
use crate::catalogue::Catalogue;

/// An execution, brought back.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) kept: ExecutionRow,
    pub(crate) state: State,
    /// The last link of the log's chain.
    pub(crate) hash: Hash,
    /// Events since the last snapshot.
    pub(crate) since_snapshot: u32,
    /// The bytes of the snapshot and of the events since.
    pub(crate) bytes: usize,
}

/// A row of a log.
pub(crate) struct LogRow<'r> {
    pub(crate) position: i64,
    pub(crate) branch: u32,
    /// The sequence of its first event.
    pub(crate) first: u64,
    /// Where the lineage leaves this branch; later events of the row do not belong to it.
    pub(super) up_to: u64,
    pub(super) hash: Hash,
    pub(crate) lines: &'r [u8],
}

impl LogRow<'_> {
    /// The link of the chain after this row.
    pub(crate) const fn hash(&self) -> Hash {
        self.hash
    }

    /// What the link after this row should be, after a row with this one.
    pub(crate) fn link_after(&self, before: &Hash) -> Hash {
        chain::link(before, self.lines)
    }

    /// The events of the row that belong to the lineage.
    pub(crate) fn events(&self, number: i64) -> Result<Vec<Event>, StoreError> {
        let mut events = events(number, self.lines)?;
        events.retain(|event| event.sequence <= self.up_to);
        Ok(events)
    }
}

/// Brings an execution back: its snapshot, if there is one, and what came after.
pub(crate) fn load(
    store: &dyn Reading,
    kept: ExecutionRow,
    catalogue: &Catalogue,
) -> Result<Loaded, StoreError> {
    let (number, branch) = (kept.origin.number, kept.status.branch);
    let (mut state, after, mut hash, mut bytes) = beginning(store, &kept, catalogue)?;
    let mut since_snapshot = 0;
    store.walk(number, branch, after, &mut |row| {
        hash = follow(number, &hash, &row)?;
        bytes += row.lines.len();
        for event in row.events(number)? {
            let wanted = state.sequence() + 1;
            if event.sequence != wanted {
                return Err(StoreError::corrupt(format_args!(
                    "execution {number}: event {wanted} is missing, the next is {}",
                    event.sequence
                )));
            }
            state.apply(&event);
            since_snapshot += 1;
        }
        Ok(true)
    })?;
    if !state.is_created() {
        return Err(StoreError::corrupt(format_args!(
            "execution {number} has no events"
        )));
    }
    Ok(Loaded {
        kept,
        state,
        hash,
        since_snapshot,
        bytes,
    })
}

/// Where a replay starts: at a snapshot, or at the first event.
fn beginning(
    store: &dyn Reading,
    kept: &ExecutionRow,
    catalogue: &Catalogue,
) -> Result<(State, u64, Hash, usize), StoreError> {
    let number = kept.origin.number;
    let Some(found) = store.snapshot(number, kept.status.branch)? else {
        let plan = plan(store, &kept.revision, catalogue)?;
        return Ok((State::new(plan), 0, chain::BEGINNING, 0));
    };
    let written = plan(store, &found.revision, catalogue)?;
    match restore(written, &found.data) {
        Ok(state) => Ok((state, found.sequence, found.hash, found.data.len())),
        // A snapshot is a cache: one of another build, or a damaged one, costs a longer replay.
        Err(error) => {
            tracing::debug!(number, "a snapshot is not used: {error}");
            let plan = plan(store, &kept.revision, catalogue)?;
            Ok((State::new(plan), 0, chain::BEGINNING, 0))
        }
    }
}

/// The plan of a revision.
pub(crate) fn plan(
    store: &dyn Reading,
    revision: &str,
    catalogue: &Catalogue,
) -> Result<Arc<Plan>, StoreError> {
    catalogue.plan(revision, || {
        store.source(revision)?.ok_or_else(|| {
            StoreError::corrupt(format_args!(
                "the definition of revision {revision} is gone"
            ))
        })
    })
}

/// The next link, checked against what is stored.
fn follow(number: i64, before: &Hash, row: &LogRow<'_>) -> Result<Hash, StoreError> {
    let wanted = chain::link(before, row.lines);
    if wanted == row.hash {
        return Ok(wanted);
    }
    Err(StoreError::corrupt(format_args!(
        "the log of execution {number} is not what was written, at position {}",
        row.position
    )))
}

/// The events of some lines.
pub(super) fn events(number: i64, lines: &[u8]) -> Result<Vec<Event>, StoreError> {
    let lines = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let read = |line| {
        decode(line).map_err(|error| {
            StoreError::corrupt(format_args!("an event of execution {number}: {error}"))
        })
    };
    lines.map(read).collect()
}
