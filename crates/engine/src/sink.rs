//! Every event to webhooks: CloudEvents, signed, at least once, in the order of the log.
//!
//! The log itself is the queue. A webhook's task reads it from where the webhook has got to, sends,
//! and reports its position to the keeper, which stores it. So memory holds nothing beyond one
//! read, a receiver that is down costs the engine nothing, and after a crash the last few events
//! come again. One task per webhook sends one thing at a time: that is the order.
//!
//! A receiver that fails is tried again for ever, slower and slower; only `410 Gone` ends it. A
//! purge leaves what a webhook has not got yet.

mod cloud_event;
mod deliver;
mod settings;
mod signature;

pub use cloud_event::EVENT_NAMES;
pub use settings::{WebhookError, WebhookSettings};
pub use signature::Secret;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::error::Result;
use crate::handle::Lines;
use crate::keeper::{Inbox, Message};
use crate::request::EventRecord;
use crate::store::Epoch;
use crate::{Engine, EngineError, ErrorKind};
use cloud_event::CloudEvent;
use deliver::{Delivered, Post};
use settings::EventFilter;

/// The number of appends in one read.
const APPENDS: usize = 256;
/// How long to wait before the store is read again after it could not be.
const STORE_PAUSE: Duration = Duration::from_millis(500);
/// How often a delivery checks that this process still owns the store.
const OWNER_CHECK: Duration = Duration::from_millis(100);
/// After how many appends that the webhook does not want its place is written down all the same.
const UNWANTED: i64 = 10_000;

/// The state of a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookStatus {
    /// Its name.
    pub name: String,
    /// Everything up to this place of the log was delivered.
    pub position: i64,
    /// How many appends to the log it is behind, at most.
    pub behind: u64,
    /// The time of the oldest event that was not delivered.
    pub oldest: Option<Timestamp>,
    /// Since when deliveries fail.
    pub failing_since: Option<Timestamp>,
    /// Why the last delivery failed; empty if it succeeded.
    pub last_error: String,
    /// The receiver answered that it no longer exists; nothing is sent until the engine is restarted.
    pub stopped: bool,
    /// Places of the log that could not be read and were passed over.
    pub unreadable: u64,
}

/// Webhooks, at work. They end when this is dropped or the engine stops.
#[derive(Debug)]
pub struct Webhooks {
    sinks: Vec<Running>,
    inbox: Inbox,
    committed: watch::Receiver<i64>,
}

#[derive(Debug)]
struct Running {
    name: Arc<str>,
    task: JoinHandle<()>,
    status: watch::Receiver<WebhookStatus>,
}

impl Webhooks {
    /// Starts sending. `provider` is the name that the events' source carries.
    ///
    /// # Errors
    /// A setting that cannot be used, or no Tokio runtime.
    pub fn spawn(
        engine: &Engine,
        provider: &str,
        settings: &[WebhookSettings],
    ) -> Result<Self, WebhookError> {
        let runtime = tokio::runtime::Handle::try_current();
        let runtime = runtime.map_err(|_| WebhookError::NoRuntime)?;
        let lines = engine.lines();
        let mut ready: Vec<(Sink, watch::Receiver<WebhookStatus>)> = Vec::new();
        for settings in settings {
            let name: Arc<str> = settings.name()?.into();
            if ready.iter().any(|(sink, _)| sink.name == name) {
                return Err(WebhookError::Twice(settings.name.clone()));
            }
            let status = watch::Sender::new(WebhookStatus {
                name: settings.name.clone(),
                ..WebhookStatus::default()
            });
            let told = status.subscribe();
            let sink = Sink {
                name,
                provider: provider.to_owned(),
                wanted: EventFilter::new(settings)?,
                post: Post::new(settings)?,
                from: settings.from,
                batch: settings.batch.max(1),
                lines: lines.clone(),
                epoch: None,
                position: 0,
                written: 0,
                status,
            };
            ready.push((sink, told));
        }
        let sinks = ready.into_iter().map(|(sink, status)| {
            let name = Arc::clone(&sink.name);
            // Nothing that the webhook needs is removed before its task runs.
            lines.inbox.tell(Message::ExpectSink {
                name: Arc::clone(&name),
                from: sink.from,
            });
            Running {
                name,
                task: runtime.spawn(sink.run()),
                status,
            }
        });
        Ok(Self {
            sinks: sinks.collect(),
            inbox: lines.inbox.clone(),
            committed: lines.committed,
        })
    }

    /// The state of each webhook.
    #[must_use]
    pub fn statuses(&self) -> Vec<WebhookStatus> {
        let last = *self.committed.borrow();
        let shown = self.sinks.iter().map(|sink| {
            let mut status = sink.status.borrow().clone();
            status.behind = behind(last, status.position);
            status
        });
        shown.collect()
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        for sink in &self.sinks {
            sink.task.abort();
            let name = Arc::clone(&sink.name);
            self.inbox.tell(Message::CloseSink { name });
        }
    }
}

fn behind(last: i64, position: i64) -> u64 {
    last.saturating_sub(position).max(0).unsigned_abs()
}

/// One webhook.
struct Sink {
    name: Arc<str>,
    provider: String,
    wanted: EventFilter,
    post: Post,
    from: crate::SinkStart,
    batch: usize,
    lines: Lines,
    /// The epoch of the store in which this webhook was opened; none if it must be opened again.
    epoch: Option<Epoch>,
    /// Everything up to here was delivered.
    position: i64,
    /// The last position that was sent to the keeper to be stored.
    written: i64,
    status: watch::Sender<WebhookStatus>,
}

impl Sink {
    async fn run(mut self) {
        let mut ended = self.lines.committed.clone();
        let gone = async move { while ended.changed().await.is_ok() {} };
        tokio::select! {
            () = gone => {}
            () = self.work() => {}
        }
    }

    /// Works until the receiver is gone or the engine has stopped.
    async fn work(&mut self) {
        loop {
            // Another process may have delivered events while it owned the store.
            let current = self.lines.standing.epoch();
            if self.epoch != Some(current) {
                let Some(position) = self.open().await else {
                    return;
                };
                self.epoch = Some(current);
                (self.position, self.written) = (position, position);
                self.status.send_modify(|status| status.position = position);
            }
            let last = *self.lines.committed.borrow_and_update();
            match self.read(APPENDS).await {
                Ok(records) if records.is_empty() => {
                    // Events that are missing up to the last place were removed.
                    self.got(last.max(self.position), false);
                    if self.lines.committed.changed().await.is_err() {
                        return;
                    }
                }
                Ok(records) => {
                    if !self.deliver(&records).await {
                        self.stop();
                        return;
                    }
                }
                Err(error) if error.kind == ErrorKind::DataLoss => {
                    if !self.pass_over(last).await {
                        self.stop();
                        return;
                    }
                }
                Err(error) => {
                    self.cannot_read(&error);
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    /// Registers itself; the position to continue at.
    async fn open(&self) -> Option<i64> {
        loop {
            let (answer, opened) = oneshot::channel();
            let asked = self.lines.inbox.ask(Message::OpenSink {
                name: Arc::clone(&self.name),
                from: self.from,
                answer,
            });
            let opened = match asked {
                Ok(()) => opened.await.unwrap_or_else(|_| Err(EngineError::stopped())),
                Err(error) => Err(error),
            };
            match opened {
                Ok(position) => return Some(position),
                Err(error) if error.reason == "ENGINE_STOPPED" => return None,
                Err(error) => self.cannot_read(&error),
            }
            tokio::time::sleep(STORE_PAUSE).await;
        }
    }

    /// Whether this process has owned the store since the webhook was opened.
    fn is_owner(&self) -> bool {
        let standing = &self.lines.standing;
        standing.check().is_ok() && self.epoch == Some(standing.epoch())
    }

    /// Ends when another process may own the store, which delivers the events then.
    async fn lost(&self) {
        while self.is_owner() {
            tokio::time::sleep(OWNER_CHECK).await;
        }
    }

    async fn read(&self, appends: usize) -> Result<Vec<EventRecord>> {
        let after = self.position;
        let read = self
            .lines
            .readers
            .read(move |reader| reader.log(after, appends));
        read.await
    }

    /// Sends what the webhook wants of these events; false when it wants nothing any more.
    async fn deliver(&mut self, records: &[EventRecord]) -> bool {
        let Some(end) = records.last().map(|record| record.position) else {
            return true;
        };
        let wanted: Vec<&EventRecord> = records
            .iter()
            .filter(|record| self.wanted.has(&record.event.fact))
            .collect();
        let mut rest = wanted.as_slice();
        while let Some(first) = rest.first() {
            let oldest = first.event.at;
            self.status
                .send_modify(|status| status.oldest = Some(oldest));
            match self.send(rest).await {
                Delivered::All(count) => rest = &rest[count..],
                Delivered::Gone => return false,
                Delivered::Lost => {
                    self.epoch = None;
                    return true;
                }
            }
            // A place is reached when all of its events are.
            let reached = rest.first().map_or(end, |next| next.position - 1);
            self.got(reached, true);
        }
        self.got(end, false);
        true
    }

    /// Sends the first of these events, as many as go together; how many those were.
    async fn send(&self, events: &[&EventRecord]) -> Delivered {
        let mut most = self.batch;
        loop {
            let together: Vec<CloudEvent> = events
                .iter()
                .take(most)
                .map(|record| CloudEvent::of(&self.provider, record))
                .collect();
            let tell = |attempt: std::result::Result<(), &str>| match attempt {
                Ok(()) => self.succeeded(),
                Err(why) => self.failed(why),
            };
            let clock = &self.lines.clock;
            let pushed = tokio::select! {
                biased;
                () = self.lost() => return Delivered::Lost,
                pushed = self.post.push(&together, self.batch > 1, clock, &tell) => pushed,
            };
            match pushed {
                deliver::Pushed::Done(count) => return Delivered::All(count),
                deliver::Pushed::Gone => return Delivered::Gone,
                // A receiver that refuses a batch may accept single events.
                deliver::Pushed::TooLong => most = 1,
            }
        }
    }

    /// Everything up to here was delivered, or was not wanted.
    fn got(&mut self, position: i64, delivered: bool) {
        if position <= self.position && position <= self.written {
            return;
        }
        self.position = self.position.max(position);
        let keep =
            delivered && self.position > self.written || self.position - self.written >= UNWANTED;
        if keep {
            self.written = self.position;
        }
        self.lines.inbox.tell(Message::SinkAt {
            name: Arc::clone(&self.name),
            position: self.position,
            keep,
        });
        self.status.send_modify(|status| {
            status.position = self.position;
            status.oldest = None;
        });
        self.measure();
    }

    /// A place of the log cannot be read. It is skipped and reported: what comes after it
    /// must not wait for a backup to be restored. False when the webhook wants nothing any more.
    async fn pass_over(&mut self, last: i64) -> bool {
        match self.read(1).await {
            // The damage is further on; up to there, one append at a time.
            Ok(records) if !records.is_empty() => return self.deliver(&records).await,
            Err(error) if error.kind == ErrorKind::DataLoss && self.position < last => {
                let place = self.position + 1;
                tracing::error!(webhook = %self.name, place, "events cannot be read: {error}");
                metrics::counter!(
                    "stateway_engine_webhook_unreadable_total", "webhook" => self.name.to_string()
                )
                .increment(1);
                self.status.send_modify(|status| status.unreadable += 1);
                self.got(place, true);
            }
            _ => tokio::time::sleep(STORE_PAUSE).await,
        }
        true
    }

    fn succeeded(&self) {
        self.count("delivered");
        let failing = self.status.borrow().failing_since.is_some();
        if failing {
            tracing::info!(webhook = %self.name, "deliveries succeed again");
            self.status.send_modify(|status| {
                status.failing_since = None;
                status.last_error.clear();
            });
        }
    }

    /// The store cannot be read, which is no attempt to deliver.
    fn cannot_read(&self, error: &EngineError) {
        if error.reason != "STORE_STANDBY" {
            self.failing(&error.message);
            return;
        }
        // Another process delivers the events: nothing fails here.
        self.status.send_if_modified(|status| {
            status.last_error.clear();
            status.failing_since.take().is_some()
        });
    }

    fn failed(&self, why: &str) {
        self.count("failed");
        self.failing(why);
    }

    fn failing(&self, why: &str) {
        self.measure();
        let failing = self.status.borrow().failing_since.is_some();
        if !failing {
            tracing::warn!(webhook = %self.name, "deliveries fail: {why}");
        }
        let now = self.lines.clock.now();
        self.status.send_modify(|status| {
            status.failing_since.get_or_insert(now);
            why.clone_into(&mut status.last_error);
        });
    }

    fn stop(&self) {
        tracing::error!(
            webhook = %self.name,
            "the receiver is gone (410); nothing is sent to it until the next start"
        );
        let name = Arc::clone(&self.name);
        self.lines.inbox.tell(Message::CloseSink { name });
        self.status.send_modify(|status| status.stopped = true);
    }

    fn count(&self, outcome: &'static str) {
        let webhook = self.name.to_string();
        metrics::counter!(
            "stateway_engine_webhook_attempts_total", "webhook" => webhook, "outcome" => outcome
        )
        .increment(1);
    }

    fn measure(&self) {
        let last = *self.lines.committed.borrow();
        let lag = behind(last, self.position);
        metrics::gauge!("stateway_engine_webhook_lag", "webhook" => self.name.to_string())
            .set(u32::try_from(lag).map_or(f64::from(u32::MAX), f64::from));
    }
}
