//! Whether this process owns the store, for those who read past the keeper.
//!
//! A process that stands by beside the owner of a shared store does not know which workers are connected and learns
//! of no change: it must not answer. A store that is only broken can still be read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::EngineError;
use crate::error::Result;
use crate::store::Epoch;

/// Shared by the keeper, the readers and the webhooks.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Why nothing may be read.
    standby: Mutex<Option<EngineError>>,
    /// The epoch in which this process last became the owner.
    epoch: AtomicU64,
}

impl Standing {
    /// Refuses if another process owns the store.
    pub(crate) fn check(&self) -> Result<()> {
        match &*self.standby() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The epoch in which this process last became the owner.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch.load(Ordering::Acquire)
    }

    /// Another process owns the store.
    pub(crate) fn lost(&self, error: EngineError) {
        *self.standby() = Some(error);
    }

    /// This process owns the store.
    pub(crate) fn owned(&self, epoch: Epoch) {
        self.epoch.store(epoch, Ordering::Release);
        *self.standby() = None;
    }

    fn standby(&self) -> MutexGuard<'_, Option<EngineError>> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
