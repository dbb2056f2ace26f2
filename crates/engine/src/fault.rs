//! What goes wrong, for tests: the process dies with half a turn on disk, the disk loses a write that it
//! acknowledged, or the keeper panics.
//!
//! A store that keeps its promises never shows such a state; one that lies, a file that was put
//! back together from backups, or a defect can. Nothing of this happens unless a test arms it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One write to the store, or one entry in the keeper's book of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// A revision of a definition.
    Definition,
    /// The row of a new execution.
    Execution,
    /// A row of the table of branches.
    Branch,
    /// Events of one execution.
    Events,
    /// The row of an execution.
    Status,
    /// A snapshot.
    Snapshot,
    /// The record of a request.
    Request,
    /// When a schedule last came round.
    Schedule,
    /// The position of a receiver of events.
    Sink,
    /// A task is queued for workers. Not on disk.
    TaskPlaced,
    /// A task is withdrawn. Not on disk.
    TaskWithdrawn,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The write is made.
    Done,
    /// The write is lost without an error.
    Lost,
    /// The process dies before the write; earlier writes of the same turn stay.
    Torn,
    /// The process dies before the write, and nothing of the turn stays.
    Crash,
}

type Panics = dyn Fn(&str) -> bool + Send + Sync;
type Judge = Box<dyn FnMut(Write) -> Fate + Send>;

/// The faults that tests inject. Clones share them.
#[derive(Clone, Default)]
pub struct Faults {
    judge: Option<Arc<Mutex<Judge>>>,
    panics: Option<Arc<Panics>>,
    full: Option<Arc<AtomicBool>>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let armed = self.judge.is_some();
        f.debug_struct("Faults").field("armed", &armed).finish()
    }
}

impl Faults {
    /// Asks before every write what becomes of it.
    #[must_use]
    pub fn by(judge: impl FnMut(Write) -> Fate + Send + 'static) -> Self {
        Self {
            judge: Some(Arc::new(Mutex::new(Box::new(judge)))),
            ..Self::default()
        }
    }

    /// Asks whether the keeper panics: with the id of an execution before the keeper processes that
    /// execution, with an empty id before each turn.
    #[must_use]
    pub fn panicking(when: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self {
            panics: Some(Arc::new(when)),
            ..Self::default()
        }
    }

    /// The disk is full while this is true.
    #[must_use]
    pub fn full_disk(full: Arc<AtomicBool>) -> Self {
        Self {
            full: Some(full),
            ..Self::default()
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        let full = self.full.as_ref();
        full.is_some_and(|full| full.load(Ordering::Relaxed))
    }

    /// Panics if the test wants that for this execution.
    pub(crate) fn panic_for(&self, id: &str) {
        let wanted = self.panics.as_ref().is_some_and(|panics| panics(id));
        assert!(!wanted, "a test lets the keeper panic for execution `{id}`");
    }

    /// Whether a test decides about writes.
    pub(crate) const fn is_armed(&self) -> bool {
        self.judge.is_some()
    }

    pub(crate) fn fate(&self, write: Write) -> Fate {
        match &self.judge {
            None => Fate::Done,
            Some(judge) => judge.lock().unwrap_or_else(PoisonError::into_inner)(write),
        }
    }
}
