//! Token buckets per API, so that this gateway stays inside the service's quotas by itself. The
//! figures are AWS's defaults and can be configured. Pure but for the clock at its edge.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Clock;
use serde::Deserialize;
use stateway_provider_api::{Call, Error, ErrorKind, Result, Verb};

/// A call of the service, as far as this adapter makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Api {
    /// Starts.
    StartExecution,
    /// One execution.
    DescribeExecution,
    /// Pages of a history.
    GetExecutionHistory,
    /// The definition an execution runs.
    DescribeStateMachineForExecution,
    /// Pages of executions.
    ListExecutions,
    /// Pages of state machines.
    ListStateMachines,
    /// Ends.
    StopExecution,
    /// Goes on after a failure.
    RedriveExecution,
    /// Answers a task.
    SendTaskSuccess,
    /// Lets a task fail.
    SendTaskFailure,
    /// Keeps a task alive.
    SendTaskHeartbeat,
    /// Takes the next task of an activity.
    GetActivityTask,
    /// The items of a distributed Map.
    DescribeMapRun,
    /// One state machine.
    DescribeStateMachine,
    /// Its versions.
    ListStateMachineVersions,
    /// Its tags.
    ListTagsForResource,
    /// Puts tags on it.
    TagResource,
    /// Makes one.
    CreateStateMachine,
    /// Changes one.
    UpdateStateMachine,
    /// Checks one.
    ValidateStateMachineDefinition,
}

impl Api {
    /// Every one.
    pub const ALL: [Self; 20] = [
        Self::StartExecution,
        Self::DescribeExecution,
        Self::GetExecutionHistory,
        Self::DescribeStateMachineForExecution,
        Self::ListExecutions,
        Self::ListStateMachines,
        Self::StopExecution,
        Self::RedriveExecution,
        Self::SendTaskSuccess,
        Self::SendTaskFailure,
        Self::SendTaskHeartbeat,
        Self::GetActivityTask,
        Self::DescribeMapRun,
        Self::DescribeStateMachine,
        Self::ListStateMachineVersions,
        Self::ListTagsForResource,
        Self::TagResource,
        Self::CreateStateMachine,
        Self::UpdateStateMachine,
        Self::ValidateStateMachineDefinition,
    ];

    /// Whether a call whose answer was lost may be made again. A task's answer may have been taken
    /// although nobody heard of it, and then the second one is refused; a task that was handed out
    /// is gone.
    #[must_use]
    pub const fn is_repeatable(self) -> bool {
        !matches!(
            self,
            Self::SendTaskSuccess | Self::SendTaskFailure | Self::GetActivityTask
        )
    }

    /// AWS's defaults. Three regions have larger ones.
    #[must_use]
    pub fn default_quota(self, region: &str) -> Quota {
        let big = ["us-east-1", "us-west-2", "eu-west-1"].contains(&region);
        let (burst, per_second) = match (self, big) {
            (Self::StartExecution | Self::RedriveExecution, true) => (1_300, 300),
            (Self::StartExecution | Self::RedriveExecution, false) => (800, 150),
            (Self::DescribeExecution, true) => (300, 15),
            (Self::DescribeExecution, false) => (250, 10),
            (Self::GetExecutionHistory, _) => (400, 20),
            (Self::DescribeStateMachineForExecution, _) => (200, 1),
            (Self::ListExecutions, true) => (200, 5),
            (Self::ListExecutions, false) => (100, 2),
            (Self::ListStateMachines, _) => (100, 5),
            (Self::StopExecution, true) => (1_000, 200),
            (Self::StopExecution, false) => (500, 25),
            (
                Self::SendTaskSuccess
                | Self::SendTaskFailure
                | Self::SendTaskHeartbeat
                | Self::GetActivityTask,
                big,
            ) => match big {
                true => (3_000, 500),
                false => (1_500, 300),
            },
            (Self::DescribeStateMachine, _) => (200, 20),
            (Self::TagResource | Self::DescribeMapRun, _) => (200, 1),
            (
                Self::ListStateMachineVersions
                | Self::ListTagsForResource
                | Self::CreateStateMachine
                | Self::UpdateStateMachine
                | Self::ValidateStateMachineDefinition,
                _,
            ) => (100, 1),
        };
        Quota { burst, per_second }
    }
}

/// How much may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// At once.
    pub burst: u32,
    /// In the long run.
    pub per_second: u32,
}

#[derive(Debug)]
struct Bucket {
    quota: Quota,
    level: f64,
    at: Instant,
}

impl Bucket {
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

/// The buckets of one account and region.
#[derive(Debug)]
pub(crate) struct Quotas {
    clock: Clock,
    buckets: BTreeMap<Api, Mutex<Bucket>>,
}

impl Quotas {
    pub(crate) fn new(region: &str, configured: &BTreeMap<Api, Quota>, clock: &Clock) -> Self {
        let now = clock.now();
        let bucket = |api: Api| {
            let own = configured.get(&api).copied();
            let quota = own.unwrap_or_else(|| api.default_quota(region));
            let level = f64::from(quota.burst);
            (
                api,
                Mutex::new(Bucket {
                    quota,
                    level,
                    at: now,
                }),
            )
        };
        Self {
            clock: clock.clone(),
            buckets: Api::ALL.into_iter().map(bucket).collect(),
        }
    }

    /// Waits for a turn, unless it would come after the deadline.
    pub(crate) async fn take(&self, api: Api, verb: Verb, call: &Call) -> Result<()> {
        let wait = self.with(api, |bucket| {
            let wait = bucket.wait();
            if wait < call.remaining() {
                bucket.level -= 1.0;
            }
            wait
        });
        if wait >= call.remaining() && !wait.is_zero() {
            return Err(Error::new(
                ErrorKind::Throttled,
                verb,
                format!("this gateway's share of {api:?} calls is used up"),
            )
            .with_hint("Ask less often, or raise the quota with AWS and in `quotas`.")
            .with_native_code("ThrottlingException")
            .with_retry_after(wait)
            .without_engine());
        }
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Takes a turn if that leaves this part of the bucket for others. Never waits.
    pub(crate) fn spare(&self, api: Api, reserve: f64) -> bool {
        self.with(api, |bucket| {
            let spare = bucket.level - 1.0 >= f64::from(bucket.quota.burst) * reserve;
            if spare {
                bucket.level -= 1.0;
            }
            spare
        })
    }

    /// How many turns could be taken now if that part of the bucket is left for others.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between none and the bucket's size"
    )]
    pub(crate) fn turns(&self, api: Api, reserve: f64) -> usize {
        self.with(api, |bucket| {
            let left = bucket.level - f64::from(bucket.quota.burst) * reserve;
            left.max(0.0) as usize
        })
    }

    /// How many turns come back in a second.
    pub(crate) fn rate(&self, api: Api) -> f64 {
        self.with(api, |bucket| f64::from(bucket.quota.per_second))
    }

    /// Whether a turn could be taken now.
    pub(crate) fn has_turn(&self, api: Api) -> bool {
        self.with(api, |bucket| bucket.level >= 1.0)
    }

    /// Takes a turn, whether there is one or not: whoever comes next waits for it.
    pub(crate) fn spend(&self, api: Api) {
        self.with(api, |bucket| bucket.level -= 1.0);
    }

    fn with<T>(&self, api: Api, look: impl FnOnce(&mut Bucket) -> T) -> T {
        let bucket = self.buckets.get(&api).expect("there is one for every API");
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.refill(self.clock.now());
        look(&mut bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(burst: u32, per_second: u32, at: Instant) -> Bucket {
        let level = f64::from(burst);
        Bucket {
            quota: Quota { burst, per_second },
            level,
            at,
        }
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = bucket(2, 10, start);
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

    #[tokio::test]
    async fn a_turn_that_would_come_too_late_is_refused_with_its_pause() {
        let none = Quota {
            burst: 0,
            per_second: 1,
        };
        let configured = BTreeMap::from([(Api::DescribeExecution, none)]);
        let quotas = Quotas::new("us-east-1", &configured, &Clock::default());
        let call = Call::within(Duration::from_millis(10));
        let refused = quotas.take(Api::DescribeExecution, Verb::Get, &call).await;
        let error = refused.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Throttled);
        assert!(
            error
                .retry_after
                .is_some_and(|pause| pause > Duration::from_millis(500))
        );
        assert!(!quotas.spare(Api::DescribeExecution, 0.0));
        assert!(quotas.spare(Api::GetExecutionHistory, 0.5));
    }
}
