//! Reading logs from their end, newest event first.

use std::sync::Arc;

use super::{Reader, kept_of, known_branches};
use crate::error::{EngineError, Result};
use crate::recording::count;
use crate::request::EventRecord;
use crate::store::{LogRow, Reading, StoreError};

impl Reader {
    /// The events along a branch before one of them, newest first; along the current branch when none is
    /// named.
    pub(crate) fn lineage_back(
        &mut self,
        id: &str,
        branch: Option<u32>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(u32, Vec<EventRecord>)> {
        self.at_once(|store| {
            let kept = kept_of(store, id)?;
            let number = kept.origin.number;
            let branch = branch.unwrap_or(kept.status.branch);
            let known = known_branches(store, &kept, branch)?;
            let mut found = Newest::new(&kept.origin.id, limit);
            let (mut at, mut end) = (branch, before.unwrap_or(u64::MAX));
            loop {
                store.chronicle_back(number, (at, end), &mut |row| {
                    // The rows of older branches follow; the branch may have grown from another one.
                    Ok(row.branch == at && found.take(&row, number, (at, end))?)
                })?;
                let grown = known.iter().find(|one| one.branch == at);
                let Some(grown) = grown.filter(|one| one.parent < at && !found.is_full()) else {
                    return Ok((branch, found.records));
                };
                (at, end) = (grown.parent, end.min(grown.cutoff.saturating_add(1)));
            }
        })
    }

    /// The events of every branch before one of them, in the reverse order of `chronicle`; from the end of
    /// the log when none is named.
    pub(crate) fn chronicle_back(
        &mut self,
        id: &str,
        before: Option<(u32, u64)>,
        limit: usize,
    ) -> Result<Vec<EventRecord>> {
        self.at_once(|store| {
            let number = store.number_of(id)?;
            let number = number.ok_or_else(|| EngineError::no_execution(id))?;
            let before = before.unwrap_or((u32::MAX, u64::MAX));
            let execution: Arc<str> = id.into();
            let mut found = Newest::new(&execution, limit);
            store.chronicle_back(number, before, &mut |row| found.take(&row, number, before))?;
            Ok(found.records)
        })
    }
}

/// The sequence of the last event that was written on a branch; 0 without events.
pub(super) fn last_sequence(store: &dyn Reading, number: i64, branch: u32) -> Result<u64> {
    let mut last = 0;
    store.chronicle_back(number, (branch, u64::MAX), &mut |row| {
        if row.branch == branch {
            last = row.first + (count(row.lines) as u64).saturating_sub(1);
        }
        Ok(false)
    })?;
    Ok(last)
}

/// The newest events, up to a limit.
struct Newest<'e> {
    execution: &'e Arc<str>,
    records: Vec<EventRecord>,
    limit: usize,
}

impl<'e> Newest<'e> {
    const fn new(execution: &'e Arc<str>, limit: usize) -> Self {
        Self {
            execution,
            records: Vec::new(),
            limit,
        }
    }

    const fn is_full(&self) -> bool {
        self.records.len() >= self.limit
    }

    /// Takes the events of a row that are before an event, newest first; whether there is room for more.
    fn take(
        &mut self,
        row: &LogRow<'_>,
        number: i64,
        before: (u32, u64),
    ) -> std::result::Result<bool, StoreError> {
        let events = row.events(number)?.into_iter().rev();
        for event in events.filter(|event| (row.branch, event.sequence) < before) {
            if self.is_full() {
                break;
            }
            self.records.push(EventRecord {
                position: row.position,
                execution: Arc::clone(self.execution),
                branch: row.branch,
                event,
            });
        }
        Ok(!self.is_full())
    }
}
