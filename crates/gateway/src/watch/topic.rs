//! What is watched together: the present set, the latest changes, and who listens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use stateway_model::{Execution, ExecutionId, ProviderId};
use stateway_proto::v1;
use stateway_provider_api::WatchScope;
use tokio::sync::{Notify, broadcast, watch};
use tonic::Status;

use super::pace::Pace;
use crate::convert;
use crate::settings::UpstreamSettings;

/// What a topic is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TopicKey {
    pub(super) provider: ProviderId,
    /// One execution, or all of the provider's when none.
    pub(super) execution: Option<ExecutionId>,
}

impl TopicKey {
    pub(super) fn scope(&self) -> WatchScope {
        self.execution
            .clone()
            .map_or(WatchScope::All, WatchScope::One)
    }
}

/// An execution as last seen. Its wire form is made once, however many readers there are.
pub(super) struct Seen {
    pub(super) execution: Execution,
    look: u64,
    message: OnceLock<v1::Execution>,
}

impl Seen {
    fn new(execution: Execution) -> Self {
        Self {
            look: execution.look(),
            execution,
            message: OnceLock::new(),
        }
    }

    pub(super) fn message(&self) -> v1::Execution {
        self.message
            .get_or_init(|| convert::execution(self.execution.clone()))
            .clone()
    }
}

/// One difference. Both sides are kept, so that each reader's filter can tell whether the
/// execution came, changed or went without remembering anything.
pub(super) struct Change {
    pub(super) sequence: u64,
    pub(super) before: Option<Arc<Seen>>,
    pub(super) after: Option<Arc<Seen>>,
}

/// Whether the present set is known.
#[derive(Debug, Clone)]
pub(super) enum Sync {
    NotYet,
    Done,
    /// The first look failed. A follower of a collection keeps trying.
    Failed(Status),
}

pub(super) struct Topic {
    pub(super) key: TopicKey,
    /// Tells cursors of this topic from those of one that was forgotten meanwhile.
    pub(super) epoch: u64,
    /// The provider pushes its changes.
    pub(super) is_pushed: bool,
    inner: Mutex<Inner>,
    changes: broadcast::Sender<Arc<Change>>,
    sync: watch::Sender<Sync>,
    readers: AtomicUsize,
    hurried: Notify,
    buffer: usize,
}

struct Inner {
    sequence: u64,
    present: BTreeMap<ExecutionId, Present>,
    latest: VecDeque<Arc<Change>>,
    unreachable: bool,
    idle_since: Instant,
    pace: Pace,
    due: Instant,
}

/// An execution of the present set, and the change that last touched it.
struct Present {
    sequence: u64,
    seen: Arc<Seen>,
}

/// A consistent view to begin reading from.
pub(super) struct Snapshot {
    pub(super) sequence: u64,
    pub(super) present: Vec<Arc<Seen>>,
    pub(super) changes: broadcast::Receiver<Arc<Change>>,
}

/// A continuation from a cursor.
pub(super) struct Continuation {
    pub(super) missed: Vec<Arc<Change>>,
    pub(super) changes: broadcast::Receiver<Arc<Change>>,
}

/// The most changes kept of a single execution.
const MOST_OF_ONE: usize = 16;

impl Topic {
    pub(super) fn new(
        key: TopicKey,
        epoch: u64,
        (buffer, is_pushed): (usize, bool),
        polls: &UpstreamSettings,
    ) -> Self {
        let now = Instant::now();
        // A collection is lively; one execution never has that much to tell at once.
        let buffer = match &key.execution {
            Some(_) => buffer.clamp(1, MOST_OF_ONE),
            None => buffer.max(1),
        };
        Self {
            key,
            epoch,
            is_pushed,
            inner: Mutex::new(Inner {
                sequence: 0,
                present: BTreeMap::new(),
                latest: VecDeque::new(),
                unreachable: false,
                idle_since: now,
                pace: Pace::new(polls.fastest_poll, polls.slowest_poll),
                due: now,
            }),
            changes: broadcast::channel(buffer).0,
            sync: watch::channel(Sync::NotYet).0,
            readers: AtomicUsize::new(0),
            hurried: Notify::new(),
            buffer,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the present set is known or the first look has failed.
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

    pub(super) fn set_sync(&self, sync: Sync) {
        self.sync.send_replace(sync);
    }

    pub(super) fn set_unreachable(&self, unreachable: bool) {
        self.inner().unreachable = unreachable;
    }

    pub(super) fn is_unreachable(&self) -> bool {
        self.inner().unreachable
    }

    /// The present set and everything after it, without a gap.
    pub(super) fn snapshot(&self) -> Snapshot {
        let inner = self.inner();
        Snapshot {
            sequence: inner.sequence,
            present: inner
                .present
                .values()
                .map(|known| known.seen.clone())
                .collect(),
            changes: self.changes.subscribe(),
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
            changes: self.changes.subscribe(),
        })
    }

    /// How far the topic has come. A look that begins now must not undo what happens after this.
    pub(super) fn sequence(&self) -> u64 {
        self.inner().sequence
    }

    /// Takes what was just seen of one execution. True if it is news.
    pub(super) fn see(&self, execution: Execution) -> bool {
        self.see_since(execution, u64::MAX)
    }

    /// Takes what a look that began at `since` has seen of one execution, unless something newer
    /// is known by now. True if it is news.
    pub(super) fn see_since(&self, execution: Execution, since: u64) -> bool {
        let seen = Arc::new(Seen::new(execution));
        let mut inner = self.inner();
        let id = &seen.execution.name.id;
        if let Some(known) = inner.present.get(id)
            && (known.sequence > since || known.seen.look == seen.look)
        {
            return false;
        }
        let present = Present {
            sequence: inner.sequence + 1,
            seen: seen.clone(),
        };
        let before = inner.present.insert(id.clone(), present);
        self.publish(&mut inner, before.map(|known| known.seen), Some(seen));
        true
    }

    /// Takes note that an execution is gone. True if it is news.
    pub(super) fn forget(&self, id: &ExecutionId) -> bool {
        let mut inner = self.inner();
        let Some(before) = inner.present.remove(id) else {
            return false;
        };
        self.publish(&mut inner, Some(before.seen), None);
        true
    }

    /// Takes a complete look at the collection that began at `since`: what is not in it, and has
    /// not come up since, is gone. True if it is news.
    pub(super) fn see_all(&self, executions: Vec<Execution>, since: u64) -> bool {
        let seen: BTreeSet<ExecutionId> = executions
            .iter()
            .map(|execution| execution.name.id.clone())
            .collect();
        let gone: Vec<ExecutionId> = self
            .inner()
            .present
            .iter()
            .filter(|(id, known)| known.sequence <= since && !seen.contains(*id))
            .map(|(id, _)| id.clone())
            .collect();
        let mut news = false;
        for execution in executions {
            news |= self.see_since(execution, since);
        }
        for id in gone {
            news |= self.forget(&id);
        }
        news
    }

    /// Whether an execution of the present set has not finished.
    pub(super) fn shows_open(&self) -> bool {
        let inner = self.inner();
        let mut shown = inner.present.values();
        shown.any(|known| !known.seen.execution.sub_state.is_terminal())
    }

    fn publish(&self, inner: &mut Inner, before: Option<Arc<Seen>>, after: Option<Arc<Seen>>) {
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
        // An error means that nobody listens, which is no error.
        let _ = self.changes.send(change);
    }

    /// When the next poll is due.
    pub(super) fn due(&self) -> Instant {
        self.inner().due
    }

    /// Asks for a look now.
    pub(super) fn hurry(&self) {
        self.inner().due = Instant::now();
        self.hurried.notify_one();
    }

    /// Ends when someone asks for a look.
    pub(super) async fn hurried(&self) {
        self.hurried.notified().await;
    }

    /// Plans the next poll, after one that found news or not.
    pub(super) fn plan(&self, news: bool) {
        let mut inner = self.inner();
        let now = jiff::Timestamp::now();
        let next_attempt = inner.present.values().filter_map(|known| {
            let next = known.seen.execution.retry.next_attempt_time?;
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

    /// Whether nobody has listened for this long.
    pub(super) fn is_idle_for(&self, linger: Duration) -> bool {
        self.readers.load(Ordering::Relaxed) == 0 && self.inner().idle_since.elapsed() >= linger
    }
}
