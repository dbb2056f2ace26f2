//! The two clocks of a simulated machine: the wall clock, which jumps, and the steady clock, which
//! does not.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Where every schedule begins: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600_000;

#[derive(Debug)]
pub(crate) struct Clock {
    /// Milliseconds.
    wall: i64,
    base: Instant,
    passed: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            wall: BEGINNING,
            // Only differences of the steady clock matter.
            base: Instant::now(),
            passed: Duration::ZERO,
        }
    }

    pub(crate) fn now(&self) -> (Timestamp, Instant) {
        (self.wall(), self.base + self.passed)
    }

    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::from_millisecond(self.wall).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Milliseconds since the beginning, by the wall clock.
    pub(crate) const fn since_beginning(&self) -> i64 {
        self.wall - BEGINNING
    }

    /// Time passes by both clocks.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.passed += time;
        let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.wall = self.wall.saturating_add(time);
    }

    /// Somebody sets the wall clock.
    pub(crate) const fn jump(&mut self, milliseconds: i64) {
        self.wall = self.wall.saturating_add(milliseconds);
    }
}
