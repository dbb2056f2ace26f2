//! How soon to look again: often while things change, seldom when they do not.

use std::time::Duration;

/// Adaptive polling as a pure value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    fastest: Duration,
    slowest: Duration,
    current: Duration,
}

impl Pace {
    pub(crate) const fn new(fastest: Duration, slowest: Duration) -> Self {
        Self {
            fastest,
            slowest,
            current: fastest,
        }
    }

    /// The pause before the next look, after one that found a change or not. An execution with a
    /// known next event, such as a scheduled attempt, is read at that time.
    pub(crate) fn next(&mut self, changed: bool, known_event: Option<Duration>) -> Duration {
        self.current = if changed {
            self.fastest
        } else {
            (self.current * 2).clamp(self.fastest, self.slowest)
        };
        let event = known_event.map(|event| event.max(self.fastest));
        self.current.min(event.unwrap_or(self.current))
    }

    /// The pause after a look that failed.
    pub(super) fn after_failure(&mut self) -> Duration {
        self.current = self.slowest;
        self.slowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FASTEST: Duration = Duration::from_millis(250);
    const SLOWEST: Duration = Duration::from_secs(5);

    #[test]
    fn it_slows_down_to_the_slowest_and_speeds_up_at_once() {
        let mut pace = Pace::new(FASTEST, SLOWEST);
        let pauses: Vec<_> = (0..7).map(|_| pace.next(false, None).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 5000, 5000, 5000]);
        assert_eq!(pace.next(true, None), FASTEST);
    }

    #[test]
    fn a_known_event_brings_the_look_forward_but_not_into_a_storm() {
        let mut pace = Pace::new(FASTEST, SLOWEST);
        for _ in 0..6 {
            pace.next(false, None);
        }
        assert_eq!(
            pace.next(false, Some(Duration::from_secs(1))),
            Duration::from_secs(1)
        );
        assert_eq!(pace.next(false, Some(Duration::ZERO)), FASTEST);
        assert_eq!(pace.next(false, Some(Duration::from_secs(60))), SLOWEST);
    }
}
