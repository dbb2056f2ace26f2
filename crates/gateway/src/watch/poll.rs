//! One poller per provider for single executions: whatever is due is asked for together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt, stream};
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, Error, ErrorKind, Observation, Result, Verb};
use tokio::sync::Notify;

use super::follow::{failed, has_other_manner};
use super::hub::Hub;
use super::present::Asked;
use super::topic::Topic;
use crate::upstream::{PROVIDER_BUSY, Upstream};

/// The most executions asked for in one call.
const BATCH: usize = 100;

/// Polls until no topic is left or the hub stops.
pub(super) async fn run(hub: &Arc<Hub>, upstream: &Arc<Upstream>, wake: &Notify) {
    loop {
        let topics = hub.polled_topics(upstream);
        if topics.is_empty() || hub.stop.is_cancelled() {
            return;
        }
        let (pushed, topics): (Vec<_>, Vec<_>) = topics
            .into_iter()
            .partition(|topic| has_other_manner(upstream, topic));
        for topic in pushed {
            topic.set_pushed(true);
            hub.follow(Arc::clone(upstream), topic);
        }
        let (idle, live): (Vec<_>, Vec<_>) = topics
            .into_iter()
            .partition(|topic| hub.forget_if_idle(topic));
        drop(idle);
        // What is due soon goes along, so that looks fall into step and batches fill up.
        let horizon = Instant::now() + upstream.settings.min_poll_interval / 2;
        let due: Vec<_> = live
            .iter()
            .filter(|topic| topic.due() <= horizon)
            .cloned()
            .collect();
        // At most half of the provider's slots: the other half is for clients' calls.
        let at_once = (upstream.settings.max_concurrent / 2).max(1);
        stream::iter(due.chunks(BATCH))
            .for_each_concurrent(at_once, |batch| look(hub, upstream, batch))
            .await;
        let next = live.iter().map(|topic| topic.due()).min();
        let linger = Instant::now() + hub.settings.linger;
        tokio::select! {
            () = hub.stop.cancelled() => return,
            () = wake.notified() => {}
            () = tokio::time::sleep_until(next.unwrap_or(linger).min(linger).into()) => {}
        }
    }
}

async fn look(hub: &Hub, upstream: &Upstream, batch: &[Arc<Topic>]) {
    let ids: Vec<ExecutionId> = batch
        .iter()
        .filter_map(|topic| topic.key.execution().cloned())
        .collect();
    let asked = upstream.asked();
    let call = Call::within(upstream.settings.timeout);
    let guarded = upstream.within(&call);
    let observed = guarded.call(Verb::Observe, |provider, call| {
        async { unless_down(provider.observe(call, &ids).await) }.boxed()
    });
    match observed.await.map_err(Error::from) {
        Ok(answers) => {
            for (topic, answer) in batch.iter().zip(answers) {
                take(hub, upstream, topic, (asked, answer));
            }
        }
        // Clients have every slot: nothing is wrong with the provider, so look again soon.
        Err(error) if error.reason() == PROVIDER_BUSY => {
            batch.iter().for_each(|topic| topic.plan(true));
        }
        Err(error) => batch
            .iter()
            .for_each(|topic| put_off(hub, upstream, topic, &error)),
    }
}

/// The answers, unless each of them says that the engine is down: then that is the answer, and
/// the breaker must hear of it.
fn unless_down(mut answers: Vec<Result<Observation>>) -> Result<Vec<Result<Observation>>> {
    let down =
        |answer: &Result<Observation>| answer.as_ref().is_err_and(|error| error.kind.is_outage());
    if !answers.is_empty() && answers.iter().all(down) {
        return Err(answers
            .swap_remove(0)
            .expect_err("each of them is an error"));
    }
    Ok(answers)
}

fn take(
    hub: &Hub,
    upstream: &Upstream,
    topic: &Topic,
    (asked, answer): (Asked, Result<Observation>),
) {
    match answer {
        Ok(observation) => {
            let sighting = upstream.sighting(observation);
            // A topic of one execution is never too large.
            let news = topic.see(sighting, asked);
            topic.set_synced();
            topic.plan(news.unwrap_or(false));
        }
        Err(error) if error.kind == ErrorKind::NotFound && topic.is_synced() => {
            let id = topic.key.execution();
            let news = id.is_some_and(|id| topic.forget(id));
            topic.plan(news);
        }
        Err(error) => put_off(hub, upstream, topic, &error),
    }
}

/// Takes note of a failure. A topic that cannot be followed is forgotten, so the poller does not
/// meet it again.
fn put_off(hub: &Hub, upstream: &Upstream, topic: &Topic, error: &Error) {
    topic.plan_after_failure();
    failed(hub, upstream, topic, error);
}

/// A pause that grows with each failure in a row, for followers that have nothing else to go by.
pub(crate) fn pause_after(failures: u32, upstream: &Upstream) -> Duration {
    let fastest = upstream.settings.min_poll_interval;
    fastest
        .saturating_mul(1 << failures.min(10))
        .min(upstream.settings.max_poll_interval)
}
