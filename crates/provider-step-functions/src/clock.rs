//! The time that quotas and paces are counted in. It can be moved on, so that a long watch can be
//! tested in a short one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The process's own time, and what was skipped of it. Copies skip together.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    skipped_millis: Arc<AtomicU64>,
}

impl Clock {
    /// What time it is here.
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
