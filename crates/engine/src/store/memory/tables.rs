//! The tables of a store in memory, and how a turn changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::request::{DefinitionRecord, DisabledTrigger};
use crate::store::{
    Answered, Append, Branch, Created, DefinitionChange, ExecutionRow, Forget, Hash, Result,
    Snapshot, Status, StoreError, Turn,
};
use crate::view::Origin;

/// Everything that is stored. Ordered maps only: a read returns rows in the same order every time.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) executions: BTreeMap<i64, ExecutionRow>,
    pub(super) ids: BTreeMap<Arc<str>, i64>,
    pub(super) events: BTreeMap<i64, Arc<EventRow>>,
    /// Positions by execution, branch and sequence.
    pub(super) places: BTreeMap<(i64, u32, u64), i64>,
    pub(super) branches: BTreeMap<(i64, u32), Branch>,
    pub(super) snapshots: BTreeMap<i64, Arc<Snapshot>>,
    pub(super) definitions: BTreeMap<(Arc<str>, Arc<str>), Defined>,
    pub(super) requests: BTreeMap<u64, Answered>,
    /// The place in `requests` of each request id.
    pub(super) asked: BTreeMap<Arc<str>, u64>,
    last_request: u64,
    pub(super) schedules: BTreeMap<Arc<str>, Timestamp>,
    pub(super) sinks: BTreeMap<Arc<str>, i64>,
    pub(super) disabled: BTreeMap<Arc<str>, DisabledTrigger>,
    pub(super) last_number: i64,
    pub(super) last_position: i64,
}

/// The events of one turn of one execution.
#[derive(Debug)]
pub(super) struct EventRow {
    pub(super) position: i64,
    pub(super) number: i64,
    pub(super) branch: u32,
    pub(super) first: u64,
    pub(super) hash: Hash,
    pub(super) lines: Vec<u8>,
}

/// A revision of a definition.
#[derive(Debug, Clone)]
pub(super) struct Defined {
    pub(super) record: DefinitionRecord,
    pub(super) current: bool,
}

impl Tables {
    /// Whether a turn can be written: no number, id or place in a log is given twice.
    pub(super) fn check(&self, turn: &Turn) -> Result<()> {
        let (mut numbers, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for Created { origin, .. } in &turn.created {
            let taken = self.executions.contains_key(&origin.number)
                || self.ids.contains_key(&origin.id)
                || !numbers.insert(origin.number)
                || !ids.insert(&origin.id);
            if taken {
                return Err(violation(format_args!("execution {}", origin.number)));
            }
        }
        let mut places = BTreeSet::new();
        for append in &turn.appends {
            let place = (append.number, append.branch, append.first);
            if self.places.contains_key(&place) || !places.insert(place) {
                return Err(violation(format_args!("event {place:?}")));
            }
        }
        Ok(())
    }

    /// Writes a turn that was checked.
    pub(super) fn apply(&mut self, turn: &Turn) {
        for change in &turn.definitions {
            self.define(change);
        }
        for created in &turn.created {
            self.create(created);
        }
        for branch in &turn.branches {
            self.branches
                .insert((branch.number, branch.branch), *branch);
        }
        for append in &turn.appends {
            self.append(append);
        }
        for (number, status) in &turn.statuses {
            if let Some(kept) = self.executions.get_mut(number) {
                kept.status = stored(status);
                kept.older = false;
            }
        }
        for (number, revision) in &turn.revisions {
            if let Some(kept) = self.executions.get_mut(number) {
                kept.revision = Arc::clone(revision);
            }
        }
        for snapshot in &turn.snapshots {
            let row = Arc::new(snapshot.clone());
            self.snapshots.insert(snapshot.number, row);
        }
        for (number, summary) in &turn.summaries {
            if let Some(kept) = self.executions.get_mut(number) {
                kept.summary = Some(Arc::clone(summary));
            }
        }
        for answered in &turn.requests {
            self.answer(answered);
        }
        for (name, at) in &turn.schedules {
            self.schedules.insert(Arc::clone(name), whole(*at));
        }
        for (name, position) in &turn.sinks {
            self.sinks.insert(Arc::clone(name), *position);
        }
        for change in &turn.definitions {
            if let DefinitionChange::Deleted(name) = change {
                self.remove_unneeded(name);
            }
        }
        self.remove(&turn.removed);
        if let Some(forget) = turn.forgotten {
            self.forget_requests(forget);
        }
    }

    /// A row with its summary if that is up to date.
    pub(super) fn with_summary(&self, kept: &ExecutionRow) -> ExecutionRow {
        let number = kept.origin.number;
        let all = (number, 0, 0)..=(number, u32::MAX, u64::MAX);
        let last = self.places.range(all).next_back();
        let newest = last.and_then(|(_, position)| self.events.get(position));
        let is_of = |summary: &Arc<[u8]>| newest.is_some_and(|row| summary.starts_with(&row.hash));
        ExecutionRow {
            summary: kept.summary.clone().filter(is_of),
            ..kept.clone()
        }
    }

    fn create(&mut self, created: &Created) {
        let origin = &created.origin;
        self.last_number = self.last_number.max(origin.number);
        self.ids.insert(Arc::clone(&origin.id), origin.number);
        let kept = ExecutionRow {
            origin: Arc::new(Origin {
                not_before: origin.not_before.map(whole),
                ..Origin::clone(origin)
            }),
            revision: Arc::clone(&created.revision),
            status: stored(&created.status),
            older: false,
            summary: None,
        };
        self.executions.insert(origin.number, kept);
    }

    fn append(&mut self, append: &Append) {
        self.last_position += 1;
        let row = EventRow {
            position: self.last_position,
            number: append.number,
            branch: append.branch,
            first: append.first,
            hash: append.hash,
            lines: append.lines.clone(),
        };
        let place = (row.number, row.branch, row.first);
        self.places.insert(place, row.position);
        self.events.insert(row.position, Arc::new(row));
    }

    fn answer(&mut self, answered: &Answered) {
        self.last_request += 1;
        let id = Arc::clone(&answered.id);
        if let Some(before) = self.asked.insert(id, self.last_request) {
            self.requests.remove(&before);
        }
        let row = Answered {
            at: whole(answered.at),
            ..answered.clone()
        };
        self.requests.insert(self.last_request, row);
    }

    fn define(&mut self, change: &DefinitionChange) {
        match change {
            DefinitionChange::Applied(record) => {
                self.without_current(&record.name);
                let key = (Arc::clone(&record.name), Arc::clone(&record.revision));
                let defined = self.definitions.entry(key).or_insert_with(|| Defined {
                    record: DefinitionRecord {
                        created: whole(record.created),
                        ..record.clone()
                    },
                    current: true,
                });
                defined.current = true;
            }
            DefinitionChange::Deleted(name) => {
                self.without_current(name);
                self.schedules.remove(name);
                self.disabled.remove(name);
            }
            DefinitionChange::TriggerDisabled(name, disabled) => {
                self.disabled.insert(Arc::clone(name), disabled.clone());
            }
            DefinitionChange::TriggerEnabled(name) => {
                self.disabled.remove(name);
            }
        }
    }

    fn without_current(&mut self, name: &str) {
        let revisions = self.definitions.values_mut();
        for defined in revisions.filter(|defined| &*defined.record.name == name) {
            defined.current = false;
        }
    }

    /// Removes the revisions of a deleted definition that no execution needs.
    fn remove_unneeded(&mut self, name: &str) {
        let of = |defined: &Defined| &*defined.record.name == name;
        let current = self.definitions.values().any(|one| of(one) && one.current);
        let mut executions = self.executions.values();
        if !current && !executions.any(|kept| &*kept.origin.definition == name) {
            self.definitions.retain(|_, defined| !of(defined));
        }
    }

    fn remove(&mut self, numbers: &[i64]) {
        let mut definitions = BTreeSet::new();
        for number in numbers {
            if let Some(kept) = self.executions.remove(number) {
                self.ids.remove(&kept.origin.id);
                definitions.insert(Arc::clone(&kept.origin.definition));
            }
            self.snapshots.remove(number);
            self.branches.retain(|(of, _), _| of != number);
            self.places.retain(|(of, _, _), _| of != number);
            self.events.retain(|_, row| row.number != *number);
        }
        for name in definitions {
            self.remove_unneeded(&name);
        }
    }

    fn forget_requests(&mut self, Forget { before, limit }: Forget) {
        let oldest = self.requests.iter().take(limit);
        let forgotten: Vec<_> = oldest
            .filter(|(_, row)| row.at < before)
            .map(|(place, _)| *place)
            .collect();
        for place in &forgotten {
            if let Some(row) = self.requests.remove(place) {
                self.asked.remove(&row.id);
            }
        }
    }
}

fn stored(status: &Status) -> Status {
    Status {
        wake_at: status.wake_at.map(whole),
        ended: status.ended.map(whole),
        ..status.clone()
    }
}

/// A time as a store keeps it, in whole milliseconds.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

fn violation(what: impl std::fmt::Display) -> StoreError {
    StoreError::Conflict {
        what: format!("{what} exists already"),
    }
}
