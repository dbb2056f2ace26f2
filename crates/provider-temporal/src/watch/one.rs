//! A watch of one execution, through all of its runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Call, Error, ErrorKind, Observation, Result, StepObservation, Verb, WatchStream, Watched,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::poll::{self, LongPoll, Target};
use super::{MOST_FAILURES, News, PATIENCE, PAUSE};
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;
use crate::quota::{Api, RESERVE};
use crate::reader::{Reader, info, next_change};
use crate::response::{is_closed, run_id};

/// An execution that moved is described again after this, one that did not later and later.
const FASTEST: Duration = Duration::from_secs(1);
const SLOWEST: Duration = Duration::from_secs(10);
/// The shortest pause before a change that is expected soon.
const SHORTEST: Duration = Duration::from_millis(100);
/// While a long poll shows every change, the execution is described no more often than this.
const IDLE: Duration = Duration::from_secs(60);
/// A watch without a long poll asks for one again after this.
const POLL_AGAIN: Duration = Duration::from_secs(30);
/// How often a watch that waits for a turn of the quota checks for one.
const TICK: Duration = Duration::from_millis(250);

pub(super) async fn open(
    reader: Arc<Reader>,
    (news, long_polls): (Receiver<News>, Arc<Semaphore>),
    (call, verb): (&Call, Verb),
    (of, only_end): (WorkflowRef, bool),
) -> Result<WatchStream> {
    let mut follower = Follower {
        poll_due: reader.clock.now(),
        reader,
        news,
        long_polls,
        permit: None,
        verb,
        of,
        only_end,
        shown: None,
        ready: VecDeque::new(),
        poll: None,
        token: Vec::new(),
        target: None,
        pace: FASTEST,
        pause: FASTEST,
        failures: 0,
        has_news: true,
        is_over: false,
    };
    follower.ask_for_a_poll();
    follower.reader.client.count(Api::Reads);
    follower.read(call).await?;
    follower.ready.push_back(Watched::InSync);
    Ok(stream::unfold(Some(follower), Follower::next).boxed())
}

/// Why an execution is described again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The server reported an event, or time has passed.
    Server,
    /// A caller of this provider requested a change.
    Request,
}

struct Follower {
    reader: Arc<Reader>,
    news: Receiver<News>,
    long_polls: Arc<Semaphore>,
    /// A long poll is allowed. Without one the execution is described again and again.
    permit: Option<OwnedSemaphorePermit>,
    /// When to ask for the permit again.
    poll_due: Instant,
    verb: Verb,
    of: WorkflowRef,
    only_end: bool,
    shown: Option<Observation>,
    ready: VecDeque<Watched>,
    poll: Option<LongPoll>,
    token: Vec<u8>,
    target: Option<Target>,
    pace: Duration,
    /// How long to wait for something to happen before the next description.
    pause: Duration,
    failures: u32,
    /// The provider still reports what happens through it.
    has_news: bool,
    is_over: bool,
}

impl Follower {
    async fn next(follower: Option<Self>) -> Option<(Result<Watched>, Option<Self>)> {
        let mut follower = follower?;
        loop {
            if let Some(item) = follower.ready.pop_front() {
                return Some((Ok(item), Some(follower)));
            }
            if follower.is_over {
                return None;
            }
            if let Err(error) = follower.advance().await {
                return Some((Err(error), None));
            }
        }
    }

    /// Waits until something may have changed, and reads the execution.
    async fn advance(&mut self) -> Result<()> {
        let polled = self.wait().await;
        let read = match polled {
            Ok(cause) => {
                take_turn(&self.reader.client, cause).await;
                self.read(&Call::within(PATIENCE)).await
            }
            Err(error) => Err(error),
        };
        match read {
            Ok(()) => {
                self.failures = 0;
                Ok(())
            }
            Err(error) if error.kind.is_retryable() && self.failures < MOST_FAILURES => {
                self.failures += 1;
                self.pause = error.retry_after.unwrap_or(PAUSE).max(PAUSE);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a permit for a long poll, if there is one and the server allows more of them.
    fn ask_for_a_poll(&mut self) {
        let now = self.reader.clock.now();
        if self.permit.is_some() || now < self.poll_due {
            return;
        }
        if !self.reader.client.is_paused(Api::LongPolls) {
            self.permit = Arc::clone(&self.long_polls).try_acquire_owned().ok();
        }
        self.poll_due = now + POLL_AGAIN;
    }

    async fn wait(&mut self) -> Result<Cause> {
        self.ask_for_a_poll();
        let timer = tokio::time::sleep(self.pause);
        tokio::pin!(timer);
        loop {
            if self.poll.is_none()
                && self.permit.is_some()
                && let Some(target) = &self.target
            {
                self.poll = Some(poll::begin(&self.reader, target, self.token.clone()));
            }
            let (is_polling, has_news) = (self.poll.is_some(), self.has_news);
            let Self { poll, news, .. } = self;
            let polled = async {
                match poll {
                    Some(poll) => poll.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut timer => return Ok(Cause::Server),
                answer = polled, if is_polling => {
                    self.poll = None;
                    let (token, happened) = answer.map_err(|error| self.poll_failed(error))?;
                    // An empty token ends the history: the run is over.
                    let is_end = token.is_empty();
                    self.token = token;
                    if happened || is_end {
                        return Ok(Cause::Server);
                    }
                }
                news = news.recv(), if has_news => {
                    if self.is_about(news) {
                        return Ok(Cause::Request);
                    }
                }
            }
        }
    }

    /// A poll that the server refuses is not repeated soon; descriptions continue.
    fn poll_failed(&mut self, error: Error) -> Error {
        if !error.kind.is_outage() {
            self.permit = None;
            self.poll_due = self.reader.clock.now() + POLL_AGAIN;
            self.pause = FASTEST;
        }
        if error.kind.is_outage() {
            return error;
        }
        // The next description shows if the run is gone. The token may be the reason.
        self.token = Vec::new();
        tracing::debug!(%error, execution = self.of.workflow_id, "long poll refused");
        let message = "the long poll was refused";
        Error::new(ErrorKind::Unavailable, self.verb, message)
    }

    fn is_about(&mut self, news: std::result::Result<News, RecvError>) -> bool {
        match news {
            Ok(News::Changed(workflow)) => workflow == self.of.workflow_id,
            Ok(News::Gone(name)) => name == self.of.name(),
            Err(RecvError::Lagged(_)) => true,
            Err(RecvError::Closed) => {
                self.has_news = false;
                false
            }
        }
    }

    /// Describes the execution and reports it if it changed. The turn of the quota was taken before.
    async fn read(&mut self, call: &Call) -> Result<()> {
        let verb = self.verb;
        let ask = Ask { call, verb };
        let described = match self.reader.describe_in_turn(ask, &self.of).await {
            Ok(described) => described,
            Err(error) if error.kind == ErrorKind::NotFound && self.shown.is_some() => {
                self.is_over = true;
                if let Ok(id) = ExecutionId::new(self.of.name()) {
                    self.ready.push_back(Watched::Gone(id));
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let seen = self.reader.observed(ask, &self.of, &described).await?;
        let info = info(verb, &described)?;
        let run = self.of.run(run_id(info));
        let target = Target::new(run, info.history_length, self.only_end);
        self.is_over = is_closed(info);
        if self.target.as_ref().map(|known| &known.run) != Some(&target.run) {
            self.target = Some(target);
            self.token = Vec::new();
            self.poll = None;
        }
        let changed = self.shown.as_ref() != Some(&seen);
        self.plan(&seen, changed);
        if changed && (self.is_over || !self.only_end || self.shown.is_none()) {
            self.ready.push_back(Watched::seen(seen.clone()));
        }
        self.shown = Some(seen);
        Ok(())
    }

    /// When to describe it again if nothing is pushed.
    fn plan(&mut self, seen: &Observation, changed: bool) {
        self.pace = if changed {
            FASTEST
        } else {
            (self.pace * 2).min(SLOWEST)
        };
        // The long poll on a long history shows its end alone.
        let shows_all = self.target.as_ref().is_some_and(|target| !target.only_end);
        let is_pushed =
            self.permit.is_some() && (self.only_end || shows_all && !has_silent_steps(seen));
        self.pause = if is_pushed {
            IDLE
        } else {
            pause_until(next_change(seen, Timestamp::now()), self.pace)
        };
    }
}

/// Waits until the quota has a turn to spare. What a caller of this provider has changed is read
/// immediately.
async fn take_turn(client: &Client, cause: Cause) {
    match cause {
        Cause::Request => client.count(Api::Reads),
        Cause::Server => {
            while !client.spare(Api::Reads, RESERVE) {
                tokio::time::sleep(TICK).await;
            }
        }
    }
}

/// The pause before the next description: until the expected change, if that comes before the pace.
fn pause_until(change: Option<Duration>, pace: Duration) -> Duration {
    match change {
        // The change is overdue: the server's clock may be behind that of this machine.
        Some(Duration::ZERO) => FASTEST,
        None => pace,
        Some(left) => left.clamp(SHORTEST, pace),
    }
}

/// Whether a step may change without an event in the history.
fn has_silent_steps(seen: &Observation) -> bool {
    let is_silent = |step: &StepObservation| {
        let kind = step.native.qualifiers.get("kind").map(String::as_str);
        step.end_time.is_none() && matches!(kind, Some("activity" | "workflow-task"))
    };
    seen.steps.iter().any(is_silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_overdue_is_checked_once_a_second() {
        assert_eq!(pause_until(Some(Duration::ZERO), SLOWEST), FASTEST);
        assert_eq!(pause_until(None, SLOWEST), SLOWEST);
        let soon = Duration::from_millis(500);
        assert_eq!(pause_until(Some(soon), SLOWEST), soon);
        assert_eq!(
            pause_until(Some(Duration::from_nanos(1)), FASTEST),
            SHORTEST
        );
        assert_eq!(pause_until(Some(IDLE), SLOWEST), SLOWEST);
    }
}
