//! A circuit breaker as a pure value: outcomes and the time go in, admission comes out.

use std::time::{Duration, Instant};

/// The longest pause between two probes, in cool-downs.
const LONGEST_PAUSE: u32 = 8;

/// Stops calling a provider that keeps failing, and admits one call now and then as a probe. The pause
/// between probes doubles with each probe that fails.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures_to_open: u32,
    cool_down: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, pause: Duration },
    HalfOpen { pause: Duration },
}

/// What the breaker shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Calls are made.
    Closed,
    /// Calls are refused immediately.
    Open,
    /// One call is under way as a probe.
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
            State::HalfOpen { .. } => Position::HalfOpen,
        }
    }

    /// Closed without a failure.
    pub(crate) const fn is_calm(&self) -> bool {
        matches!(self.state, State::Closed { failures: 0 })
    }

    /// Whether a call may be made now; if not, how long to wait. Only a call that `may_probe` is
    /// admitted after the cool-down.
    pub(crate) fn admit(&mut self, now: Instant, may_probe: bool) -> Result<(), Duration> {
        match self.state {
            State::Closed { .. } => Ok(()),
            State::Open { until, .. } if now < until => Err(until - now),
            State::Open { pause, .. } if may_probe => {
                self.state = State::HalfOpen { pause };
                Ok(())
            }
            State::Open { .. } | State::HalfOpen { .. } => Err(self.cool_down),
        }
    }

    /// The engine answered, be it with a refusal.
    pub(crate) const fn answered(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// The engine did not answer, or the adapter failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.state = match self.state {
            State::Closed { failures } if failures + 1 < self.failures_to_open => State::Closed {
                failures: failures + 1,
            },
            State::Closed { .. } => self.open(now, self.cool_down),
            State::HalfOpen { pause } => {
                let longest = self.cool_down.saturating_mul(LONGEST_PAUSE);
                self.open(now, pause.saturating_mul(2).min(longest))
            }
            // A call from before the breaker opened shows nothing new.
            open @ State::Open { .. } => open,
        };
    }

    /// The call ended without an answer and without a fair chance of one. A probe is repeated after
    /// the same pause.
    pub(crate) fn cut_off(&mut self, now: Instant) {
        if let State::HalfOpen { pause } = self.state {
            self.state = self.open(now, pause);
        }
    }

    /// The engine was not asked. The next call may probe immediately.
    pub(crate) const fn not_asked(&mut self, now: Instant) {
        if let State::HalfOpen { pause } = self.state {
            self.state = State::Open { until: now, pause };
        }
    }

    fn open(&self, now: Instant, pause: Duration) -> State {
        State::Open {
            until: now + pause,
            pause,
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
            breaker.admit(now, true).unwrap();
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
            opened(now).admit(now + COOL_DOWN / 5, true),
            Err(COOL_DOWN / 5 * 4)
        );
    }

    #[test]
    fn after_the_cool_down_one_call_decides() {
        let now = Instant::now();
        let later = now + COOL_DOWN;
        let mut recovering = opened(now);
        assert_eq!(recovering.admit(later, true), Ok(()));
        assert!(
            recovering.admit(later, true).is_err(),
            "a second call was made"
        );
        recovering.answered();
        assert_eq!(recovering.position(), Position::Closed);

        let mut still_down = opened(now);
        still_down.admit(later, true).unwrap();
        still_down.failed(later);
        assert_eq!(still_down.position(), Position::Open);
        assert!(still_down.admit(later, true).is_err());
    }

    #[test]
    fn the_pause_between_probes_doubles_up_to_a_bound_and_an_answer_resets_it() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let pause = breaker.admit(now, true).unwrap_err();
            pauses.push(pause.as_secs());
            now += pause;
            breaker.admit(now, true).unwrap();
            breaker.failed(now);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 40]);
        now += COOL_DOWN * LONGEST_PAUSE;
        breaker.admit(now, true).unwrap();
        breaker.answered();
        for _ in 0..3 {
            breaker.failed(now);
        }
        assert_eq!(breaker.admit(now, true), Err(COOL_DOWN));
    }

    #[test]
    fn a_call_that_may_not_probe_is_refused_until_a_probe_was_answered() {
        let now = Instant::now();
        let later = now + COOL_DOWN * 2;
        let mut breaker = opened(now);
        assert!(breaker.admit(later, false).is_err());
        assert_eq!(breaker.position(), Position::Open);
        breaker.admit(later, true).unwrap();
        breaker.answered();
        assert_eq!(breaker.admit(later, false), Ok(()));
    }

    #[test]
    fn a_probe_that_is_cut_off_is_repeated_after_the_same_pause() {
        let now = Instant::now();
        let later = now + COOL_DOWN;
        let mut breaker = opened(now);
        breaker.admit(later, true).unwrap();
        breaker.cut_off(later);
        assert_eq!(breaker.admit(later, true), Err(COOL_DOWN));
        assert_eq!(breaker.admit(later + COOL_DOWN, true), Ok(()));
    }

    #[test]
    fn a_probe_that_did_not_ask_the_engine_does_not_block_the_next() {
        let now = Instant::now();
        let later = now + COOL_DOWN;
        let mut breaker = opened(now);
        breaker.admit(later, true).unwrap();
        breaker.not_asked(later);
        assert_eq!(breaker.position(), Position::Open);
        assert_eq!(breaker.admit(later, true), Ok(()));
    }
}
