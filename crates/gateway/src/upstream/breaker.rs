//! A circuit breaker as a pure value: failures and the time go in, admission comes out.

use std::time::{Duration, Instant};

/// Stops calling a provider that keeps failing, and lets one call through now and then to see.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures_to_open: u32,
    cool_down: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen,
}

/// What the breaker shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Calls go through.
    Closed,
    /// Calls are refused at once.
    Open,
    /// One call is under way to see.
    HalfOpen,
}

impl Breaker {
    pub(crate) const fn new(failures_to_open: u32, cool_down: Duration) -> Self {
        Self {
            failures_to_open,
            cool_down,
            state: State::Closed { failures: 0 },
        }
    }

    pub(crate) const fn position(&self) -> Position {
        match self.state {
            State::Closed { .. } => Position::Closed,
            State::Open { .. } => Position::Open,
            State::HalfOpen => Position::HalfOpen,
        }
    }

    /// Whether a call may go through now; if not, how long to wait.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match self.state {
            State::Closed { .. } => Ok(()),
            State::Open { until } if now < until => Err(until - now),
            State::Open { .. } => {
                self.state = State::HalfOpen;
                Ok(())
            }
            State::HalfOpen => Err(self.cool_down),
        }
    }

    /// The engine answered, be it with a refusal.
    pub(crate) const fn answered(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// The engine did not answer.
    pub(crate) fn failed(&mut self, now: Instant) {
        let failures = match self.state {
            State::Closed { failures } => failures + 1,
            State::HalfOpen => self.failures_to_open,
            // A straggler from before the breaker opened tells nothing new.
            State::Open { .. } => return,
        };
        self.state = if failures >= self.failures_to_open {
            State::Open {
                until: now + self.cool_down,
            }
        } else {
            State::Closed { failures }
        };
    }

    /// The caller went away before the engine could show anything.
    pub(crate) const fn abandoned(&mut self, now: Instant) {
        if let State::HalfOpen = self.state {
            self.state = State::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOL_DOWN: Duration = Duration::from_secs(5);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(3, COOL_DOWN);
        for _ in 0..3 {
            breaker.admit(now).unwrap();
            breaker.failed(now);
        }
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let now = Instant::now();
        let mut breaker = Breaker::new(3, COOL_DOWN);
        for _ in 0..10 {
            breaker.failed(now);
            breaker.failed(now);
            breaker.answered();
        }
        assert_eq!(breaker.position(), Position::Closed);
        assert_eq!(opened(now).position(), Position::Open);
    }

    #[test]
    fn while_open_it_refuses_and_says_for_how_long() {
        let now = Instant::now();
        assert_eq!(
            opened(now).admit(now + COOL_DOWN / 5),
            Err(COOL_DOWN / 5 * 4)
        );
    }

    #[test]
    fn after_the_cool_down_one_call_decides() {
        let now = Instant::now();
        let later = now + COOL_DOWN;
        let mut recovering = opened(now);
        assert_eq!(recovering.admit(later), Ok(()));
        assert!(
            recovering.admit(later).is_err(),
            "a second call went through"
        );
        recovering.answered();
        assert_eq!(recovering.position(), Position::Closed);

        let mut still_down = opened(now);
        still_down.admit(later).unwrap();
        still_down.failed(later);
        assert_eq!(still_down.position(), Position::Open);
        assert!(still_down.admit(later).is_err());
    }

    #[test]
    fn an_abandoned_probe_does_not_block_the_next() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.admit(now + COOL_DOWN).unwrap();
        breaker.abandoned(now + COOL_DOWN);
        assert_eq!(breaker.admit(now + COOL_DOWN), Ok(()));
    }
}
