//! Limits of one identity: calls and starts per second, open streams, and bytes of request messages.
//!
//! Each identity (subject and tenant) has a state of its own as long as it uses any of its quota. A state
//! that is as good as new is forgotten, so that the memory is bounded by the identities that are active, and
//! by `max_identities`: beyond that, further identities share one state.

mod bucket;
mod metered;
mod settings;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::{counter, gauge};
use stateway_identity::Identity;
use tonic::{Code, Status};

use bucket::Bucket;
pub(crate) use metered::MeteredBody;
pub use settings::{Quota, QuotaRule, QuotaSettings};

use crate::status::Refusal;

/// How long a caller should pause that has too many streams or bytes.
const PAUSE: Duration = Duration::from_secs(1);

/// How often states that are as good as new are looked for while there are too many.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The quotas of all identities.
#[derive(Debug)]
pub(crate) struct Quotas {
    settings: QuotaSettings,
    states: Mutex<States>,
}

#[derive(Debug)]
struct States {
    by_identity: HashMap<Key, Arc<State>>,
    swept: Option<Instant>,
    /// Of the identities beyond the limit.
    shared: Arc<State>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    subject: Arc<str>,
    tenant: Option<Arc<str>>,
}

/// What one identity uses.
#[derive(Debug)]
struct State {
    quota: Quota,
    buckets: Mutex<Buckets>,
    streams: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Buckets {
    requests: Bucket,
    starts: Bucket,
}

/// What a call is, for quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Any call or page.
    Plain,
    /// A call that starts executions.
    Start,
    /// A watch, a wait or a worker session.
    Stream,
}

impl CallKind {
    /// The kind of a request, by its path.
    pub(crate) fn of(path: &str) -> Self {
        let method = path.rsplit('/').next().unwrap_or_default();
        let is_api = path.starts_with("/stateway.v1.");
        if is_api && ["StartExecution", "PublishEvent"].contains(&method) {
            Self::Start
        } else if is_api
            && ["Watch", "Wait", "Stream"]
                .iter()
                .any(|it| method.starts_with(it))
        {
            Self::Stream
        } else {
            Self::Plain
        }
    }
}

/// One call of an identity, until its response has been sent.
#[derive(Debug)]
pub(crate) struct QuotaPermit {
    state: Arc<State>,
    /// Set for a stream.
    stream: Mutex<Option<StreamQuota>>,
    bytes: AtomicU64,
}

/// The quota of the identity that sends a request. It is in the extensions of requests that can start executions:
/// those of the API, and those for pages, whose calls of the API have the same extensions.
#[derive(Debug, Clone)]
pub(crate) struct CallerQuota(Arc<State>);

/// One open stream of an identity.
#[derive(Debug)]
pub(crate) struct StreamQuota(Arc<State>);

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exceeded {
    pub(crate) reason: &'static str,
    quota: &'static str,
    message: &'static str,
    pub(crate) pause: Duration,
}

impl Quotas {
    pub(crate) fn new(settings: QuotaSettings) -> Self {
        let shared = State::new(settings.default, Instant::now());
        Self {
            settings,
            states: Mutex::new(States {
                by_identity: HashMap::new(),
                swept: None,
                shared: Arc::new(shared),
            }),
        }
    }

    /// Counts a call of an identity, or says which quota it exceeds.
    pub(crate) fn admit(
        &self,
        identity: &Identity,
        kind: CallKind,
        now: Instant,
    ) -> Result<Arc<QuotaPermit>, Exceeded> {
        let state = self.state(identity, now);
        let taken = state.lock().requests.take(now);
        taken.map_err(|pause| exceeded(State::REQUESTS, pause))?;
        let permit = QuotaPermit {
            state,
            stream: Mutex::default(),
            bytes: AtomicU64::new(0),
        };
        if kind == CallKind::Stream {
            permit.become_stream()?;
        }
        Ok(Arc::new(permit))
    }

    fn state(&self, identity: &Identity, now: Instant) -> Arc<State> {
        let key = Key {
            subject: identity.subject.clone(),
            tenant: identity.tenant.clone(),
        };
        let mut states = self.lock();
        if let Some(state) = states.by_identity.get(&key) {
            return state.clone();
        }
        if states.by_identity.len() >= self.settings.max_identities {
            states.sweep(now);
        }
        if states.by_identity.len() >= self.settings.max_identities {
            return states.shared.clone();
        }
        let state = Arc::new(State::new(self.settings.of(identity), now));
        states.by_identity.insert(key, state.clone());
        gauge!("stateway_quota_identities").set(states.by_identity.len() as f64);
        state
    }

    fn lock(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl States {
    /// Forgets states that are as good as new.
    fn sweep(&mut self, now: Instant) {
        let is_due = |last| now.duration_since(last) >= SWEEP_INTERVAL;
        if self.swept.is_none_or(is_due) {
            self.swept = Some(now);
            self.by_identity.retain(|_, state| !state.is_unused(now));
        }
    }
}

impl State {
    const REQUESTS: Exceeded = Exceeded {
        reason: "REQUEST_RATE_EXCEEDED",
        quota: "requests",
        message: "this caller exceeds its limit of calls per second",
        pause: PAUSE,
    };
    const STARTS: Exceeded = Exceeded {
        reason: "START_RATE_EXCEEDED",
        quota: "starts",
        message: "this caller exceeds its limit of started executions per second",
        pause: PAUSE,
    };
    const STREAMS: Exceeded = Exceeded {
        reason: "TOO_MANY_STREAMS",
        quota: "streams",
        message: "this caller exceeds its limit of open watches, waits, worker sessions and live pages",
        pause: PAUSE,
    };
    const BYTES: Exceeded = Exceeded {
        reason: "REQUEST_BYTES_EXCEEDED",
        quota: "bytes",
        message: "the requests of this caller in progress exceed their limit of bytes",
        pause: PAUSE,
    };

    fn new(quota: Quota, now: Instant) -> Self {
        Self {
            quota,
            buckets: Mutex::new(Buckets {
                requests: Bucket::new(quota.requests_per_second, now),
                starts: Bucket::new(quota.starts_per_second, now),
            }),
            streams: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn is_unused(&self, now: Instant) -> bool {
        let buckets = self.lock();
        self.streams.load(Ordering::Relaxed) == 0
            && self.bytes.load(Ordering::Relaxed) == 0
            && buckets.requests.is_full(now)
            && buckets.starts.is_full(now)
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds to a number unless it becomes more than a limit.
fn taken(number: &AtomicU64, more: u64, most: Option<u64>) -> bool {
    let fits = |now: u64| Some(now + more).filter(|sum| most.is_none_or(|most| *sum <= most));
    number
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        .is_ok()
}

/// Counts a refusal.
fn exceeded(quota: Exceeded, pause: Duration) -> Exceeded {
    counter!("stateway_quota_refusals_total", "quota" => quota.quota).increment(1);
    Exceeded { pause, ..quota }
}

impl CallerQuota {
    /// Counts a start.
    pub(crate) fn start(&self, now: Instant) -> Result<(), Exceeded> {
        let taken = self.0.lock().starts.take(now);
        taken.map_err(|pause| exceeded(State::STARTS, pause))
    }

    /// Counts an open stream until it is dropped.
    pub(crate) fn open_stream(&self) -> Result<StreamQuota, Exceeded> {
        StreamQuota::open(&self.0)
    }
}

impl StreamQuota {
    fn open(state: &Arc<State>) -> Result<Self, Exceeded> {
        if taken(&state.streams, 1, state.quota.max_streams) {
            Ok(Self(Arc::clone(state)))
        } else {
            Err(exceeded(State::STREAMS, PAUSE))
        }
    }
}

impl Drop for StreamQuota {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl QuotaPermit {
    /// The quota of the caller.
    pub(crate) fn caller(&self) -> CallerQuota {
        CallerQuota(Arc::clone(&self.state))
    }

    /// Counts the call as an open stream until its response has been sent.
    pub(crate) fn become_stream(&self) -> Result<(), Exceeded> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.is_none() {
            *stream = Some(StreamQuota::open(&self.state)?);
        }
        Ok(())
    }

    /// Counts bytes of the request that are in memory now.
    fn take_bytes(&self, count: u64) -> Result<(), Exceeded> {
        if !taken(&self.state.bytes, count, self.state.quota.max_request_bytes) {
            return Err(exceeded(State::BYTES, PAUSE));
        }
        self.bytes.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// The bytes so far are not in memory any more.
    fn release_bytes(&self) {
        let count = self.bytes.swap(0, Ordering::Relaxed);
        self.state.bytes.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.release_bytes();
    }
}

impl Exceeded {
    pub(crate) fn status(&self) -> Status {
        Refusal::new(Code::ResourceExhausted, self.reason, self.message)
            .with("quota", self.quota)
            .hint("Try again after the reported delay. An operator can raise the limits in [quotas] of the gateway.")
            .retry_after(self.pause)
            .into()
    }

    pub(crate) const fn text(&self) -> &'static str {
        self.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stateway_identity::{Glob, Method};

    fn identity(subject: &str, roles: &[&str], tenant: Option<&str>) -> Identity {
        Identity::new(Method::Jwt, subject, roles, tenant).unwrap()
    }

    fn quotas(default: Quota) -> Quotas {
        Quotas::new(QuotaSettings {
            default,
            ..QuotaSettings::default()
        })
    }

    const NONE: Quota = Quota::UNLIMITED;

    #[test]
    fn a_caller_beyond_its_rate_is_told_when_to_come_back() {
        let quotas = quotas(Quota {
            requests_per_second: Some(10.0),
            starts_per_second: Some(2.0),
            ..NONE
        });
        let (ada, bob) = (identity("ada", &[], None), identity("bob", &[], None));
        let now = Instant::now();
        let admit = |who, kind, now| {
            let admitted = quotas.admit(who, kind, now);
            let started = admitted.and_then(|permit| match kind {
                CallKind::Start => permit.caller().start(now),
                CallKind::Plain | CallKind::Stream => Ok(()),
            });
            started.map_err(|it| (it.reason, it.pause))
        };
        for _ in 0..2 {
            admit(&ada, CallKind::Start, now).unwrap();
        }
        let (reason, pause) = admit(&ada, CallKind::Start, now).unwrap_err();
        assert_eq!(
            (reason, pause),
            ("START_RATE_EXCEEDED", Duration::from_millis(500))
        );
        // Each start is a call as well.
        for _ in 0..7 {
            admit(&ada, CallKind::Plain, now).unwrap();
        }
        let (reason, pause) = admit(&ada, CallKind::Plain, now).unwrap_err();
        assert_eq!(
            (reason, pause),
            ("REQUEST_RATE_EXCEEDED", Duration::from_millis(100))
        );
        admit(&bob, CallKind::Start, now).unwrap();
        let later = now + Duration::from_millis(500);
        admit(&ada, CallKind::Start, later).unwrap();
        assert!(admit(&ada, CallKind::Start, later).is_err());
    }

    #[test]
    fn streams_are_counted_until_they_end() {
        let quotas = quotas(Quota {
            max_streams: Some(2),
            ..NONE
        });
        let (ada, now) = (identity("ada", &[], None), Instant::now());
        let open = || quotas.admit(&ada, CallKind::Stream, now);
        let (first, _second) = (open().unwrap(), open().unwrap());
        assert_eq!(open().unwrap_err().reason, "TOO_MANY_STREAMS");
        assert!(quotas.admit(&ada, CallKind::Plain, now).is_ok());
        drop(first);
        // A start that waits, and a live page.
        let start = quotas.admit(&ada, CallKind::Start, now).unwrap();
        let waiting = start.caller().open_stream().unwrap();
        assert_eq!(open().unwrap_err().reason, "TOO_MANY_STREAMS");
        drop(waiting);
        let page = quotas.admit(&ada, CallKind::Plain, now).unwrap();
        page.become_stream().unwrap();
        page.become_stream().unwrap();
        assert_eq!(
            start.caller().open_stream().unwrap_err().reason,
            "TOO_MANY_STREAMS"
        );
        drop(page);
        assert!(open().is_ok());
    }

    #[test]
    fn every_refusal_is_counted_by_its_quota() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let page = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let quotas = quotas(Quota {
                requests_per_second: Some(3.0),
                starts_per_second: Some(1.0),
                max_streams: Some(0),
                max_request_bytes: Some(1),
            });
            let (ada, now) = (identity("ada", &[], None), Instant::now());
            let permit = quotas.admit(&ada, CallKind::Plain, now).unwrap();
            permit.take_bytes(2).unwrap_err();
            permit.become_stream().unwrap_err();
            permit.caller().start(now).unwrap();
            permit.caller().start(now).unwrap_err();
            quotas.admit(&ada, CallKind::Plain, now).unwrap();
            quotas.admit(&ada, CallKind::Plain, now).unwrap();
            quotas.admit(&ada, CallKind::Plain, now).unwrap_err();
        });
        for quota in ["requests", "starts", "streams", "bytes"] {
            let line = format!("stateway_quota_refusals_total{{quota=\"{quota}\"}} 1");
            assert!(page.render().contains(&line), "{}", page.render());
        }
    }

    #[test]
    fn bytes_of_all_calls_of_a_caller_count_together() {
        let quotas = quotas(Quota {
            max_request_bytes: Some(100),
            ..NONE
        });
        let (ada, now) = (identity("ada", &[], None), Instant::now());
        let call = || quotas.admit(&ada, CallKind::Plain, now).unwrap();
        let (first, second) = (call(), call());
        first.take_bytes(60).unwrap();
        assert_eq!(
            second.take_bytes(41).unwrap_err().reason,
            "REQUEST_BYTES_EXCEEDED"
        );
        second.take_bytes(40).unwrap();
        drop(first);
        second.take_bytes(60).unwrap();
        let bob = identity("bob", &[], None);
        quotas
            .admit(&bob, CallKind::Plain, now)
            .unwrap()
            .take_bytes(100)
            .unwrap();
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_leaves_the_rest() {
        let rule =
            |subject: Option<&str>, role: Option<&str>, tenant: Option<&str>, streams| QuotaRule {
                identity: subject.map(Glob::new),
                role: role.map(Glob::new),
                tenant: tenant.map(Glob::new),
                quota: Quota {
                    max_streams: Some(streams),
                    ..NONE
                },
            };
        let settings = QuotaSettings {
            default: Quota {
                max_streams: Some(1),
                max_request_bytes: Some(7),
                ..NONE
            },
            rules: vec![
                rule(Some("ci-*"), None, None, 2),
                rule(None, Some("worker"), Some("acme-*"), 3),
                rule(None, Some("worker"), None, 4),
            ],
            ..QuotaSettings::default()
        };
        let of = |who: &Identity| settings.of(who).max_streams.unwrap();
        assert_eq!(of(&identity("ada", &[], None)), 1);
        assert_eq!(of(&identity("ci-1", &["worker"], None)), 2);
        assert_eq!(of(&identity("w", &["dev", "worker"], Some("acme-eu"))), 3);
        assert_eq!(of(&identity("w", &["worker"], None)), 4);
        assert_eq!(
            settings.of(&identity("ci-1", &[], None)).max_request_bytes,
            Some(7)
        );
    }

    #[test]
    fn many_identities_take_bounded_memory() {
        let quotas = Quotas::new(QuotaSettings {
            default: Quota {
                requests_per_second: Some(1.0),
                ..NONE
            },
            max_identities: 100,
            ..QuotaSettings::default()
        });
        let now = Instant::now();
        let mut refused = 0;
        for number in 0..10_000 {
            let who = identity(&format!("caller-{number}"), &[], None);
            refused += usize::from(quotas.admit(&who, CallKind::Plain, now).is_err());
        }
        assert_eq!(quotas.lock().by_identity.len(), 100);
        // Those beyond the limit share the quota of one.
        assert_eq!(refused, 10_000 - 100 - 1);
        // States that are as good as new make room.
        let later = now + Duration::from_secs(5);
        assert!(
            quotas
                .admit(&identity("late", &[], None), CallKind::Plain, later)
                .is_ok()
        );
        assert_eq!(quotas.lock().by_identity.len(), 1);
    }

    #[test]
    fn methods_are_starts_streams_or_plain() {
        let kind = |method: &str| CallKind::of(&format!("/stateway.v1.X/{method}"));
        for start in ["StartExecution", "PublishEvent"] {
            assert_eq!(kind(start), CallKind::Start);
        }
        for stream in [
            "WatchExecutions",
            "WatchApprovals",
            "WaitExecution",
            "StreamTasks",
        ] {
            assert_eq!(kind(stream), CallKind::Stream);
        }
        assert_eq!(kind("GetExecution"), CallKind::Plain);
        assert_eq!(CallKind::of("/WatchExecutions"), CallKind::Plain);
    }
}
