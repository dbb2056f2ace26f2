//! What is watched together: the current set, the latest changes, and the readers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::WatchScope;
use stateway_provider_api::filter::Hints;
use tokio::sync::{Notify, broadcast, watch};
use tonic::{Code, Status};

use super::pace::Pace;
use super::present::{
    Asked, Bound, CachedExecution, Follows, Present, Sighting, Source, Taken, TooMany,
};
use crate::settings::UpstreamSettings;

/// What a topic is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TopicKey {
    pub(super) provider: ProviderId,
    pub(super) subject: Subject,
}

/// What of a provider a topic is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    One(ExecutionId),
    /// The executions that have not finished and have what the hints say, and the ends of executions.
    Open(Arc<Hints>),
    /// The executions that have what the hints say, finished ones too.
    Within(Arc<Hints>),
}

impl Subject {
    /// All executions that have not finished: most readers share this topic.
    pub(super) fn all_open() -> Self {
        Self::Open(Arc::new(Hints::open()))
    }
}

impl TopicKey {
    pub(super) fn scope(&self) -> WatchScope {
        match &self.subject {
            Subject::One(id) => WatchScope::One(id.clone()),
            Subject::Open(hints) | Subject::Within(hints) => {
                WatchScope::Within(Box::new(Hints::clone(hints)))
            }
        }
    }

    /// The execution that the topic is about, if it is one.
    pub(super) const fn execution(&self) -> Option<&ExecutionId> {
        match &self.subject {
            Subject::One(id) => Some(id),
            Subject::Open(_) | Subject::Within(_) => None,
        }
    }

    /// What a list of the collection may be narrowed to.
    pub(super) fn hints(&self) -> Hints {
        match &self.subject {
            Subject::One(_) => Hints::none(),
            Subject::Open(hints) | Subject::Within(hints) => Hints::clone(hints),
        }
    }
}

/// One difference. Both sides are kept, so that each reader's filter can tell whether the
/// execution came, changed or went without remembering anything.
pub(super) struct Change {
    pub(super) sequence: u64,
    pub(super) before: Option<Arc<CachedExecution>>,
    pub(super) after: Option<Arc<CachedExecution>>,
}

/// What readers of a topic receive.
#[derive(Clone)]
pub(super) enum News {
    Change(Arc<Change>),
    /// The topic can no longer be followed. Its current set is empty from now on.
    Failed(Arc<Status>),
}

/// Whether the current set is known.
#[derive(Debug, Clone)]
pub(super) enum Sync {
    NotYet,
    Done,
    /// Reading the current set failed, or the topic can no longer be followed. A follower of a
    /// collection may try again.
    Failed(Status),
}

/// How a topic is followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The provider pushes its changes.
    pub(super) is_pushed: bool,
    /// Changes kept: how far a reader may fall behind.
    pub(super) buffer: usize,
    /// The most executions that the current set may hold.
    pub(super) most: usize,
}

pub(super) struct Topic {
    pub(super) key: TopicKey,
    /// Distinguishes cursors of this topic from those of a topic that was forgotten meanwhile.
    pub(super) epoch: u64,
    /// The provider pushes its changes. May change with the description of the provider.
    is_pushed: AtomicBool,
    inner: Mutex<Inner>,
    news: broadcast::Sender<News>,
    sync: watch::Sender<Sync>,
    readers: AtomicUsize,
    hurried: Notify,
    buffer: usize,
}

struct Inner {
    sequence: u64,
    present: Present,
    latest: VecDeque<Arc<Change>>,
    unreachable: bool,
    ended: bool,
    idle_since: Instant,
    pace: Pace,
    due: Instant,
}

/// A consistent view to begin reading from.
pub(super) struct Snapshot {
    pub(super) sequence: u64,
    pub(super) present: Vec<Arc<CachedExecution>>,
    pub(super) news: broadcast::Receiver<News>,
}

/// A continuation from a cursor.
pub(super) struct Continuation {
    pub(super) missed: Vec<Arc<Change>>,
    pub(super) news: broadcast::Receiver<News>,
}

/// The most changes kept of a single execution.
const MOST_OF_ONE: usize = 16;

impl Topic {
    pub(super) fn new(key: TopicKey, epoch: u64, manner: Manner, polls: &UpstreamSettings) -> Self {
        let now = Instant::now();
        // A collection is lively; one execution never has that much to report.
        let buffer = match &key.subject {
            Subject::One(_) => manner.buffer.clamp(1, MOST_OF_ONE),
            Subject::Open(_) | Subject::Within(_) => manner.buffer.max(1),
        };
        let follows = match &key.subject {
            Subject::One(_) => Follows::Everything,
            Subject::Open(within) => Follows::Open {
                within: Arc::clone(within),
                since: jiff::Timestamp::now(),
            },
            Subject::Within(hints) => Follows::Within(Arc::clone(hints)),
        };
        Self {
            key,
            epoch,
            is_pushed: AtomicBool::new(manner.is_pushed),
            inner: Mutex::new(Inner {
                sequence: 0,
                present: Present::new(Bound(manner.most), follows),
                latest: VecDeque::new(),
                unreachable: false,
                ended: false,
                idle_since: now,
                pace: Pace::new(polls.min_poll_interval, polls.max_poll_interval),
                due: now,
            }),
            news: broadcast::channel(buffer).0,
            sync: watch::channel(Sync::NotYet).0,
            readers: AtomicUsize::new(0),
            hurried: Notify::new(),
            buffer,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the provider pushes the changes of this topic.
    pub(super) fn is_pushed(&self) -> bool {
        self.is_pushed.load(Ordering::Relaxed)
    }

    pub(super) fn set_pushed(&self, is_pushed: bool) {
        self.is_pushed.store(is_pushed, Ordering::Relaxed);
    }

    /// Waits until the current set is known or reading it has failed.
    pub(super) async fn synced(&self) -> Result<(), Status> {
        let mut sync = self.sync.subscribe();
        // The sender lives in `self`, so the wait ends with a value.
        let known = sync.wait_for(|sync| !matches!(sync, Sync::NotYet)).await;
        match known.as_deref() {
            Ok(Sync::Failed(status)) => Err(status.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        matches!(*self.sync.borrow(), Sync::Done)
    }

    /// Whether it is known what there is: the current set, or that the execution does not exist.
    pub(super) fn is_known(&self) -> bool {
        match &*self.sync.borrow() {
            Sync::NotYet => false,
            Sync::Done => true,
            Sync::Failed(status) => status.code() == Code::NotFound,
        }
    }

    /// Whether the topic is followed no more.
    pub(super) fn has_ended(&self) -> bool {
        self.inner().ended
    }

    /// Takes note that the current set is known and the provider answers.
    pub(super) fn set_synced(&self) {
        let mut inner = self.inner();
        inner.unreachable = false;
        inner.present.end_round();
        drop(inner);
        self.sync.send_replace(Sync::Done);
    }

    /// Takes note that the current set could not be read. The follower may try again.
    pub(super) fn set_failed(&self, status: Status) {
        self.sync.send_replace(Sync::Failed(status));
    }

    /// Ends the topic: its readers get the status, and the current set is released.
    pub(super) fn end(&self, status: Status) {
        let mut inner = self.inner();
        // Before anyone learns of the failure.
        inner.ended = true;
        self.sync.send_replace(Sync::Failed(status.clone()));
        inner.present.clear();
        inner.latest.clear();
        // Cursors of before do not lead over the gap.
        inner.sequence += 1;
        // Sending fails if there is no reader, which is not a problem.
        let _ = self.news.send(News::Failed(Arc::new(status)));
    }

    pub(super) fn set_unreachable(&self, unreachable: bool) {
        self.inner().unreachable = unreachable;
    }

    pub(super) fn is_unreachable(&self) -> bool {
        self.inner().unreachable
    }

    /// The current set and everything after it, without a gap.
    pub(super) fn snapshot(&self) -> Snapshot {
        let inner = self.inner();
        Snapshot {
            sequence: inner.sequence,
            present: inner.present.shown().cloned().collect(),
            news: self.news.subscribe(),
        }
    }

    /// Everything after `sequence`, if it is still known.
    pub(super) fn continue_after(&self, sequence: u64) -> Option<Continuation> {
        let inner = self.inner();
        let oldest = inner
            .latest
            .front()
            .map_or(inner.sequence, |change| change.sequence - 1);
        if !(oldest..=inner.sequence).contains(&sequence) {
            return None;
        }
        let missed = inner
            .latest
            .iter()
            .filter(|change| change.sequence > sequence);
        Some(Continuation {
            missed: missed.cloned().collect(),
            news: self.news.subscribe(),
        })
    }

    /// Begins to read the current set again: what is not seen before the reading ends is absent.
    pub(super) fn begin_round(&self) {
        self.inner().present.begin_round();
    }

    /// The executions that were not reported since the round began, up to a maximum.
    pub(super) fn absent(&self, most: usize) -> Vec<ExecutionId> {
        self.inner().present.absent().take(most).cloned().collect()
    }

    /// Takes what an answer shows of one execution, unless something newer is known. True if it is news.
    pub(super) fn see(&self, sighting: Sighting, asked: Asked) -> Result<bool, TooMany> {
        let taken = self.take(sighting, Source::Answer(asked))?;
        Ok(taken == SightingTaken::News)
    }

    /// Takes what a push shows of one execution, unless something newer is known.
    pub(super) fn see_pushed(
        &self,
        sighting: Sighting,
        restart_count: u64,
    ) -> Result<SightingTaken, TooMany> {
        self.take(sighting, Source::Push { restart_count })
    }

    fn take(&self, sighting: Sighting, source: Source) -> Result<SightingTaken, TooMany> {
        let mut inner = self.inner();
        Ok(match inner.present.see(sighting, source)? {
            Taken::Change { before, after } => {
                self.publish(&mut inner, before, Some(after));
                SightingTaken::News
            }
            Taken::Nothing => SightingTaken::Nothing,
            Taken::Decreased => SightingTaken::Decreased,
        })
    }

    /// Takes a row of a list, which may lag behind: a row that would reopen a finished execution is
    /// not taken.
    pub(super) fn see_row(&self, sighting: Sighting, asked: Asked) -> Result<RowTaken, TooMany> {
        if self.inner().present.is_doubtful(&sighting) {
            return Ok(RowTaken::Doubtful);
        }
        let news = self.see(sighting, asked)?;
        Ok(RowTaken::Taken { news })
    }

    /// Takes note that an execution is gone. True if it is news.
    pub(super) fn forget(&self, id: &ExecutionId) -> bool {
        let mut inner = self.inner();
        let Some(before) = inner.present.forget(id) else {
            return false;
        };
        self.publish(&mut inner, Some(before), None);
        true
    }

    /// Whether the current set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.inner().present.shown().next().is_none()
    }

    /// Whether an execution of the current set has not finished.
    pub(super) fn shows_open(&self) -> bool {
        let inner = self.inner();
        let mut shown = inner.present.shown();
        shown.any(|seen| !seen.execution.sub_state.is_terminal())
    }

    fn publish(
        &self,
        inner: &mut Inner,
        before: Option<Arc<CachedExecution>>,
        after: Option<Arc<CachedExecution>>,
    ) {
        inner.sequence += 1;
        let change = Arc::new(Change {
            sequence: inner.sequence,
            before,
            after,
        });
        if inner.latest.len() == self.buffer {
            inner.latest.pop_front();
        }
        inner.latest.push_back(change.clone());
        let _ = self.news.send(News::Change(change));
    }

    /// When the next poll is due.
    pub(super) fn due(&self) -> Instant {
        self.inner().due
    }

    /// Asks for a poll now.
    pub(super) fn hurry(&self) {
        self.inner().due = Instant::now();
        self.hurried.notify_one();
    }

    /// Ends when someone asks for a poll.
    pub(super) async fn hurried(&self) {
        self.hurried.notified().await;
    }

    /// Plans the next poll, after one that found news or not.
    pub(super) fn plan(&self, news: bool) {
        let mut inner = self.inner();
        let now = jiff::Timestamp::now();
        let next_attempt = inner.present.shown().filter_map(|seen| {
            let next = seen.execution.retry.next_attempt_time?;
            // One that is overdue is no event to come: its engine may never get to it.
            Duration::try_from(next.duration_since(now)).ok()
        });
        let known_event = next_attempt.min();
        let pause = inner.pace.next(news, known_event);
        inner.due = Instant::now() + pause;
    }

    /// Plans the next poll after one that failed.
    pub(super) fn plan_after_failure(&self) {
        let mut inner = self.inner();
        let pause = inner.pace.after_failure();
        inner.due = Instant::now() + pause;
    }

    pub(super) fn joined(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn left(&self) {
        self.inner().idle_since = Instant::now();
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there was no reader for this long.
    pub(super) fn is_idle_for(&self, linger: Duration) -> bool {
        self.readers.load(Ordering::Relaxed) == 0 && self.inner().idle_since.elapsed() >= linger
    }
}

/// What became of a sighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SightingTaken {
    News,
    Nothing,
    /// Its version is lower than one that the same process of the provider has pushed.
    Decreased,
}

/// What became of a row of a list.
pub(super) enum RowTaken {
    Taken {
        news: bool,
    },
    /// It may be older than what is known.
    Doubtful,
}
