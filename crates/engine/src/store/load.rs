//! Loads an execution: its row, its newest snapshot, and the events after it.

use std::sync::Arc;

use stateway_machine::{Event, Plan, State, decode_row, restore};

use super::{BEGINNING, Hash, link};
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
    /// The snapshot contradicts the log, so that another has to take its place.
    pub(crate) renew_snapshot: bool,
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
        link(before, self.lines)
    }

    /// The events of the row that belong to the lineage.
    pub(crate) fn events(&self, number: i64) -> Result<Vec<Event>, StoreError> {
        let mut events = events(number, self.lines)?;
        events.retain(|event| event.sequence <= self.up_to);
        Ok(events)
    }
}

/// Loads an execution: its snapshot, if it has one, and the events after it.
pub(crate) fn load(
    store: &dyn Reading,
    kept: ExecutionRow,
    catalogue: &Catalogue,
) -> Result<Loaded, StoreError> {
    let number = kept.origin.number;
    if let Some(from) = at_snapshot(store, &kept, catalogue)? {
        match replay(store, &kept, from) {
            Ok(replayed) => return Ok(replayed.loaded(kept, false)),
            // A snapshot is a cache: the log decides whether the execution is damaged.
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::debug!(number, "a snapshot is not used: {error}");
            }
            Err(error) => return Err(error),
        }
        let replayed = replay(store, &kept, at_beginning(store, &kept, catalogue)?)?;
        return Ok(replayed.loaded(kept, true));
    }
    let replayed = replay(store, &kept, at_beginning(store, &kept, catalogue)?)?;
    Ok(replayed.loaded(kept, false))
}

/// A state, and where the log continues from it.
struct Replayed {
    state: State,
    /// The sequence of its last event that is in a snapshot.
    after: u64,
    hash: Hash,
    bytes: usize,
    /// The events after the snapshot.
    events: u32,
}

impl Replayed {
    fn loaded(self, kept: ExecutionRow, renew_snapshot: bool) -> Loaded {
        Loaded {
            kept,
            state: self.state,
            hash: self.hash,
            since_snapshot: self.events,
            bytes: self.bytes,
            renew_snapshot,
        }
    }
}

/// Applies the rest of the log.
fn replay(
    store: &dyn Reading,
    kept: &ExecutionRow,
    mut at: Replayed,
) -> Result<Replayed, StoreError> {
    let number = kept.origin.number;
    store.walk(number, kept.status.branch, at.after, &mut |row| {
        at.hash = follow(number, &at.hash, &row)?;
        at.bytes += row.lines.len();
        for event in row.events(number)? {
            let wanted = at.state.sequence() + 1;
            if event.sequence != wanted {
                return Err(StoreError::corrupt(format_args!(
                    "execution {number}: event {wanted} is missing, the next is {}",
                    event.sequence
                )));
            }
            at.state.apply(&event);
            at.events += 1;
        }
        Ok(true)
    })?;
    if at.state.is_created() {
        Ok(at)
    } else {
        Err(StoreError::corrupt(format_args!(
            "execution {number} has no events"
        )))
    }
}

fn at_beginning(
    store: &dyn Reading,
    kept: &ExecutionRow,
    catalogue: &Catalogue,
) -> Result<Replayed, StoreError> {
    let plan = plan(store, &kept.revision, catalogue)?;
    Ok(Replayed {
        state: State::new(plan),
        after: 0,
        hash: BEGINNING,
        bytes: 0,
        events: 0,
    })
}

/// The state of the newest snapshot that this build can read, if any.
fn at_snapshot(
    store: &dyn Reading,
    kept: &ExecutionRow,
    catalogue: &Catalogue,
) -> Result<Option<Replayed>, StoreError> {
    let number = kept.origin.number;
    let Some(found) = store.snapshot(number, kept.status.branch)? else {
        return Ok(None);
    };
    let unused = |error: &dyn std::fmt::Display| {
        tracing::debug!(number, "a snapshot is not used: {error}");
        None
    };
    let plan = match plan(store, &found.revision, catalogue) {
        Ok(plan) => plan,
        Err(error @ StoreError::Corrupt { .. }) => return Ok(unused(&error)),
        Err(error) => return Err(error),
    };
    let state = match restore(plan, &found.data) {
        Ok(state) => state,
        Err(error) => return Ok(unused(&error)),
    };
    Ok(Some(Replayed {
        state,
        after: found.sequence,
        hash: found.hash,
        bytes: found.data.len(),
        events: 0,
    }))
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
                "the definition of revision {revision} is missing"
            ))
        })
    })
}

/// The next link, checked against what is stored.
fn follow(number: i64, before: &Hash, row: &LogRow<'_>) -> Result<Hash, StoreError> {
    let wanted = link(before, row.lines);
    if wanted == row.hash {
        return Ok(wanted);
    }
    Err(StoreError::corrupt(format_args!(
        "the log of execution {number} was changed after it was written, at position {}",
        row.position
    )))
}

/// The events of some lines.
pub(super) fn events(number: i64, lines: &[u8]) -> Result<Vec<Event>, StoreError> {
    decode_row(lines).map_err(|(_, error)| {
        StoreError::corrupt(format_args!("an event of execution {number}: {error}"))
    })
}
