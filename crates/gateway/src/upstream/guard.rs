//! The one way to a provider: bounded deadline, capability, breaker, slots, panic, timeout, figures and
//! the error's context, in that order.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{self, BoxFuture};
use stateway_model::ProviderId;
use stateway_provider_api::{
    Approvals, Call, Error, ErrorKind, EventLog, PortableDefinitions, Provider, Recovery, Result,
    Store, Triggers, Verb, Workers,
};
use thiserror::Error as ThisError;

use super::Upstream;
use super::breakers::{Admission, Outcome, Refused, Scope};
use crate::deadline;

/// The reason when every slot is taken: the load is too high, nothing is wrong with the provider.
pub(crate) const PROVIDER_BUSY: &str = "PROVIDER_BUSY";
/// The reason while a breaker is open.
pub(crate) const BREAKER_OPEN: &str = "PROVIDER_BREAKER_OPEN";
/// The pause that a caller is asked for when every slot is taken.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// A call of a provider that failed or was refused, with the provider's name.
#[derive(Debug, ThisError)]
#[error("provider {provider}: {error}")]
pub(crate) struct CallError {
    pub(crate) provider: ProviderId,
    pub(crate) error: Error,
}

impl From<CallError> for Error {
    fn from(failed: CallError) -> Self {
        failed.error
    }
}

/// A provider for the time of one bounded call.
pub(crate) struct Guarded<'u> {
    upstream: &'u Upstream,
    call: Call,
    merged: bool,
}

impl Upstream {
    /// The provider, for a call that may take until its own deadline or the provider's timeout,
    /// whichever comes first.
    pub(crate) fn within(&self, call: &Call) -> Guarded<'_> {
        self.guarded(call, self.settings.timeout, false)
    }

    /// The provider, for a call that is a part of a list over several providers: it may take the
    /// time of `multi_provider_timeout`, or half of what the client's call has left.
    pub(crate) fn merged(&self, call: &Call) -> Guarded<'_> {
        let patience = self
            .settings
            .multi_provider_timeout
            .min(call.remaining() / 2);
        self.guarded(call, patience.min(self.settings.timeout), true)
    }

    /// The provider, for a call that may take until its own deadline, however long that is.
    pub(crate) fn until_deadline(&self, call: &Call) -> Guarded<'_> {
        self.guarded(call, call.remaining(), false)
    }

    fn guarded(&self, call: &Call, most: Duration, merged: bool) -> Guarded<'_> {
        let latest = Instant::now() + most;
        Guarded {
            upstream: self,
            call: Call {
                deadline: call.deadline.min(latest),
                ..call.clone()
            },
            merged,
        }
    }
}

impl Upstream {
    /// Waits until a provider that has not described itself yet has done so, for callers that decide by its
    /// capabilities.
    pub(crate) async fn described(&self, call: &Call) -> std::result::Result<(), CallError> {
        let described = self.within(call).described().await;
        described.map_err(|error| CallError {
            provider: self.id.clone(),
            error,
        })
    }
}

/// One way to each extension of a provider, through the same guard.
macro_rules! extensions {
    ($( $(#[$doc:meta])* $name:ident: $Extension:ident, )+) => { $(
        $(#[$doc])*
        pub(crate) async fn $name<'g, T: Send + 'g>(
            &'g self,
            verb: Verb,
            work: impl FnOnce(&'g dyn $Extension, &'g Call) -> BoxFuture<'g, Result<T>> + Send,
        ) -> std::result::Result<T, CallError> {
            self.call(verb, |provider, call| match provider.$name() {
                Some(extension) => work(extension, call),
                None => future::ready(Err(Error::unsupported(verb))).boxed(),
            })
            .await
        }
    )+ };
}

impl Guarded<'_> {
    /// Calls a verb of the provider.
    pub(crate) async fn call<'g, T>(
        &'g self,
        verb: Verb,
        work: impl FnOnce(&'g dyn Provider, &'g Call) -> BoxFuture<'g, Result<T>> + Send,
    ) -> std::result::Result<T, CallError> {
        self.call_boxed(verb, work).await.map(|answer| *answer)
    }

    /// The same with the answer in a box: an observation has about a kilobyte and passes through many
    /// hands.
    pub(crate) async fn call_boxed<'g, T>(
        &'g self,
        verb: Verb,
        work: impl FnOnce(&'g dyn Provider, &'g Call) -> BoxFuture<'g, Result<T>> + Send,
    ) -> std::result::Result<Box<T>, CallError> {
        let answer = self.guard(verb, || work(&*self.upstream.provider, &self.call));
        answer.await.map_err(|error| {
            let provider = &self.upstream.id;
            tracing::debug!(%provider, %verb, reason = error.reason(), "call failed: {error}");
            CallError {
                provider: provider.clone(),
                error,
            }
        })
    }

    extensions! {
        /// Calls the provider's portable definitions.
        portable_definitions: PortableDefinitions,
        /// Calls the provider's triggers.
        triggers: Triggers,
        /// Calls the provider's approvals.
        approvals: Approvals,
        /// Calls the provider's workers.
        workers: Workers,
        /// Calls the provider's event log.
        event_log: EventLog,
        /// Calls the provider's recovery.
        recovery: Recovery,
        /// Calls the provider's store.
        store: Store,
    }

    /// Lets a provider that has not described itself yet do so: the first call waits for the description
    /// instead of failing for want of it.
    fn described(&self) -> BoxFuture<'_, Result<()>> {
        let upstream = self.upstream;
        if upstream.describe().generation > 0 {
            return future::ready(Ok(())).boxed();
        }
        async move {
            let asked = self.guard(Verb::Health, || upstream.provider.health(&self.call));
            let asked = asked.await.map(drop);
            if upstream.describe().generation > 0 {
                // The engine may be ill, but what the provider can do is known.
                return Ok(());
            }
            asked
        }
        .boxed()
    }

    async fn guard<'g, T>(
        &'g self,
        verb: Verb,
        work: impl FnOnce() -> BoxFuture<'g, Result<T>> + Send,
    ) -> Result<Box<T>> {
        let upstream = self.upstream;
        let mut description = upstream.describe();
        if description.generation == 0 && verb != Verb::Health {
            self.described().await?;
            description = upstream.describe();
        }
        description.check(verb)?;
        let mut attempt = self.admit(verb)?;
        let Some(_slot) = upstream.slots.take() else {
            attempt.finish(None, |_| Outcome::NotAsked);
            return Err(busy(verb));
        };
        // A panic of the adapter must not end the task that called it.
        let work = pin!(AssertUnwindSafe(async { work().await.map(Box::new) }).catch_unwind());
        match deadline::until(self.call.deadline, work).await {
            Ok(Ok(answer)) => {
                let failure = answer.as_ref().err();
                attempt.finish(failure.map(|error| error.kind), |fair| {
                    outcome(failure, fair)
                });
                answer
            }
            Ok(Err(_panic)) => {
                tracing::error!(provider = %upstream.id, %verb, "the adapter panicked");
                attempt.finish(Some(ErrorKind::Internal), |_| Outcome::Outage);
                let message = "the adapter failed unexpectedly";
                Err(Error::new(ErrorKind::Internal, verb, message))
            }
            Err(_elapsed) => {
                let error = Error::new(ErrorKind::Timeout, verb, "no answer in time");
                attempt.finish(Some(error.kind), |fair| outcome(Some(&error), fair));
                Err(error)
            }
        }
    }

    fn admit(&self, verb: Verb) -> Result<Attempt<'_>> {
        let upstream = self.upstream;
        let began = Instant::now();
        if !upstream.is_calm.load(Ordering::Acquire) {
            let admission = Admission {
                fair: self.call.deadline.saturating_duration_since(began) >= upstream.fair_chance(),
                merged: self.merged,
            };
            let admitted = upstream.breakers().admit(verb, began, admission);
            admitted.map_err(|refused| not_called(verb, &refused))?;
        }
        if verb.is_write() {
            upstream.writes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Attempt {
            upstream,
            verb,
            began,
            finished: false,
        })
    }
}

/// The refusal while a breaker is open.
fn not_called(verb: Verb, refused: &Refused) -> Error {
    let (silent, component) = match &refused.scope {
        Scope::Provider => ("the provider".to_owned(), None),
        Scope::Verb(verb) => (format!("`{verb}` of the provider"), None),
        Scope::Component(component) => (format!("its {component}"), Some(component)),
    };
    let message = format!("{silent} has not answered, so the gateway does not call it for a while");
    let error = Error::new(ErrorKind::Unavailable, verb, message)
        .with_reason(BREAKER_OPEN)
        .with_retry_after(refused.pause);
    match component {
        Some(component) => error.with_component(component.clone()),
        None => error,
    }
}

fn busy(verb: Verb) -> Error {
    let message = "the limit of concurrent calls is reached";
    Error::new(ErrorKind::Throttled, verb, message)
        .with_reason(PROVIDER_BUSY)
        .with_retry_after(BUSY_PAUSE)
        .without_engine()
}

/// One admitted call. Its outcome is reported to the breakers, however the call ends.
struct Attempt<'u> {
    upstream: &'u Upstream,
    verb: Verb,
    began: Instant,
    finished: bool,
}

impl Attempt<'_> {
    /// Ends the call now. `shows` gets whether the provider had a fair chance to answer.
    fn finish(&mut self, failure: Option<ErrorKind>, shows: impl FnOnce(bool) -> Outcome) {
        self.finished = true;
        let now = Instant::now();
        let took = now.saturating_duration_since(self.began);
        self.upstream.meter.record(self.verb, failure, took);
        self.report(&shows(took >= self.upstream.fair_chance()), now);
    }

    fn report(&self, outcome: &Outcome, now: Instant) {
        if self.verb.is_write() {
            self.upstream.writes.fetch_sub(1, Ordering::Relaxed);
        }
        let is_calm = &self.upstream.is_calm;
        if *outcome == Outcome::Answered && is_calm.load(Ordering::Acquire) {
            return;
        }
        self.upstream
            .change_breakers(|breakers| breakers.finish(self.verb, outcome, now));
    }
}

impl Drop for Attempt<'_> {
    /// The caller went away.
    fn drop(&mut self) {
        if !self.finished {
            self.upstream.meter.cancelled(self.verb);
            self.report(&Outcome::CutOff, Instant::now());
        }
    }
}

/// What the end of a call shows about the provider; `fair`: it had enough time to answer.
fn outcome(failure: Option<&Error>, fair: bool) -> Outcome {
    let Some(error) = failure else {
        return Outcome::Answered;
    };
    if error.kind == ErrorKind::Timeout && !fair {
        return Outcome::CutOff;
    }
    // A gateway that stands by answers that it is not available: its engine works.
    if error.kind.is_outage() && error.answered != Some(true) {
        return match &error.component {
            Some(component) => Outcome::ComponentOutage(component.clone()),
            None => Outcome::Outage,
        };
    }
    if error.engine_answered() {
        Outcome::Answered
    } else {
        Outcome::NotAsked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_engine_said_counts_as_its_answer() {
        let error = |kind| Error::new(kind, Verb::Get, "it went wrong");
        let cases = [
            (None, true, Outcome::Answered),
            (Some(error(ErrorKind::NotFound)), false, Outcome::Answered),
            (
                Some(error(ErrorKind::NotFound).without_engine()),
                true,
                Outcome::NotAsked,
            ),
            (
                Some(error(ErrorKind::InvalidArgument)),
                true,
                Outcome::NotAsked,
            ),
            (
                Some(error(ErrorKind::InvalidArgument).by_engine()),
                true,
                Outcome::Answered,
            ),
            (Some(error(ErrorKind::Throttled)), true, Outcome::Answered),
            (Some(busy(Verb::Get)), true, Outcome::NotAsked),
            (Some(error(ErrorKind::Unavailable)), false, Outcome::Outage),
            (Some(error(ErrorKind::Timeout)), true, Outcome::Outage),
            (Some(error(ErrorKind::Timeout)), false, Outcome::CutOff),
            (
                Some(error(ErrorKind::Unavailable).with_component("store")),
                true,
                Outcome::ComponentOutage("store".into()),
            ),
        ];
        for (failure, fair, expected) in cases {
            assert_eq!(outcome(failure.as_ref(), fair), expected, "{failure:?}");
        }
    }
}
