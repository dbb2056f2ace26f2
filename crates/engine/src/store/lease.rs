//! The end of the lease of a shared store, as the process that owns the store knows it without asking.
//!
//! The clock counts the time in which the machine was suspended: a process that wakes must not believe in a lease that
//! ended while it slept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{Result, StoreError};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
/// Here the monotonic clock counts the time of a suspension, or the system has no clock that does.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A moment by the clock of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseClock(Duration);

impl LeaseClock {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(CLOCK);
        // This clock begins with the machine and is never negative.
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanos))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

/// The end of a lease, shared by the owner of the store and by those who read past the keeper.
#[derive(Debug)]
pub(crate) struct LeaseEnd {
    /// The address of the store for people.
    store: String,
    /// Nanoseconds of the clock; zero without a lease.
    until: AtomicU64,
}

impl LeaseEnd {
    pub(crate) const fn new(store: String) -> Self {
        Self {
            store,
            until: AtomicU64::new(0),
        }
    }

    /// The lease lasts this long from the moment at which the request was sent that extended it.
    pub(crate) fn extend(&self, sent: LeaseClock, lease: Duration) {
        let until = sent.0.saturating_add(lease).as_nanos();
        let until = u64::try_from(until).unwrap_or(u64::MAX);
        self.until.store(until, Ordering::Release);
    }

    /// This process is not the owner any more.
    pub(crate) fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Fails if the lease has ended, or if this process has none.
    pub(crate) fn check(&self) -> Result<()> {
        let until = Duration::from_nanos(self.until.load(Ordering::Acquire));
        if LeaseClock::now().0 < until {
            return Ok(());
        }
        Err(self.ended())
    }

    /// The error of a lease that has ended.
    pub(crate) fn ended(&self) -> StoreError {
        StoreError::Unreachable {
            store: self.store.clone(),
            why: "the lease of the store has ended or was lost".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_the_clock_and_when_it_is_lost() {
        let lease = LeaseEnd::new("postgres://a@b/c".to_owned());
        let day = Duration::from_secs(24 * 3_600);
        assert!(lease.check().is_err());
        lease.extend(LeaseClock::now(), day);
        lease.check().unwrap();
        lease.end();
        assert!(lease.check().is_err());
        lease.extend(LeaseClock(Duration::ZERO), Duration::from_nanos(1));
        let error = lease.check().unwrap_err();
        assert_eq!(error.reason(), "STORE_UNREACHABLE");
    }
}
