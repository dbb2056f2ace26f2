//! How fast a provider may report changes, and how soon a failed connect is tried again. Pure.

use std::time::{Duration, Instant};

/// How much a provider may send over all of its watches.
const MESSAGES: Limit = Limit {
    burst: 200_000.0,
    per_second: 20_000.0,
};
/// The same in bytes: large messages are a flood too.
const BYTES: Limit = Limit {
    burst: 536_870_912.0,
    per_second: 16_777_216.0,
};
/// How long a provider that floods is not watched.
const FLOOD_PAUSE: Duration = Duration::from_secs(10);
/// The pause after the first failed connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two connects.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct Limit {
    /// In a short time.
    burst: f64,
    /// In the long run.
    per_second: f64,
}

/// What is left of one limit.
struct Allowance {
    limit: Limit,
    left: f64,
}

impl Allowance {
    const fn new(limit: Limit) -> Self {
        let left = limit.burst;
        Self { limit, left }
    }

    fn take(&mut self, since: Duration, amount: f64) -> bool {
        let refilled = self.left + since.as_secs_f64() * self.limit.per_second;
        let left = refilled.min(self.limit.burst) - amount;
        self.left = left.max(0.0);
        left >= 0.0
    }
}

/// The budget of all watches of one provider. It outlives a watch: opening one again brings no new budget.
pub(crate) struct Budget {
    messages: Allowance,
    bytes: Allowance,
    at: Instant,
    paused_until: Option<Instant>,
}

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            messages: Allowance::new(MESSAGES),
            bytes: Allowance::new(BYTES),
            at: now,
            paused_until: None,
        }
    }

    /// The same with another limit of messages.
    pub(crate) fn with_messages(mut self, burst: u32, per_second: u32) -> Self {
        self.messages = Allowance::new(Limit {
            burst: burst.into(),
            per_second: per_second.into(),
        });
        self
    }

    /// Takes one message of this size from the budget; false when it is used up, which begins a pause.
    pub(crate) fn take(&mut self, now: Instant, bytes: usize) -> bool {
        let since = now.saturating_duration_since(self.at);
        self.at = now;
        let has_messages = self.messages.take(since, 1.0);
        let has_bytes = self.bytes.take(since, bytes as f64);
        let is_within = has_messages && has_bytes;
        if !is_within {
            self.pause(now);
        }
        is_within
    }

    /// Begins a pause.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused_until = Some(now + FLOOD_PAUSE);
    }

    /// Whether the provider flooded a short time ago.
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }
}

/// The pause after this number of failed connects in a row.
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
        assert!((0..200_000).all(|_| budget.take(start, 100)));
        assert!(!budget.is_paused(start) && !budget.take(start, 100));
        let later = start + Duration::from_secs(1);
        assert!(budget.is_paused(later) && !budget.is_paused(start + FLOOD_PAUSE));
        assert!((0..19_000).all(|_| budget.take(later, 100)));
    }

    #[test]
    fn large_messages_are_a_flood_too() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert!((0..128).all(|_| budget.take(start, 4 * 1024 * 1024)));
        assert!(!budget.take(start, 4 * 1024 * 1024));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<_> = (1..9).map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    }
}
