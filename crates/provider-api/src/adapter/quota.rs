//! Token buckets per API of an engine, so that an adapter stays inside the engine's quotas by itself.
//! Waiting is left to the caller, so nothing here needs a runtime.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{SkippingClock, lock};
use crate::{Call, Error, ErrorKind, Result, Verb};

/// How often an API may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Calls in one burst.
    pub burst: u32,
    /// Calls per second in the long run.
    pub per_second: u32,
}

#[derive(Debug)]
struct Bucket {
    quota: Quota,
    level: f64,
    at: Instant,
}

impl Bucket {
    fn full(quota: Quota, at: Instant) -> Self {
        let level = f64::from(quota.burst);
        Self { quota, level, at }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        let level = self.level + passed * f64::from(self.quota.per_second);
        self.level = level.min(f64::from(self.quota.burst));
        self.at = now;
    }

    /// How long a call made now has to wait for its turn.
    fn wait(&self) -> Duration {
        let missing = (1.0 - self.level).max(0.0);
        Duration::try_from_secs_f64(missing / f64::from(self.quota.per_second.max(1)))
            .unwrap_or(Duration::MAX)
    }
}

/// The buckets of one account: one for each API.
#[derive(Debug)]
pub struct Quotas<A> {
    clock: SkippingClock,
    buckets: BTreeMap<A, Mutex<Bucket>>,
}

impl<A: Copy + Ord + Debug> Quotas<A> {
    /// Full buckets of these sizes.
    pub fn new(quotas: impl IntoIterator<Item = (A, Quota)>, clock: &SkippingClock) -> Self {
        let now = clock.now();
        let bucket = |(api, quota)| (api, Mutex::new(Bucket::full(quota, now)));
        Self {
            clock: clock.clone(),
            buckets: quotas.into_iter().map(bucket).collect(),
        }
    }

    /// Takes a turn. Returns how long the caller has to wait before the call.
    ///
    /// # Errors
    /// [`ErrorKind::Throttled`] with the pause, if the turn would come after the call's deadline. No
    /// turn is taken then.
    pub fn take(&self, api: A, verb: Verb, call: &Call) -> Result<Duration> {
        let remaining = call.remaining();
        let wait = self.with(api, |bucket| {
            let wait = bucket.wait();
            if wait < remaining {
                bucket.level -= 1.0;
            }
            wait
        });
        if wait.is_zero() || wait < remaining {
            return Ok(wait);
        }
        let message = format!("this gateway's share of {api:?} calls is used up");
        Err(Error::new(ErrorKind::Throttled, verb, message)
            .with_retry_after(wait)
            .without_engine())
    }

    /// Takes a turn if that leaves this part of the bucket for others. Never waits.
    pub fn spare(&self, api: A, reserve: f64) -> bool {
        self.with(api, |bucket| {
            let spare = bucket.level - 1.0 >= f64::from(bucket.quota.burst) * reserve;
            if spare {
                bucket.level -= 1.0;
            }
            spare
        })
    }

    /// How many turns could be taken now if this part of the bucket is left for others.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between zero and the bucket's size"
    )]
    pub fn turns(&self, api: A, reserve: f64) -> usize {
        self.with(api, |bucket| {
            let left = bucket.level - f64::from(bucket.quota.burst) * reserve;
            left.max(0.0) as usize
        })
    }

    /// How many turns are refilled per second.
    pub fn rate(&self, api: A) -> f64 {
        self.with(api, |bucket| f64::from(bucket.quota.per_second))
    }

    /// Whether a turn could be taken now.
    pub fn has_turn(&self, api: A) -> bool {
        self.with(api, |bucket| bucket.level >= 1.0)
    }

    /// Takes a turn even if none is left: the next caller waits for it.
    pub fn spend(&self, api: A) {
        self.with(api, |bucket| bucket.level -= 1.0);
    }

    /// An API without a quota has a bucket that is always full.
    fn with<T>(&self, api: A, look: impl FnOnce(&mut Bucket) -> T) -> T {
        let now = self.clock.now();
        let Some(bucket) = self.buckets.get(&api) else {
            let unlimited = Quota {
                burst: u32::MAX,
                per_second: u32::MAX,
            };
            return look(&mut Bucket::full(unlimited, now));
        };
        let mut bucket = lock(bucket);
        bucket.refill(now);
        look(&mut bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Api {
        Describe,
        History,
        Free,
    }

    const DESCRIBE: Quota = Quota {
        burst: 2,
        per_second: 10,
    };
    const HISTORY: Quota = Quota {
        burst: 4,
        per_second: 1,
    };

    fn quotas() -> (Quotas<Api>, SkippingClock) {
        let clock = SkippingClock::default();
        let sizes = [(Api::Describe, DESCRIBE), (Api::History, HISTORY)];
        (Quotas::new(sizes, &clock), clock)
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::full(DESCRIBE, start);
        for _ in 0..2 {
            assert_eq!(bucket.wait(), Duration::ZERO);
            bucket.level -= 1.0;
        }
        assert_eq!(bucket.wait(), Duration::from_millis(100));
        bucket.refill(start + Duration::from_millis(100));
        assert_eq!(bucket.wait(), Duration::ZERO);
        bucket.refill(start + Duration::from_secs(3_600));
        assert!((bucket.level - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_turn_that_would_come_too_late_is_refused_with_its_pause_and_not_taken() {
        let (quotas, clock) = quotas();
        let call = Call::within(Duration::from_millis(10));
        for _ in 0..4 {
            assert_eq!(
                quotas.take(Api::History, Verb::Get, &call).unwrap(),
                Duration::ZERO
            );
        }
        for _ in 0..2 {
            let error = quotas.take(Api::History, Verb::Get, &call).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Throttled);
            let pause = error.retry_after.unwrap();
            assert!(pause > Duration::from_millis(900), "{pause:?}");
        }
        let patient = Call::within(Duration::from_secs(60));
        let wait = quotas.take(Api::History, Verb::Get, &patient).unwrap();
        assert!(wait > Duration::from_millis(900), "{wait:?}");
        clock.skip(Duration::from_secs(2));
        assert!(quotas.has_turn(Api::History));
    }

    #[test]
    fn what_is_reserved_is_left_for_others() {
        let (quotas, _) = quotas();
        assert_eq!(quotas.turns(Api::History, 0.5), 2);
        assert!(quotas.spare(Api::History, 0.5) && quotas.spare(Api::History, 0.5));
        assert!(!quotas.spare(Api::History, 0.5));
        assert!(quotas.spare(Api::History, 0.0));
        quotas.spend(Api::History);
        assert!(!quotas.has_turn(Api::History));
    }

    #[test]
    fn an_api_without_a_quota_is_never_refused() {
        let (quotas, _) = quotas();
        for _ in 0..1_000 {
            assert!(quotas.spare(Api::Free, 0.9));
        }
    }
}
