//! What a turn of the keeper writes, all of it or nothing.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Hash, Status};
use crate::request::{DefinitionRecord, DisabledTrigger};
use crate::view::Origin;

/// Everything one turn leads to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    pub(crate) created: Vec<Created>,
    pub(crate) appends: Vec<Append>,
    pub(crate) statuses: Vec<(i64, Status)>,
    /// Executions whose row named another revision than their log.
    pub(crate) revisions: Vec<(i64, Arc<str>)>,
    pub(crate) snapshots: Vec<Snapshot>,
    /// Executions that leave memory, as lists show them.
    pub(crate) summaries: Vec<(i64, Arc<[u8]>)>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) requests: Vec<Answered>,
    /// In the order in which they happened.
    pub(crate) definitions: Vec<DefinitionChange>,
    /// Definitions whose schedule came round, and when.
    pub(crate) schedules: Vec<(Arc<str>, Timestamp)>,
    /// How far receivers of events have got.
    pub(crate) sinks: Vec<(Arc<str>, i64)>,
    /// Executions that are removed with all that belongs to them, after everything else of the turn is written;
    /// and the revisions of deleted definitions that no execution needs any more.
    pub(crate) removed: Vec<i64>,
    /// Requests that are forgotten.
    pub(crate) forgotten: Option<Forget>,
}

/// The requests that were answered before a time, in the order in which they came, at most `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forget {
    pub(crate) before: Timestamp,
    pub(crate) limit: usize,
}

/// A change of one definition.
#[derive(Debug, Clone)]
pub(crate) enum DefinitionChange {
    /// A revision became the current one.
    Applied(DefinitionRecord),
    /// The definition has no current revision any more. Its revisions stay while executions of the
    /// definition are stored.
    Deleted(Arc<str>),
    TriggerDisabled(Arc<str>, DisabledTrigger),
    TriggerEnabled(Arc<str>),
}

/// An execution that became known.
#[derive(Debug, Clone)]
pub(crate) struct Created {
    pub(crate) origin: Arc<Origin>,
    pub(crate) revision: Arc<str>,
    pub(crate) at: Timestamp,
    pub(crate) status: Status,
}

/// Events of one execution, one line each.
#[derive(Debug, Clone)]
pub(crate) struct Append {
    pub(crate) number: i64,
    pub(crate) branch: u32,
    /// The sequence of the first of them.
    pub(crate) first: u64,
    pub(crate) lines: Vec<u8>,
    pub(crate) hash: Hash,
}

/// A state, so that a replay need not begin at the beginning.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) number: i64,
    pub(crate) branch: u32,
    pub(crate) sequence: u64,
    pub(crate) revision: Arc<str>,
    pub(crate) hash: Hash,
    pub(crate) data: Vec<u8>,
}

/// Where a branch grew from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) number: i64,
    pub(crate) branch: u32,
    pub(crate) parent: u32,
    /// The last sequence it shares with its parent.
    pub(crate) cutoff: u64,
}

/// The body of a request of which only the id is known.
pub(crate) const ANY_BODY: [u8; 16] = [u8::MAX; 16];

/// A request that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) id: Arc<str>,
    pub(crate) body: [u8; 16],
    pub(crate) number: i64,
    pub(crate) at: Timestamp,
}

impl Turn {
    /// Empties every list and keeps its allocation.
    pub(crate) fn clear(&mut self) {
        self.created.clear();
        self.appends.clear();
        self.statuses.clear();
        self.revisions.clear();
        self.snapshots.clear();
        self.summaries.clear();
        self.branches.clear();
        self.requests.clear();
        self.definitions.clear();
        self.schedules.clear();
        self.sinks.clear();
        self.removed.clear();
        self.forgotten = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.created.is_empty()
            && self.appends.is_empty()
            && self.statuses.is_empty()
            && self.revisions.is_empty()
            && self.snapshots.is_empty()
            && self.summaries.is_empty()
            && self.branches.is_empty()
            && self.requests.is_empty()
            && self.definitions.is_empty()
            && self.schedules.is_empty()
            && self.sinks.is_empty()
            && self.removed.is_empty()
            && self.forgotten.is_none()
    }

    /// The first `writes` of the turn, in the order in which a store writes them.
    #[cfg(feature = "simulation")]
    pub(crate) fn first(&self, writes: usize) -> Self {
        fn take<T: Clone>(from: &[T], left: &mut usize) -> Vec<T> {
            let taken = from.len().min(*left);
            *left -= taken;
            from.iter().take(taken).cloned().collect()
        }
        let left = &mut { writes };
        Self {
            definitions: take(&self.definitions, left),
            created: take(&self.created, left),
            branches: take(&self.branches, left),
            appends: take(&self.appends, left),
            statuses: take(&self.statuses, left),
            revisions: take(&self.revisions, left),
            snapshots: take(&self.snapshots, left),
            summaries: take(&self.summaries, left),
            requests: take(&self.requests, left),
            schedules: take(&self.schedules, left),
            sinks: take(&self.sinks, left),
            removed: take(&self.removed, left),
            forgotten: self.forgotten.filter(|_| *left > 0),
        }
    }
}
