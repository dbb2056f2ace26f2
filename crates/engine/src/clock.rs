//! The clock: of the system, or of a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use std::time::Instant;

use jiff::Timestamp;

/// A point in time by both clocks: timers follow the wall clock, leases follow the steady clock, which
/// cannot be set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) wall: Timestamp,
    pub(crate) steady: Instant,
}

/// A source of time, in whole milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    hand: Option<Arc<AtomicI64>>,
}

impl Clock {
    /// The system's time.
    #[must_use]
    pub const fn system() -> Self {
        Self { hand: None }
    }

    /// A clock that stands until it is moved.
    #[must_use]
    pub fn manual(at: Timestamp) -> Self {
        Self {
            hand: Some(Arc::new(AtomicI64::new(at.as_millisecond()))),
        }
    }

    /// Moves a manual clock, forwards or backwards; the system's time cannot be moved.
    pub fn advance(&self, milliseconds: i64) {
        if let Some(hand) = &self.hand {
            hand.fetch_add(milliseconds, Ordering::SeqCst);
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let Some(hand) = &self.hand else {
            let now = Timestamp::now().as_millisecond();
            return Timestamp::from_millisecond(now).unwrap_or(Timestamp::UNIX_EPOCH);
        };
        Timestamp::from_millisecond(hand.load(Ordering::SeqCst)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// The time by both clocks.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            wall: self.now(),
            steady: Instant::now(),
        }
    }

    /// Whether it is moved manually, so that waiting for it means checking again soon.
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        self.hand.is_some()
    }
}
