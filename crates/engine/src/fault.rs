//! What goes wrong between two writes, for tests: the process dies with half a turn on disk, or the
//! disk loses a write it said it had.
//!
//! A store that keeps its promises never shows such a state; one that lies, a file that was put
//! back together from backups, or a defect can. Nothing of this happens unless a test arms it.

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
    /// What the row of an execution says.
    Status,
    /// A snapshot.
    Snapshot,
    /// The record of a request.
    Request,
    /// When a schedule last came round.
    Schedule,
    /// How far a receiver of events has got.
    Sink,
    /// A task is put up for workers. Not on disk.
    TaskPlaced,
    /// A task is taken back. Not on disk.
    TaskWithdrawn,
}

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Done,
    /// It is lost, and nobody notices.
    Lost,
    /// The process dies before it; what was written before in the same turn stays.
    Torn,
    /// The process dies before it, and nothing of the turn stays.
    Crash,
}

type Judge = Box<dyn FnMut(Write) -> Fate + Send>;

/// What goes wrong. Clones share it.
#[derive(Clone, Default)]
pub struct Faults {
    judge: Option<Arc<Mutex<Judge>>>,
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
        }
    }

    pub(crate) fn fate(&self, write: Write) -> Fate {
        match &self.judge {
            None => Fate::Done,
            Some(judge) => judge.lock().unwrap_or_else(PoisonError::into_inner)(write),
        }
    }
}
