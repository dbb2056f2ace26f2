//! A token bucket: a rate, and a burst of one second of it.

use std::time::{Duration, Instant};

/// How many tokens are left, as of a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    /// Tokens per second; none for no limit.
    rate: Option<f64>,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn new(rate: Option<f64>, now: Instant) -> Self {
        Self {
            rate,
            tokens: rate.map_or(0.0, most),
            at: now,
        }
    }

    /// Takes a token, or says when there will be one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let Some(rate) = self.rate else {
            return Ok(());
        };
        self.tokens = self.filled(rate, now);
        self.at = self.at.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            Ok(())
        } else {
            Err(Duration::from_secs_f64((1.0 - self.tokens) / rate))
        }
    }

    /// Whether nothing would be different if it were made now.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.rate
            .is_none_or(|rate| self.filled(rate, now) >= most(rate))
    }

    fn filled(&self, rate: f64, now: Instant) -> f64 {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * rate;
        (self.tokens + earned).min(most(rate))
    }
}

/// A burst of one second, and one call at least.
const fn most(rate: f64) -> f64 {
    rate.max(1.0)
}
