//! Verifies all executions in the background, a few at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::SignedDuration;

use super::inspect::{InspectionContext, verify_several};
use crate::catalogue::Catalogue;
use crate::keeper::{Inbox, Message};
use crate::store::{Backend, Reading, StoreError};
use crate::{Clock, Config};

/// How many executions are verified before a pause.
const AT_ONCE: usize = 50;
/// The part of the time that is rested, as a multiple of the time worked.
const REST: u32 = 9;
/// How long progress is kept quiet.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The thread that verifies all executions; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Scan {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    asked: AtomicBool,
    lock: Mutex<()>,
    told: Condvar,
}

impl Stop {
    /// Pauses; whether to continue afterwards.
    fn rest(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.asked.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let woken = self.told.wait_timeout(guard, left);
            guard = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.stop.asked.store(true, Ordering::Relaxed);
        let guard = self.stop.lock.lock();
        self.stop.told.notify_all();
        drop(guard);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say that was not logged.
            let _ = thread.join();
        }
    }
}

impl Scan {
    /// Starts it, unless it is not wanted.
    pub(crate) fn start(
        config: &Config,
        backend: &Arc<dyn Backend>,
        catalogue: &Arc<Catalogue>,
        inbox: &Inbox,
    ) -> Result<Option<Self>, StoreError> {
        if config.verify_interval.is_zero() {
            return Ok(None);
        }
        let stop = Arc::new(Stop::default());
        let round = Round {
            store: backend.reader()?,
            catalogue: Arc::clone(catalogue),
            inbox: inbox.clone(),
            stop: Arc::clone(&stop),
            clock: config.clock.clone(),
            memory: memory(config),
        };
        let every = config.verify_interval;
        let thread = std::thread::Builder::new()
            .name("stateway-verify".to_owned())
            .spawn(move || {
                // The executions that the last process wrote are verified when the engine opens.
                while round.stop.rest(every) && round.go() {}
            })
            .map_err(|error| StoreError::Failed(format!("no thread to verify with: {error}")))?;
        Ok(Some(Self {
            stop,
            thread: Some(thread),
        }))
    }
}

/// How long requests are surely remembered: a look and the forgetting may read the clock apart.
pub(crate) fn memory(config: &Config) -> SignedDuration {
    const APART: SignedDuration = SignedDuration::from_mins(1);
    SignedDuration::try_from(config.request_id_retention).unwrap_or(SignedDuration::MAX) - APART
}

struct Round {
    store: Box<dyn Reading + Send>,
    catalogue: Arc<Catalogue>,
    inbox: Inbox,
    stop: Arc<Stop>,
    clock: Clock,
    memory: SignedDuration,
}

impl Round {
    /// Verifies every execution once; whether another round follows.
    fn go(&self) -> bool {
        let (began, mut told) = (Instant::now(), Instant::now());
        let (mut after, mut looked, mut wrong) = (0, 0_u64, 0_u64);
        loop {
            let worked = Instant::now();
            let page = match self.page(after) {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!("executions cannot be verified: {error}");
                    return true;
                }
            };
            let Some(last) = page.last else { break };
            (after, looked, wrong) = (last, looked + page.looked, wrong + page.wrong);
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                tracing::info!(executions = looked, wrong, "verifying");
            }
            if !self.stop.rest(worked.elapsed() * REST) {
                return false;
            }
        }
        tracing::debug!(executions = looked, wrong, took = ?began.elapsed(), "verified");
        metrics::counter!("stateway_engine_verified_executions_total").increment(looked);
        true
    }

    fn page(&self, after: i64) -> Result<Page, StoreError> {
        let context = InspectionContext {
            catalogue: &self.catalogue,
            now: self.clock.now(),
            memory: self.memory,
        };
        let numbers = self.store.numbers(after, AT_ONCE)?;
        let (found, _) = verify_several(&*self.store, (after, AT_ONCE), context)?;
        let wrong = found.iter().filter(|one| !one.verdict.findings.is_empty());
        let page = Page {
            last: numbers.last().copied(),
            looked: found.len() as u64,
            wrong: wrong.clone().count() as u64,
        };
        for one in wrong {
            let number = one.verdict.number;
            self.inbox.tell(Message::Drifted { number });
        }
        // What is in memory only the keeper can see.
        self.inbox.tell(Message::Recheck { numbers });
        Ok(page)
    }
}

#[derive(Debug, Default)]
struct Page {
    last: Option<i64>,
    looked: u64,
    wrong: u64,
}
