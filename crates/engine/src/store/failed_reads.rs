//! A store that notes that a read failed.
//!
//! The keeper decides on the basis of many reads, some of them deep in its own work, where no caller
//! waits for an error. A turn with a failed read must not be written: it may have missed an execution
//! that is due, or a parent that waits. Damage is no failure of this kind: it stays.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use stateway_model::SubState;

use super::layer::layered_reading;
use super::{
    Answered, Branch, Commit, DefinitionReading, EachRow, Epoch, ExecutionRow, Hash, LogReading,
    Reading, RequestReading, Result, RowReading, Snapshot, Store, StoreError, Turn,
};
use crate::request::{DefinitionRecord, DisabledTrigger, EventRecord, ListQuery};

/// A layer over a store.
#[derive(Debug)]
struct NotesFailedReads<P> {
    inner: P,
    failed: FailedReads,
}

/// The message of the first failed read, shared with the layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailedReads(Arc<Mutex<Option<String>>>);

/// Puts the layer over a store.
pub(crate) fn note_failed_reads(store: Box<dyn Store>) -> (Box<dyn Store>, FailedReads) {
    let failed = FailedReads::default();
    let layer = NotesFailedReads {
        inner: store,
        failed: failed.clone(),
    };
    (Box::new(layer), failed)
}

impl FailedReads {
    /// Puts the layer over a reader.
    pub(crate) fn note_in(&self, reader: Box<dyn Reading + Send>) -> Box<dyn Reading + Send> {
        Box::new(NotesFailedReads {
            inner: reader,
            failed: self.clone(),
        })
    }

    /// The first read that failed since this was last called.
    pub(crate) fn take(&self) -> Option<StoreError> {
        self.lock().take().map(StoreError::Failed)
    }

    fn note(&self, error: &StoreError) {
        self.lock().get_or_insert_with(|| match error {
            StoreError::Failed(why) => why.clone(),
            other => other.to_string(),
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> NotesFailedReads<P> {
    fn over<Q>(&self, inner: Q) -> NotesFailedReads<Q> {
        NotesFailedReads {
            inner,
            failed: self.failed.clone(),
        }
    }

    fn read<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let done = work();
        match &done {
            Ok(_) | Err(StoreError::Corrupt { .. }) => {}
            Err(error) => self.failed.note(error),
        }
        done
    }
}

layered_reading!(NotesFailedReads);

impl Store for NotesFailedReads<Box<dyn Store>> {
    fn own(&mut self) -> Result<Epoch> {
        self.inner.own()
    }

    fn check(&self) -> Result<()> {
        self.inner.check()
    }

    fn commit(&mut self, turn: &Turn) -> Commit {
        self.inner.commit(turn)
    }

    fn last_position(&self) -> i64 {
        self.inner.last_position()
    }
}
