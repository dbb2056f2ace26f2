//! A provider behind its guard: capability, breaker, limit, timeout, in that order.
//!
//! Every call to a provider goes through here, so that one that hangs or fails can neither use up
//! what the others need nor be hammered while it is down.

mod breaker;
mod breakers;
mod health;
mod meter;

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use stateway_model::{Execution, ProviderId};
use stateway_provider_api::{
    Call, Capabilities, Error, ErrorKind, Mapper, Observation, Provider, Registry, Result, Verb,
};
use tokio::sync::Semaphore;

pub(crate) use breaker::Position;
pub(crate) use health::{EngineHealth, Prober, Report, Serving};

use crate::settings::{Settings, UpstreamSettings};
use crate::watch::Sighting;
use breakers::{Breakers, Outcome};
use meter::Meter;

/// A call that was given less than this part of the provider's own timeout says nothing about the
/// provider when it runs out: one impatient client must not shut the others out.
const FAIR_CHANCE: f64 = 0.5;
/// The reason when every slot is taken: it speaks of the load, not of the provider.
pub(crate) const PROVIDER_BUSY: &str = "PROVIDER_BUSY";
/// What a caller is told to wait when every slot is taken.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// Every provider, by its id.
pub(crate) type Upstreams = BTreeMap<ProviderId, Arc<Upstream>>;

/// One provider behind its guard.
pub(crate) struct Upstream {
    pub(crate) id: ProviderId,
    pub(crate) kind: String,
    pub(crate) mapper: Mapper,
    pub(crate) capabilities: Capabilities,
    pub(crate) settings: UpstreamSettings,
    provider: Arc<dyn Provider>,
    slots: Semaphore,
    breakers: Mutex<Breakers>,
    meter: Meter,
    report: Mutex<Report>,
}

impl Upstream {
    /// Puts every registered provider behind its guard.
    pub(crate) fn all(registry: &Registry, settings: &Settings) -> Upstreams {
        let guarded = registry.iter().map(|registration| {
            let settings = *settings.upstream(&registration.id);
            let upstream = Self {
                id: registration.id.clone(),
                kind: registration.kind.clone(),
                mapper: Mapper::new(registration.id.clone(), registration.table.clone()),
                capabilities: registration.provider.capabilities(),
                settings,
                provider: registration.provider.clone(),
                slots: Semaphore::new(settings.max_concurrent),
                breakers: Mutex::new(Breakers::new(
                    settings.breaker_failures,
                    settings.breaker_cool_down,
                )),
                meter: Meter::new(&registration.id),
                report: Mutex::new(Report::default()),
            };
            (registration.id.clone(), Arc::new(upstream))
        });
        guarded.collect()
    }

    /// The provider itself. What it returns must be awaited through [`guard`](Self::guard).
    pub(crate) fn provider(&self) -> &dyn Provider {
        &*self.provider
    }

    /// The call with its deadline cut to what one upstream call may take.
    pub(crate) fn bounded(&self, call: &Call) -> Call {
        let latest = Instant::now() + self.settings.timeout;
        Call {
            deadline: call.deadline.min(latest),
            ..call.clone()
        }
    }

    /// Does `work`, a call of `verb` that has not been polled yet, within the guard.
    pub(crate) async fn guard<T>(
        &self,
        verb: Verb,
        call: &Call,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if !verb.is_offered(&self.capabilities) {
            return Err(Error::unsupported(verb));
        }
        let mut attempt = self.admit(verb)?;
        let _slot = self.slots.try_acquire().map_err(|_| {
            Error::new(
                ErrorKind::Throttled,
                verb,
                "the limit of concurrent calls is reached",
            )
            .with_reason(PROVIDER_BUSY)
            .with_retry_after(BUSY_PAUSE)
        })?;
        // An adapter's panic is the adapter's failure, not the end of whoever follows it.
        let work = AssertUnwindSafe(work).catch_unwind();
        let outcome = match tokio::time::timeout_at(call.deadline.into(), work).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                tracing::error!(provider = %self.id, %verb, "the adapter panicked");
                Err(Error::new(
                    ErrorKind::Internal,
                    verb,
                    "the adapter broke off",
                ))
            }
            Err(_) => Err(Error::new(ErrorKind::Timeout, verb, "no answer in time")),
        };
        attempt.finish(outcome.as_ref().err());
        if let Err(error) = &outcome {
            tracing::debug!(provider = %self.id, %verb, reason = error.reason(), "call failed: {error}");
        }
        outcome
    }

    /// The observation as watches take it in.
    pub(crate) fn sighting(&self, observation: Observation) -> Sighting {
        Sighting {
            version: observation.version,
            execution: self.execution(observation),
        }
    }

    /// The observation as clients see it.
    pub(crate) fn execution(&self, observation: Observation) -> Execution {
        self.mapper.execution(observation, jiff::Timestamp::now())
    }

    pub(crate) fn breaker_position(&self) -> Position {
        self.breakers().position()
    }

    pub(crate) fn calls_in_flight(&self) -> usize {
        self.settings
            .max_concurrent
            .saturating_sub(self.slots.available_permits())
    }

    fn admit(&self, verb: Verb) -> Result<Attempt<'_>> {
        let began = Instant::now();
        self.breakers().admit(verb, began).map_err(|refused| {
            let silent = match refused.component {
                Some(component) => format!("its {component}"),
                None => "it".to_owned(),
            };
            let message = format!("{silent} has not been answering and is not called for a while");
            let error = Error::new(ErrorKind::Unavailable, verb, message)
                .with_reason("PROVIDER_BREAKER_OPEN")
                .with_retry_after(refused.pause);
            match refused.component {
                Some(component) => error.with_component(component),
                None => error,
            }
        })?;
        Ok(Attempt {
            upstream: self,
            verb,
            began,
            finished: false,
        })
    }

    fn breakers(&self) -> MutexGuard<'_, Breakers> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One admitted call. Its outcome is reported to the breakers, however the call ends.
struct Attempt<'u> {
    upstream: &'u Upstream,
    verb: Verb,
    began: Instant,
    finished: bool,
}

impl Attempt<'_> {
    fn finish(&mut self, failure: Option<&Error>) {
        self.finished = true;
        let took = self.began.elapsed();
        let kind = failure.map(|error| error.kind);
        self.upstream.meter.record(self.verb, kind, took);
        let had_a_chance = took >= self.upstream.settings.timeout.mul_f64(FAIR_CHANCE);
        let outcome = outcome(failure, had_a_chance);
        let mut breakers = self.upstream.breakers();
        let before = breakers.position();
        breakers.finish(self.verb, outcome, Instant::now());
        let after = breakers.position();
        drop(breakers);
        if before != after {
            self.upstream.meter.breaker(after);
            tracing::warn!(provider = %self.upstream.id, ?before, ?after, "breaker moved");
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let mut breakers = self.upstream.breakers();
            breakers.finish(self.verb, Outcome::Abandoned, Instant::now());
        }
    }
}

/// What the end of a call shows about the provider.
fn outcome(failure: Option<&Error>, had_a_chance: bool) -> Outcome {
    match failure {
        Some(error) if error.kind == ErrorKind::Timeout && !had_a_chance => Outcome::Abandoned,
        Some(error) if error.kind.is_outage() => match error.component {
            Some(component) => Outcome::ComponentOutage(component),
            None => Outcome::Outage,
        },
        _ => Outcome::Answered,
    }
}
