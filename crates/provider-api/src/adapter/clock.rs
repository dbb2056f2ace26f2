//! The time that quotas and schedules are counted in. A test can move it on, so that a long watch takes
//! a short test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The monotonic time of the process, and how much of it a test has skipped. Clones skip together.
#[derive(Debug, Clone, Default)]
pub struct SkippingClock {
    skipped_millis: Arc<AtomicU64>,
}

impl SkippingClock {
    /// The present time.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.skipped_millis.load(Ordering::Relaxed))
    }

    /// Moves time on.
    pub fn skip(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.skipped_millis.fetch_add(millis, Ordering::Relaxed);
    }
}
