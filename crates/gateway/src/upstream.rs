//! A provider behind its guard.
//!
//! The adapter itself is private to this room: [`Upstream::within`] and [`Upstream::merged`] are the only
//! ways to a provider, and both lead through the guard (`guard.rs`). So a provider that hangs or fails
//! can neither use up what the others need nor be called without end while it is down.

mod breaker;
mod breakers;
mod guard;
mod health;
mod meter;
mod slots;
mod topic;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use stateway_model::{Execution, ProviderId, SubState};
use stateway_provider_api::{
    ActiveGateway, Capabilities, Description, Error, Explanation, Mapper, Observation, Provider,
    Registry, classify,
};

use tokio::sync::Notify;

pub(crate) use breaker::Position;
pub(crate) use guard::{BREAKER_OPEN, CallError, Guarded, PROVIDER_BUSY};
pub(crate) use health::{EngineHealth, Prober, Report, Serving};

pub(crate) use topic::{Directory, Topic, named};

use crate::settings::{Settings, UpstreamSettings};
use crate::watch::{Asked, Sighting};
use breakers::Breakers;
use meter::Meter;
use slots::Slots;

/// Every provider, by its id.
pub(crate) type Upstreams = BTreeMap<ProviderId, Arc<Upstream>>;

/// One provider behind its guard.
pub(crate) struct Upstream {
    pub(crate) id: ProviderId,
    pub(crate) kind: String,
    mapper: Mapper,
    pub(crate) settings: UpstreamSettings,
    provider: Arc<dyn Provider>,
    slots: Slots,
    writes: AtomicUsize,
    breakers: Mutex<Breakers>,
    /// Whether no breaker has anything to decide or to forget: then a call that is answered does not
    /// lock them. Written only under their lock.
    is_calm: AtomicBool,
    meter: Meter,
    report: Mutex<Report>,
    /// Wakes what waits for the provider after an outage.
    back: Notify,
}

impl Upstream {
    /// Puts every registered provider behind its guard.
    pub(crate) fn all(registry: &Registry, settings: &Settings) -> Upstreams {
        let guarded = registry.iter().map(|registration| {
            let settings = *settings.upstream(&registration.id);
            let upstream = Self {
                id: registration.id.clone(),
                kind: registration.kind.clone(),
                mapper: Mapper::new(registration.id.clone()),
                settings,
                provider: registration.provider.clone(),
                slots: Slots::new(settings.max_concurrent),
                writes: AtomicUsize::new(0),
                breakers: Mutex::new(Breakers::new(
                    settings.breaker_failures,
                    settings.breaker_cool_down,
                )),
                is_calm: AtomicBool::new(true),
                meter: Meter::new(&registration.id),
                report: Mutex::new(Report::default()),
                back: Notify::new(),
            };
            (registration.id.clone(), Arc::new(upstream))
        });
        guarded.collect()
    }

    /// The observation as watches take it in.
    pub(crate) fn sighting(&self, observation: Observation) -> Sighting {
        Sighting {
            version: observation.version,
            execution: self.execution(observation),
        }
    }

    /// The beginning of a call whose answer watches take in.
    pub(crate) fn asked(&self) -> Asked {
        Asked {
            at: Instant::now(),
            restart_count: self.restart_count(),
        }
    }

    /// How often the provider was found to run in another process than before.
    pub(crate) fn restart_count(&self) -> u64 {
        self.provider.restart_count()
    }

    /// Lets the provider show in its health that it broke the contract.
    pub(crate) fn note_violation(&self, violation: &Error) {
        self.provider.note_violation(violation);
    }

    /// The observation as clients see it.
    pub(crate) fn execution(&self, observation: Observation) -> Execution {
        let table = &self.describe().table;
        self.mapper
            .execution(table, observation, jiff::Timestamp::now())
    }

    /// The sub-state that the observation shows.
    pub(crate) fn sub_state(&self, observation: &Observation) -> SubState {
        let table = &self.describe().table;
        classify(table, observation, jiff::Timestamp::now())
            .execution
            .sub_state
    }

    /// Why the observation shows what it shows.
    pub(crate) fn explain(&self, observation: &Observation) -> Explanation {
        let table = &self.describe().table;
        self.mapper
            .explain(table, observation, jiff::Timestamp::now())
    }

    /// Capabilities and table of the provider at this moment. They may change at a reconnect, so
    /// nothing keeps them.
    pub(crate) fn describe(&self) -> Arc<Description> {
        self.provider.describe()
    }

    /// What the provider can do now.
    pub(crate) fn capabilities(&self) -> Capabilities {
        offered(&*self.provider)
    }

    pub(crate) fn breaker_position(&self) -> Position {
        self.breakers().position()
    }

    pub(crate) fn calls_in_flight(&self) -> usize {
        self.settings
            .max_concurrent
            .saturating_sub(self.slots.free())
    }

    /// Whether the engine runs in this process.
    fn is_embedded(&self) -> bool {
        self.provider.is_embedded()
    }

    /// Where the gateway is reached that owns the store of the engine, if gateways share the store and call each
    /// other.
    pub(crate) fn active_gateway(&self) -> Option<ActiveGateway> {
        self.provider.active_gateway()
    }

    /// Whether a write is under way: its caller should hear how it ended.
    pub(crate) fn is_writing(&self) -> bool {
        self.writes.load(Ordering::Relaxed) > 0
    }

    /// The shortest time that gives the provider a fair chance to answer. A call that was given less
    /// shows nothing about the provider when its time is over.
    fn fair_chance(&self) -> Duration {
        (self.settings.timeout / 2).min(self.settings.multi_provider_timeout)
    }

    /// Waits until the provider notices by itself that it can be reached again. Then it is called again
    /// immediately, also by the watches that wait for it.
    async fn reconnected(&self) {
        let reconnected = AssertUnwindSafe(self.provider.reconnected()).catch_unwind();
        if reconnected.await.is_err() {
            tracing::error!(provider = %self.id, "the adapter panicked");
            std::future::pending::<()>().await;
        }
        self.change_breakers(Breakers::reconnected);
        self.back.notify_waiters();
    }

    /// Returns when the provider is reachable again after an outage.
    pub(crate) async fn back(&self) {
        self.back.notified().await;
    }

    fn change_breakers(&self, change: impl FnOnce(&mut Breakers)) {
        let mut breakers = self.breakers();
        let before = breakers.position();
        change(&mut breakers);
        let after = breakers.position();
        self.is_calm.store(breakers.is_calm(), Ordering::Release);
        drop(breakers);
        if before != after {
            self.meter.breaker(after);
            tracing::warn!(provider = %self.id, ?before, ?after, "breaker moved");
        }
    }

    fn breakers(&self) -> MutexGuard<'_, Breakers> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a provider can do: an extension that it does not have is off, whatever its capabilities say.
fn offered(provider: &dyn Provider) -> Capabilities {
    let can = provider.capabilities();
    Capabilities {
        portable_definitions: can.portable_definitions && provider.portable_definitions().is_some(),
        triggers: can.triggers && provider.triggers().is_some(),
        approvals: can.approvals && provider.approvals().is_some(),
        watch_approvals: can.watch_approvals && can.approvals && provider.approvals().is_some(),
        workers: can.workers && provider.workers().is_some(),
        event_log: can.event_log && provider.event_log().is_some(),
        recovery: can.recovery && provider.recovery().is_some(),
        store: can.store && provider.store().is_some(),
        ..can
    }
}
