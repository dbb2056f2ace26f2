//! Every topic that is being watched, and the followers behind them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::gauge;
use stateway_model::{ExecutionName, ProviderId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Code, Status};

use super::follow::Followed;
use super::present::{Asked, Sighting};
use super::topic::{Manner, Subject, Topic, TopicKey};
use super::{follow, listed, poll};
use crate::settings::WatchSettings;
use crate::status::Refusal;
use crate::token::Sealer;
use crate::upstream::{Upstream, Upstreams};

/// How long a provider counts as crowded: finding out again reads as much as a watch follows.
pub(crate) const CROWDED_FOR: Duration = Duration::from_secs(300);

/// Where readers and followers meet.
pub(crate) struct Hub {
    pub(super) upstreams: Arc<Upstreams>,
    pub(super) settings: WatchSettings,
    pub(super) sealer: Arc<Sealer>,
    /// Readers end and followers stop when this is cancelled.
    pub(super) stop: CancellationToken,
    topics: Mutex<HashMap<TopicKey, Arc<Topic>>>,
    /// Wakes a provider's poller; it exists while the poller runs.
    pollers: Mutex<HashMap<ProviderId, Arc<Notify>>>,
    /// Providers with more open executions than a watch follows, and when that was found.
    crowded: Mutex<HashMap<ProviderId, Instant>>,
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

impl Hub {
    pub(crate) fn new(
        upstreams: Arc<Upstreams>,
        settings: WatchSettings,
        sealer: Arc<Sealer>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            upstreams,
            settings,
            sealer,
            stop,
            topics: Mutex::default(),
            pollers: Mutex::default(),
            crowded: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Waits for every follower to end, after the hub was stopped.
    pub(crate) async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Shows watchers what a write has answered that was asked for at `asked`. The answer is a hint:
    /// it may be older than what was reported meanwhile, so it never replaces that, and a provider
    /// that is polled is asked again.
    pub(crate) fn saw(&self, answer: &Sighting, asked: Asked) {
        let name = &answer.execution.name;
        for topic in self.synced_topics_of(name) {
            let mut basic = answer.clone();
            let shown = &mut basic.execution;
            (shown.input, shown.output) = (None, None);
            shown.forks.clear();
            // A collection that is full reads the execution from the provider later, and then ends.
            let _ = topic.see(basic, asked);
            topic.hurry();
            self.wake_poller(&name.provider);
        }
    }

    /// Shows watchers that an execution was removed. Where the provider pushes a collection, it
    /// reports the removal itself, in its place among the changes; the stream of the one execution
    /// ended with the execution.
    pub(crate) fn lost(&self, name: &ExecutionName) {
        for topic in self.synced_topics_of(name) {
            if !topic.is_pushed() || topic.key.execution().is_some() {
                topic.forget(&name.id);
            }
        }
    }

    /// The topics that show this execution.
    fn synced_topics_of(&self, ExecutionName { provider, id }: &ExecutionName) -> Vec<Arc<Topic>> {
        let key = |subject| TopicKey {
            provider: provider.clone(),
            subject,
        };
        let topics = self.topics();
        // Narrower topics learn of it from the provider.
        [key(Subject::One(id.clone())), key(Subject::all_open())]
            .iter()
            .filter_map(|key| topics.get(key).filter(|topic| topic.is_synced()).cloned())
            .collect()
    }

    /// Adds a reader to a topic, and starts to follow the topic if it has no reader yet.
    pub(super) fn join(
        self: &Arc<Self>,
        upstream: &Arc<Upstream>,
        key: TopicKey,
    ) -> Result<Membership, Status> {
        let (topic, is_new) = {
            let mut topics = self.topics();
            let found = topics.get(&key).cloned();
            let is_new = found.is_none();
            let topic = match found {
                Some(topic) => topic,
                None if topics.len() >= self.settings.max_topics => {
                    return Err(too_many_topics(self.settings.max_topics));
                }
                None => {
                    let manner = Manner {
                        is_pushed: key.scope().is_offered(&upstream.capabilities()),
                        buffer: self.settings.buffer,
                        most: self.settings.max_watched_executions,
                    };
                    let epoch = uuid::Uuid::new_v4().as_u64_pair().0;
                    let topic = Topic::new(key.clone(), epoch, manner, &upstream.settings);
                    let topic = Arc::new(topic);
                    topics.insert(key, topic.clone());
                    gauge!("stateway_watch_topics").set(topics.len() as f64);
                    topic
                }
            };
            // Counted under the lock, so that the topic cannot be forgotten in between.
            topic.joined();
            (topic, is_new)
        };
        if is_new {
            self.follow(upstream.clone(), topic.clone());
        } else if !topic.is_pushed() {
            topic.hurry();
            self.wake_poller(&upstream.id);
        }
        Ok(Membership { topic })
    }

    /// Follows a topic in the manner that the provider offers.
    pub(super) fn follow(self: &Arc<Self>, upstream: Arc<Upstream>, topic: Arc<Topic>) {
        if !topic.is_pushed() && topic.key.execution().is_some() {
            self.poll(upstream);
            return;
        }
        let hub = self.clone();
        self.spawn(async move {
            let end = if topic.is_pushed() {
                follow::pushed(&hub, &upstream, &topic).await
            } else {
                listed::listed(&hub, &upstream, &topic).await
            };
            if end == Followed::Changed {
                topic.set_pushed(topic.key.scope().is_offered(&upstream.capabilities()));
                hub.follow(upstream, topic);
            }
        });
    }

    /// Sees to it that the provider's poller runs and looks again.
    fn poll(self: &Arc<Self>, upstream: Arc<Upstream>) {
        let mut pollers = self.pollers();
        if let Some(wake) = pollers.get(&upstream.id) {
            wake.notify_one();
            return;
        }
        let wake = Arc::new(Notify::new());
        pollers.insert(upstream.id.clone(), wake.clone());
        let hub = self.clone();
        self.spawn(async move { poll::run(&hub, &upstream, &wake).await });
    }

    /// Runs a follower until it ends or the hub stops: followers only read, so a call that hangs is
    /// dropped.
    fn spawn(&self, follower: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = follower => {}
            }
        });
    }

    fn wake_poller(&self, provider: &ProviderId) {
        if let Some(wake) = self.pollers().get(provider) {
            wake.notify_one();
        }
    }

    /// The topics of single executions that a provider's poller looks after; none ends the
    /// poller, under the lock that also guards its beginning.
    pub(super) fn polled_topics(&self, upstream: &Upstream) -> Vec<Arc<Topic>> {
        let mut pollers = self.pollers();
        let polled: Vec<_> = self
            .topics()
            .values()
            .filter(|topic| topic.key.provider == upstream.id)
            .filter(|topic| topic.key.execution().is_some() && !topic.is_pushed())
            .cloned()
            .collect();
        if polled.is_empty() {
            pollers.remove(&upstream.id);
        }
        polled
    }

    /// Forgets a topic that had no reader for a while. True if it is forgotten.
    pub(super) fn forget_if_idle(&self, topic: &Topic) -> bool {
        let mut topics = self.topics();
        // When topics are scarce, idle ones are dropped immediately.
        let crowded = topics.len() > self.settings.max_topics / 2;
        let linger = if crowded {
            Duration::ZERO
        } else {
            self.settings.linger
        };
        let idle = topic.is_idle_for(linger);
        if idle {
            topics.remove(&topic.key);
            gauge!("stateway_watch_topics").set(topics.len() as f64);
        }
        idle
    }

    /// Forgets a topic that can never be followed, so that the next reader tries again.
    pub(super) fn forget_failed(&self, topic: &Topic) {
        let mut topics = self.topics();
        if topics
            .get(&topic.key)
            .is_some_and(|known| known.epoch == topic.epoch)
        {
            topics.remove(&topic.key);
            gauge!("stateway_watch_topics").set(topics.len() as f64);
        }
    }

    /// Takes note that a topic has more executions than a watch follows.
    pub(super) fn set_crowded(&self, key: &TopicKey) {
        if key.subject == Subject::all_open() {
            let mut crowded = self.crowded();
            crowded.insert(key.provider.clone(), Instant::now());
        }
    }

    /// Whether a provider had more open executions than a watch follows a while ago. Then a watch follows
    /// only those that its filter can admit; until then, watches share one topic.
    pub(super) fn is_crowded(&self, provider: &ProviderId) -> bool {
        let crowded = self.crowded();
        let found = crowded.get(provider);
        found.is_some_and(|found| found.elapsed() < CROWDED_FOR)
    }

    fn crowded(&self) -> MutexGuard<'_, HashMap<ProviderId, Instant>> {
        self.crowded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<TopicKey, Arc<Topic>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pollers(&self) -> MutexGuard<'_, HashMap<ProviderId, Arc<Notify>>> {
        self.pollers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn too_many_topics(most: usize) -> Status {
    let message = format!("{most} topics are already watched, which is the limit");
    Refusal::new(Code::ResourceExhausted, "TOO_MANY_WATCHES", message)
        .retry_after(Duration::from_secs(5))
        .into()
}
