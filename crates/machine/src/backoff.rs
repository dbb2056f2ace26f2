//! The pause before the next attempt. The same execution, step and attempt always give
//! the same pause, so that a replay decides what the live run decided.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stateway_definition::{Backoff, RetryPolicy};

/// The pause after the `failures`-th failure in a row (from 1).
///
/// constant: d · linear: d × n · exponential: d × 2^(n−1); never more than `maxDelay`, then
/// shortened by up to `jitter`.
#[must_use]
pub(crate) fn pause(policy: &RetryPolicy, failures: u32, seed: u64) -> Duration {
    let n = failures.max(1);
    let factor = match policy.backoff {
        Backoff::Constant => 1,
        Backoff::Linear => n,
        Backoff::Exponential => 1_u32.checked_shl(n - 1).unwrap_or(u32::MAX),
    };
    let grown = policy
        .initial_delay
        .saturating_mul(factor)
        .min(policy.max_delay);
    let kept = 1.0 - policy.jitter.clamp(0.0, 1.0) * fraction(seed);
    whole_millis(grown.mul_f64(kept))
}

/// What makes a pause this attempt's own: FNV-1a over execution, step and attempt.
#[must_use]
pub(crate) fn seed(execution: &str, step: &str, attempt: u32) -> u64 {
    let bytes = execution
        .bytes()
        .chain([0])
        .chain(step.bytes())
        .chain(attempt.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A number from 0 up to 1, spread evenly (splitmix64's finisher).
fn fraction(seed: u64) -> f64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let bits = u32::try_from(mixed >> 32).unwrap_or(u32::MAX);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// Serde for an optional pause as whole milliseconds.
pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[allow(clippy::ref_option)] // Serde hands it over like this.
    pub(crate) fn serialize<S: Serializer>(
        pause: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let millis = pause.map(|pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        millis.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// A later moment; the last whole millisecond when there is none.
#[must_use]
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_add(by).ok())
        .unwrap_or_else(|| whole(Timestamp::MAX))
}

/// Events hold whole milliseconds; the machine must not know more than they do.
pub(crate) fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(policy: &RetryPolicy) -> Vec<u128> {
        (1..=8)
            .map(|n| pause(policy, n, 7).as_secs().into())
            .collect()
    }

    #[test]
    fn the_three_curves_of_a_back_off() {
        let policy = |backoff, seconds| RetryPolicy {
            backoff,
            initial_delay: Duration::from_secs(seconds),
            ..RetryPolicy::default()
        };
        assert_eq!(pauses(&policy(Backoff::Constant, 5))[..3], [5, 5, 5]);
        assert_eq!(pauses(&policy(Backoff::Linear, 5))[..3], [5, 10, 15]);
        assert_eq!(
            pauses(&policy(Backoff::Exponential, 1)),
            [1, 2, 4, 8, 16, 32, 60, 60]
        );
    }

    #[test]
    fn huge_counts_stay_at_the_cap() {
        let policy = RetryPolicy::default();
        assert_eq!(pause(&policy, u32::MAX, 0), Duration::from_secs(60));
    }

    #[test]
    fn jitter_replays_the_same_spreads_and_never_lengthens() {
        let policy = RetryPolicy {
            jitter: 0.5,
            ..RetryPolicy::default()
        };
        let all: Vec<_> = (0..200)
            .map(|n| pause(&policy, 1, seed("e", "s", n)))
            .collect();
        assert_eq!(
            all,
            (0..200)
                .map(|n| pause(&policy, 1, seed("e", "s", n)))
                .collect::<Vec<_>>()
        );
        assert!(
            all.iter()
                .all(|p| *p >= Duration::from_millis(500) && *p <= Duration::from_secs(1))
        );
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert!(distinct.len() > 100);
    }
}
