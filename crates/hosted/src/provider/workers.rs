//! Tasks of hosted executions for the workers that are connected to this gateway.
//!
//! The objects are the truth: which worker has which attempt, until when, and under which number. This
//! side knows only a copy of a part of it. It learns of open tasks from every answer of an object (the fast
//! path: the answer to a result carries the next tasks of the same worker) and from a query on the stored
//! views ([`SCAN`]), which finds tasks that an alarm, another gateway or the time before a restart has
//! opened or withdrawn. Several gateways can serve the workers of one engine: the object hands an
//! attempt out once.
//!
//! - `book`: who is connected, what waits, what was handed out. No IO.
//! - `run`: the loop around the book, and the calls to objects.
//! - `http`: the worker that makes the calls of HTTP steps.
//! - `session`: both directions of one connected worker.

mod book;
mod http;
mod run;
mod session;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stateway_provider_api::{Call, Result, WorkQueue, WorkerConnection, WorkerOffer, Workers};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Host, HostPort, HostedProvider};
use crate::message::Done;
use book::WorkerBook;
pub use http::{HttpAttempt, HttpCall, HttpSteps};
use session::Session;

/// How long a silent worker keeps its tasks.
const LEASE: Duration = Duration::from_secs(30);
/// How long a worker that lost its connection keeps its tasks.
const RECONNECT: Duration = Duration::from_secs(5);
/// How often the stored views are read while workers are connected.
const SCAN: Duration = Duration::from_millis(500);
/// The pause after a read is at least this many times as long as the read: the views of many finished executions
/// take an engine long to search.
const SHARE_OF_SCANS: u32 = 10;
/// The longest pause between two reads of the stored views.
const LONGEST_SCAN_PAUSE: Duration = Duration::from_secs(10);
/// How long after a renewal that failed the next one follows.
const RENEW_AGAIN: Duration = Duration::from_secs(1);
/// The first and the longest pause before a call that failed is made again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The maximum number of concurrent claims.
const MOST_CLAIMS: usize = 64;
/// How long one call to an object may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Hands tasks to workers.
pub(super) struct Dispatch<P> {
    shared: Arc<Shared<P>>,
    runner: Mutex<Option<JoinHandle<()>>>,
    http: Mutex<Option<JoinHandle<()>>>,
}

struct Shared<P> {
    host: Arc<Host<P>>,
    book: Mutex<WorkerBook>,
    wake: Notify,
}

impl<P> Shared<P> {
    fn book(&self) -> std::sync::MutexGuard<'_, WorkerBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: HostPort> Dispatch<P> {
    pub(super) fn new(host: Arc<Host<P>>) -> Self {
        let book = Mutex::new(WorkerBook::new(host.port.pace()));
        Self {
            shared: Arc::new(Shared {
                host,
                book,
                wake: Notify::new(),
            }),
            runner: Mutex::new(None),
            http: Mutex::new(None),
        }
    }

    /// Takes note of what an object answered.
    pub(super) fn learn(&self, done: &Done) {
        self.shared.learn(done);
    }

    /// Makes the calls of HTTP steps from now on.
    pub(super) fn serve_http(&self, steps: HttpSteps) {
        self.run();
        let serving = tokio::spawn(http::serve(Arc::clone(&self.shared), steps));
        *self.http.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
    }

    /// The loop runs from the first connection on.
    fn run(&self) {
        let mut runner = self.runner.lock().unwrap_or_else(PoisonError::into_inner);
        if runner.as_ref().is_none_or(JoinHandle::is_finished) {
            *runner = Some(tokio::spawn(run::run(Arc::clone(&self.shared))));
        }
    }
}

impl<P> Drop for Dispatch<P> {
    fn drop(&mut self) {
        for task in [&mut self.runner, &mut self.http] {
            let task = task.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Some(task) = task.take() {
                task.abort();
            }
        }
    }
}

#[async_trait]
impl<P: HostPort> Workers for HostedProvider<P> {
    async fn connect(&self, _: &Call, offer: WorkerOffer) -> Result<WorkerConnection> {
        self.dispatch.run();
        let shared = &self.dispatch.shared;
        let (tell, messages) = mpsc::unbounded_channel();
        let worker = Arc::clone(&offer.worker);
        let now = (Instant::now(), shared.host.now());
        let session = shared.book().connect(offer, tell, now);
        tokio::spawn(run::recover(Arc::clone(shared), Arc::clone(&worker)));
        Ok(WorkerConnection {
            session: Box::new(Session::new(
                Arc::clone(shared),
                (worker, session),
                messages,
            )),
            lease: LEASE,
        })
    }

    async fn queue(&self, call: &Call) -> Result<WorkQueue> {
        let shared = &self.dispatch.shared;
        let scheduled = self.scheduled(call).await?;
        let is_empty = shared.book().is_empty();
        let queue = if is_empty {
            // Without workers of its own, a gateway does not follow the tasks that wait.
            let mut book = WorkerBook::default();
            run::each_open_view(shared, |seen| book.count(&seen)).await?;
            book.queue(Instant::now(), self.now())
        } else {
            shared.book().queue(Instant::now(), self.now())
        };
        Ok(WorkQueue { scheduled, ..queue })
    }
}
