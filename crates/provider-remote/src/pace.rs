//! How fast a provider may report changes, and how soon a failed connect is tried again. Pure.

use std::time::{Duration, Instant};

/// How many messages a stream may send at once.
const BURST: f64 = 200_000.0;
/// How many messages a stream may send per second in the long run.
const PER_SECOND: f64 = 20_000.0;
/// The pause after the first failed connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two connects.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The budget of one stream.
pub(crate) struct Budget {
    left: f64,
    at: Instant,
}

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            at: now,
        }
    }

    /// Takes one message from the budget; false when it is used up.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at);
        self.at = now;
        self.left = (self.left + since.as_secs_f64() * PER_SECOND).min(BURST) - 1.0;
        self.left >= 0.0
    }
}

/// The pause after so many failed connects in a row.
pub(crate) fn pause(failures: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.clamp(1, 16).saturating_sub(1));
    doubled.min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_a_flood_does_not() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert!((0..200_000).all(|_| budget.take(start)));
        assert!(!budget.take(start));
        let later = start + Duration::from_secs(1);
        assert!((0..19_000).all(|_| budget.take(later)));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<_> = (1..9).map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    }
}
