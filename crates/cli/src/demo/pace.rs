//! How fast a demo starts executions: quickly at first, then steadily, then a trickle.

use std::time::Duration;

/// The number of executions that start in quick succession, so that the demo shows something immediately: each kind
/// of scene once.
const OPENING: u64 = 8;

/// Between two of the opening.
const QUICK: Duration = Duration::from_millis(400);

/// After this number of starts the demo starts executions slowly, and removes older ones.
const FULL: u64 = 200;

/// Between two of the trickle: less than most executions take, so that some are always running.
const TRICKLE: Duration = Duration::from_secs(10);

/// The most starts per minute that may be asked for.
pub const MOST: u32 = 600;

/// The least.
pub const SLOWEST: u32 = 1;

/// How fast a demo starts executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    steady: Duration,
}

impl Pace {
    /// A number of starts per minute, within [`SLOWEST`] and [`MOST`].
    #[must_use]
    pub fn per_minute(starts: u32) -> Self {
        Self {
            steady: Duration::from_secs(60) / starts.clamp(SLOWEST, MOST),
        }
    }

    /// The pause after the start with this number, counted from 0.
    #[must_use]
    pub fn after(self, started: u64) -> Duration {
        match started {
            ..OPENING => QUICK.min(self.steady),
            OPENING..FULL => self.steady,
            _ => self.steady.max(TRICKLE),
        }
    }

    /// How many ended executions are kept.
    pub(super) const fn kept() -> usize {
        FULL as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opening_is_quick_and_the_end_a_trickle() {
        let pace = Pace::per_minute(30);
        let pauses = [0, OPENING, FULL - 1, FULL, 1_000_000].map(|turn| pace.after(turn));
        let two = Duration::from_secs(2);
        assert_eq!(pauses, [QUICK, two, two, TRICKLE, TRICKLE]);
    }

    #[test]
    fn a_slow_pace_is_never_hurried_after_the_opening() {
        let pace = Pace::per_minute(SLOWEST);
        assert_eq!(pace.after(FULL), Duration::from_secs(60));
        assert_eq!(Pace::per_minute(0), pace);
    }

    #[test]
    fn a_fast_pace_has_no_slower_opening() {
        assert_eq!(Pace::per_minute(MOST).after(0), Duration::from_millis(100));
    }
}
