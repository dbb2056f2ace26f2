//! The providers whose approvals are watched, and the followers behind them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stateway_model::ProviderId;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;

use super::follow;
use super::topic::{Part, Topic};
use crate::access::Access;
use crate::settings::WatchSettings;
use crate::upstream::Upstream;
use crate::watch::{CROWDED_FOR, too_many_topics};

/// Where readers and followers of approvals meet.
pub(crate) struct ApprovalHub {
    pub(super) settings: WatchSettings,
    /// Readers end and followers stop when this is cancelled.
    pub(super) stop: CancellationToken,
    topics: Mutex<HashMap<(ProviderId, Part), Arc<Topic>>>,
    /// Providers with more pending approvals than a watch follows, and when that was found.
    crowded: Mutex<HashMap<ProviderId, Instant>>,
    tasks: TaskTracker,
}

/// Counts as one reader of a topic until it is dropped.
pub(super) struct Membership {
    pub(super) topic: Arc<Topic>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.topic.left();
    }
}

impl ApprovalHub {
    pub(crate) fn new(settings: WatchSettings, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            settings,
            stop,
            topics: Mutex::default(),
            crowded: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Waits for every follower to end, after the hub was stopped.
    pub(crate) async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Has the approvals of a provider read now, where they are polled: one of them was decided.
    pub(crate) fn hurry(&self, provider: &ProviderId) {
        for ((of, _), topic) in &*self.topics() {
            if of == provider {
                topic.hurry();
            }
        }
    }

    /// Adds a reader of a provider's approvals, and starts to follow them if there is no reader yet.
    pub(super) fn join(
        self: &Arc<Self>,
        upstream: &Arc<Upstream>,
        access: &Access,
    ) -> Result<Membership, Status> {
        let part = self.part(&upstream.id, access);
        let mut topics = self.topics();
        let key = (upstream.id.clone(), part.clone());
        let topic = match topics.get(&key) {
            Some(topic) => topic.clone(),
            None if topics.len() >= self.settings.max_topics => {
                return Err(too_many_topics(self.settings.max_topics));
            }
            None => {
                let topic = Topic::new(upstream.id.clone(), part, &self.settings);
                let topic = Arc::new(topic);
                topics.insert(key, topic.clone());
                self.follow(upstream.clone(), topic.clone());
                topic
            }
        };
        // Counted under the lock, so that the topic cannot be forgotten in between.
        topic.joined();
        Ok(Membership { topic })
    }

    /// Joins the topic of a smaller part in place of one that has ended because the provider has too many approvals.
    /// False if there is none.
    pub(super) fn narrow(
        self: &Arc<Self>,
        member: &mut Membership,
        upstream: &Arc<Upstream>,
        access: &Access,
    ) -> Result<bool, Status> {
        let topic = &member.topic;
        let is_narrower = topic.has_ended() && topic.part != self.part(&topic.provider, access);
        if is_narrower {
            *member = self.join(upstream, access)?;
        }
        Ok(is_narrower)
    }

    /// The approvals of a provider that a reader follows: readers share one topic of all of them, unless there are
    /// more than a watch follows. So the bound of a watch does not count what others have.
    fn part(&self, provider: &ProviderId, access: &Access) -> Part {
        let found = self.crowded().get(provider).copied();
        if found.is_some_and(|found| found.elapsed() < CROWDED_FOR) {
            Part::readable(access, provider)
        } else {
            Part::default()
        }
    }

    /// Takes note that a topic has more approvals than a watch follows.
    pub(super) fn set_crowded(&self, topic: &Topic) {
        if topic.part == Part::default() {
            let mut crowded = self.crowded();
            crowded.insert(topic.provider.clone(), Instant::now());
        }
    }

    /// Runs a follower until it ends or the hub stops: followers only read, so a call that hangs is
    /// dropped.
    fn follow(self: &Arc<Self>, upstream: Arc<Upstream>, topic: Arc<Topic>) {
        let hub = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = hub.stop.cancelled() => {}
                () = follow::follow(&hub, &upstream, &topic) => {}
            }
        });
    }

    /// Forgets a topic that had no reader for a while. Returns whether the topic was removed.
    pub(super) fn forget_if_idle(&self, topic: &Topic) -> bool {
        let mut topics = self.topics();
        let idle = topic.is_idle_for(self.settings.linger);
        if idle {
            topics.remove(&(topic.provider.clone(), topic.part.clone()));
        }
        idle
    }

    /// Forgets a topic that cannot be followed, so that the next reader tries again.
    pub(super) fn forget(&self, topic: &Topic) {
        let key = (topic.provider.clone(), topic.part.clone());
        self.topics().remove(&key);
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<(ProviderId, Part), Arc<Topic>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn crowded(&self) -> MutexGuard<'_, HashMap<ProviderId, Instant>> {
        self.crowded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
