//! How long to wait before trying again, and when to stop.

use std::time::Duration;

/// Growing delays between retries, with a maximum delay and a maximum number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackOff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
    /// The maximum number of retries.
    pub(crate) most: u32,
}

impl BackOff {
    /// For single calls: the caller waits, so it is short.
    pub(crate) const CALL: Self = Self {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(2),
        most: 3,
    };

    /// For watches: long enough for a gateway to be restarted.
    pub(crate) const WATCH: Self = Self {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(5),
        most: 12,
    };

    /// The delay before retry number `retry` (from 1), or none if the maximum is reached.
    ///
    /// The delay is never shorter than the gateway asks for. `spread` in 0..=255 shortens the delay
    /// by up to a half, so that many clients do not retry at the same time.
    pub(crate) fn pause(
        &self,
        retry: u32,
        asked: Option<Duration>,
        spread: u8,
    ) -> Option<Duration> {
        if retry > self.most {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << (retry - 1).min(16));
        let full = doubled.min(self.longest);
        let pause = full - full.mul_f64(f64::from(spread) / 512.0);
        Some(pause.max(asked.unwrap_or_default()))
    }
}

/// A random byte for [`BackOff::pause`].
pub(crate) fn spread() -> u8 {
    uuid::Uuid::new_v4().as_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_then_end() {
        let back_off = BackOff {
            first: Duration::from_millis(100),
            longest: Duration::from_millis(300),
            most: 3,
        };
        let pauses: Vec<_> = (1..=4)
            .map(|retry| back_off.pause(retry, None, 0))
            .collect();
        let millis = |n| Some(Duration::from_millis(n));
        assert_eq!(pauses, [millis(100), millis(200), millis(300), None]);
    }

    #[test]
    fn what_the_gateway_asks_for_is_never_undercut() {
        let asked = Some(Duration::from_secs(4));
        assert_eq!(BackOff::CALL.pause(1, asked, 255), asked);
    }

    #[test]
    fn spreading_takes_half_at_most() {
        let pause = BackOff::CALL.pause(1, None, 255).unwrap();
        assert!(pause >= Duration::from_millis(50) && pause < Duration::from_millis(51));
    }
}
