//! What was acknowledged to the load and to the workers, over all gateways of one store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was acknowledged, and what must never happen.
#[derive(Default)]
pub(super) struct Book {
    entries: Mutex<Entries>,
    /// How often each worker was made to forget.
    forgotten: [AtomicU64; super::WORKERS],
    /// Whether new executions may be started.
    closed: std::sync::atomic::AtomicBool,
}

/// One attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attempt {
    pub(super) execution: String,
    pub(super) step: String,
    pub(super) attempt: i32,
    pub(super) undo: bool,
}

#[derive(Default)]
struct Entries {
    /// Acknowledged starts by name.
    started: BTreeSet<String>,
    /// Attempts whose answer was acknowledged.
    acknowledged: BTreeSet<Attempt>,
    /// The attempt of each token. Each hand-out of an attempt has its own token.
    tokens: BTreeMap<String, Attempt>,
    /// How often each attempt was handed out.
    handed_out: BTreeMap<Attempt, u32>,
    faults: Vec<String>,
}

/// A copy to check by.
pub(super) struct Record {
    pub(super) started: BTreeSet<String>,
    pub(super) acknowledged: BTreeSet<Attempt>,
    pub(super) handed_out_again: usize,
    pub(super) faults: Vec<String>,
}

impl Book {
    fn entries(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.entries
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn started(&self, name: String) {
        self.entries().started.insert(name);
    }

    /// A worker was handed a task. An attempt whose answer was acknowledged must not be handed out.
    pub(super) fn handed_out(&self, token: &str, attempt: Attempt) {
        let mut entries = self.entries();
        if entries.acknowledged.contains(&attempt) {
            let fault = format!("{attempt:?} was handed out after its answer was acknowledged");
            entries.faults.push(fault);
        }
        *entries.handed_out.entry(attempt.clone()).or_default() += 1;
        entries.tokens.insert(token.to_owned(), attempt);
    }

    pub(super) fn acknowledged(&self, token: &str) {
        let mut entries = self.entries();
        let attempt = entries.tokens.get(token).cloned();
        entries.acknowledged.extend(attempt);
    }

    pub(super) fn lose_memory(&self, worker: usize) {
        self.forgotten[worker].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn memory(&self, worker: usize) -> u64 {
        self.forgotten[worker].load(Ordering::Relaxed)
    }

    pub(super) fn close(&self, closed: bool) {
        self.closed.store(closed, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn record(&self) -> Record {
        let entries = self.entries();
        Record {
            started: entries.started.clone(),
            acknowledged: entries.acknowledged.clone(),
            handed_out_again: entries
                .handed_out
                .values()
                .filter(|count| **count > 1)
                .count(),
            faults: entries.faults.clone(),
        }
    }
}
