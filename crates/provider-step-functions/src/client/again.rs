//! When a call is made again. The SDK's standard mode does it, for throttles and for failures that
//! pass; this says how often, and forbids it where it would be unsafe, too late or over the quota.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_sfn::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_sfn::config::retry::RetryConfig;
use aws_sdk_sfn::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};

use stateway_provider_api::adapter::Quotas;

use crate::error::pause;
use crate::quota::Api;

/// How often a call is made in all.
const MOST_ATTEMPTS: u32 = 3;
/// The first pause is drawn from none to this; each further one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A call that would wait for longer than this fails instead.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

tokio::task_local! {
    static PRESENT: Present;
}

/// The call that is being made.
struct Present {
    quotas: Arc<Quotas<Api>>,
    api: Api,
    deadline: Instant,
    attempts: Cell<u32>,
}

/// How the SDK is to repeat calls.
pub(super) fn config() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(MOST_ATTEMPTS)
        .with_initial_backoff(FIRST_PAUSE)
        .with_max_backoff(LONGEST_PAUSE)
}

/// Makes a call of which the rules below know what it is and until when it may take.
pub(super) async fn known<T>(
    (quotas, api): (Arc<Quotas<Api>>, Api),
    deadline: Instant,
    send: impl Future<Output = T>,
) -> T {
    let present = Present {
        quotas,
        api,
        deadline,
        attempts: Cell::new(0),
    };
    PRESENT.scope(present, send).await
}

impl Present {
    /// Whether another attempt would be safe, in time and within the quota.
    fn may_repeat(&self, asked: Option<Duration>) -> bool {
        let drawn = FIRST_PAUSE.saturating_mul(1 << self.attempts.get().min(8));
        let wait = asked.unwrap_or(drawn);
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.api.is_repeatable()
            && wait <= LONGEST_PAUSE
            && wait < left
            && self.quotas.has_turn(self.api)
    }
}

/// Forbids retries of calls that must not be repeated; the SDK decides about all other retries.
#[derive(Debug)]
pub(super) struct Veto;

impl ClassifyRetry for Veto {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let asked = context.response().and_then(pause);
        let may = PRESENT.try_with(|present| present.may_repeat(asked));
        match may {
            Ok(true) => RetryAction::NoActionIndicated,
            _ => RetryAction::RetryForbidden,
        }
    }

    fn name(&self) -> &'static str {
        "the gateway's veto"
    }
}

/// Takes a turn of the quota for every attempt but the first, which has taken its own.
#[derive(Debug)]
pub(super) struct Turns;

impl Intercept for Turns {
    fn name(&self) -> &'static str {
        "the gateway's turns"
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // The SDK also makes calls of its own, for credentials. They use no quota of the service.
        let _ = PRESENT.try_with(|present| {
            if present.attempts.get() > 0 {
                present.quotas.spend(present.api);
            }
            present.attempts.set(present.attempts.get() + 1);
        });
        Ok(())
    }
}
