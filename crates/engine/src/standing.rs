//! Whether this process owns the store, for those who read past the keeper.
//!
//! A process that stands by beside the owner of a shared store does not know which workers are connected and learns
//! of no change: it must not answer. The same is true after the end of its lease, which the keeper may notice later: a
//! process that was paused wakes with its memory, while another process has changed the store. A store that is only
//! broken can still be read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

use crate::EngineError;
use crate::error::Result;
use crate::store::{Epoch, LeaseEnd};

/// Shared by the keeper, the readers and the webhooks.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Why nothing may be read.
    standby: Mutex<Option<EngineError>>,
    /// The end of the lease, if the store has one.
    lease: OnceLock<Arc<LeaseEnd>>,
    /// The epoch in which this process last became the owner.
    epoch: AtomicU64,
    /// Where the process that owns the store is reached, while this one stands by.
    active: watch::Sender<Option<Arc<str>>>,
}

impl Standing {
    /// Refuses if another process owns the store, or may own it.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(error) = &*self.standby() {
            return Err(error.clone());
        }
        match self.lease.get() {
            Some(lease) => Ok(lease.check()?),
            None => Ok(()),
        }
    }

    /// Nothing may be read after the end of this lease.
    pub(crate) fn end_with(&self, lease: Arc<LeaseEnd>) {
        // A process has one store.
        let _ = self.lease.set(lease);
    }

    /// The epoch in which this process last became the owner.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch.load(Ordering::Acquire)
    }

    /// Another process owns the store. It is reached at this address, if it has one.
    pub(crate) fn lost(&self, error: EngineError, active: Option<&str>) {
        *self.standby() = Some(error);
        self.set_active(active);
    }

    /// This process owns the store.
    pub(crate) fn owned(&self, epoch: Epoch) {
        self.epoch.store(epoch, Ordering::Release);
        *self.standby() = None;
        self.set_active(None);
    }

    /// Where the process that owns the store is reached; nothing while this process owns it, and while the address is
    /// not known.
    pub(crate) fn active(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.active.subscribe()
    }

    fn set_active(&self, address: Option<&str>) {
        self.active.send_if_modified(|active| {
            let changed = active.as_deref() != address;
            if changed {
                *active = address.map(Arc::from);
            }
            changed
        });
    }

    fn standby(&self) -> MutexGuard<'_, Option<EngineError>> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::{LeaseClock, StoreError};

    #[test]
    fn nothing_is_read_after_the_end_of_the_lease() {
        let standing = Standing::default();
        standing.owned(1);
        standing.check().unwrap();
        let lease = Arc::new(LeaseEnd::new("postgres://a@b/c".to_owned()));
        standing.end_with(Arc::clone(&lease));
        lease.extend(LeaseClock::now(), Duration::from_secs(3_600));
        standing.check().unwrap();
        lease.extend(LeaseClock::now(), Duration::ZERO);
        let refused = standing.check().unwrap_err();
        assert_eq!(refused.reason, "STORE_UNREACHABLE");
    }

    #[test]
    fn the_active_process_is_reported_while_this_one_stands_by() {
        let standing = Standing::default();
        let mut active = standing.active();
        let lost = |address: Option<&str>| {
            let error = StoreError::Standby {
                owner: "another gateway".to_owned(),
                address: address.map(str::to_owned),
            };
            standing.lost(error.into(), address);
        };
        lost(Some("http://127.0.0.1:1"));
        assert!(active.has_changed().unwrap());
        assert_eq!(
            active.borrow_and_update().as_deref(),
            Some("http://127.0.0.1:1")
        );
        lost(Some("http://127.0.0.1:1"));
        assert!(!active.has_changed().unwrap());
        standing.owned(2);
        assert_eq!(active.borrow_and_update().as_deref(), None);
    }
}
