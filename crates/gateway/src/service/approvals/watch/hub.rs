//! The providers whose approvals are watched, and the followers behind them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stateway_model::ProviderId;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::follow;
use super::topic::Topic;
use crate::settings::WatchSettings;
use crate::upstream::Upstream;

/// Where readers and followers of approvals meet.
pub(crate) struct ApprovalHub {
    pub(super) settings: WatchSettings,
    /// Readers end and followers stop when this is cancelled.
    pub(super) stop: CancellationToken,
    topics: Mutex<HashMap<ProviderId, Arc<Topic>>>,
    tasks: TaskTracker,
}

/// A place at a topic. The topic lives at least as long.
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
        if let Some(topic) = self.topics().get(provider) {
            topic.hurry();
        }
    }

    /// Adds a reader of a provider's approvals, and starts to follow them if there is no reader yet.
    pub(super) fn join(self: &Arc<Self>, upstream: &Arc<Upstream>) -> Membership {
        let mut topics = self.topics();
        let found = topics.get(&upstream.id).cloned();
        let topic = found.unwrap_or_else(|| {
            let topic = Arc::new(Topic::new(upstream.id.clone(), &self.settings));
            topics.insert(upstream.id.clone(), topic.clone());
            self.follow(upstream.clone(), topic.clone());
            topic
        });
        // Counted under the lock, so that the topic cannot be forgotten in between.
        topic.joined();
        Membership { topic }
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

    /// Forgets a topic that had no reader for a while. True if it is forgotten.
    pub(super) fn forget_if_idle(&self, topic: &Topic) -> bool {
        let mut topics = self.topics();
        let idle = topic.is_idle_for(self.settings.linger);
        if idle {
            topics.remove(&topic.provider);
        }
        idle
    }

    /// Forgets a topic that cannot be followed, so that the next reader tries again.
    pub(super) fn forget(&self, topic: &Topic) {
        self.topics().remove(&topic.provider);
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<ProviderId, Arc<Topic>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
