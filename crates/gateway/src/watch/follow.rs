//! Followers of what a provider pushes, and of collections that can only be listed.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use stateway_model::Execution;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{
    Call, Error, ErrorKind, ListRequest, Result, Verb, WatchStream, Watched,
};

use super::hub::Hub;
use super::poll::pause_after;
use super::topic::{Sync, Topic};
use crate::status;
use crate::upstream::Upstream;

/// Rows asked for at once when a whole collection is read.
const PAGE: u32 = 500;
/// The most pages of a collection, however few rows an engine puts on each.
const MOST_PAGES: usize = 5_000;
/// How often a follower sees whether anyone still listens.
const IDLE_CHECK: Duration = Duration::from_secs(1);

/// Follows by the provider's own push, opening it again whenever it breaks.
pub(super) async fn pushed(hub: &Hub, upstream: &Upstream, topic: &Topic) {
    let mut failures = 0;
    loop {
        match open(hub, upstream, topic).await {
            Ok(stream) => match drain(hub, upstream, topic, stream).await {
                End::Unwatched => return,
                End::Finished => {
                    // It may be started again: a redrive, a reset.
                    if linger(hub, topic).await {
                        return;
                    }
                    continue;
                }
                End::Broken { was_of_use: true } => failures = 0,
                End::Broken { was_of_use: false } => {}
            },
            Err(error) => {
                if give_up(hub, upstream, topic, &error) {
                    return;
                }
            }
        }
        failures += 1;
        if rest(hub, topic, pause_after(failures, upstream)).await {
            return;
        }
    }
}

/// Why following a stream ended.
enum End {
    /// Nobody listens any more, or the hub stops.
    Unwatched,
    /// The one execution it followed has finished.
    Finished,
    /// It has to be opened again.
    Broken {
        /// Something came of it, so that opening it again at once is no storm.
        was_of_use: bool,
    },
}

/// Opens the push and takes the present set. That of a collection is read after the push was
/// opened, so that nothing falls in between; a single execution's is the push's first item.
async fn open(hub: &Hub, upstream: &Upstream, topic: &Topic) -> Result<WatchStream> {
    let call = Call::within(upstream.settings.timeout);
    let scope = topic.key.scope();
    let verb = scope.verb();
    let work = upstream.provider().watch(&call, scope);
    let mut stream = upstream.guard(verb, &call, work).await?;
    if topic.key.execution.is_some() {
        let first = tokio::time::timeout_at(call.deadline.into(), stream.next()).await;
        let nothing = || Error::new(ErrorKind::Timeout, verb, "no answer in time");
        if let Watched::Seen(observation) = first.ok().flatten().ok_or_else(nothing)?? {
            topic.see(upstream.execution(*observation));
        }
    } else {
        let since = topic.sequence();
        topic.see_all(read_all(hub, upstream).await?, since);
    }
    topic.set_unreachable(false);
    topic.set_sync(Sync::Done);
    Ok(stream)
}

async fn drain(hub: &Hub, upstream: &Upstream, topic: &Topic, mut stream: WatchStream) -> End {
    let mut idle_check = tokio::time::interval(IDLE_CHECK);
    let mut was_of_use = false;
    loop {
        // An adapter's panic breaks the stream off, not the follower.
        let item = AssertUnwindSafe(stream.next()).catch_unwind();
        tokio::select! {
            () = hub.stop.cancelled() => return End::Unwatched,
            _ = idle_check.tick() => {
                if hub.forget_if_idle(topic) {
                    return End::Unwatched;
                }
            }
            item = item => match item {
                Ok(Some(Ok(item))) => {
                    was_of_use = true;
                    match item {
                        Watched::Seen(seen) => drop(topic.see(upstream.execution(*seen))),
                        Watched::Gone(id) => drop(topic.forget(&id)),
                        Watched::InSync => {}
                    }
                }
                Ok(Some(Err(error))) => {
                    tracing::info!(provider = %upstream.id, "watch broke off: {error}");
                    topic.set_unreachable(error.kind.is_outage());
                    return End::Broken { was_of_use };
                }
                Ok(None) if topic.key.execution.is_some() => return End::Finished,
                Ok(None) => return End::Broken { was_of_use },
                Err(_) => {
                    tracing::error!(provider = %upstream.id, "the adapter panicked in a watch");
                    return End::Broken { was_of_use: false };
                }
            },
        }
    }
}

/// Follows a collection by listing it again and again.
pub(super) async fn listed(hub: &Hub, upstream: &Upstream, topic: &Topic) {
    loop {
        let since = topic.sequence();
        match read_all(hub, upstream).await {
            Ok(executions) => {
                let news = topic.see_all(executions, since);
                topic.set_unreachable(false);
                topic.set_sync(Sync::Done);
                topic.plan(news);
            }
            Err(error) => {
                if give_up(hub, upstream, topic, &error) {
                    return;
                }
                topic.plan_after_failure();
            }
        }
        while std::time::Instant::now() < topic.due() {
            let left = topic
                .due()
                .saturating_duration_since(std::time::Instant::now());
            if rest(hub, topic, left.min(IDLE_CHECK)).await {
                return;
            }
        }
    }
}

/// Every execution of the provider, up to the bound.
async fn read_all(hub: &Hub, upstream: &Upstream) -> Result<Vec<Execution>> {
    let most = hub.settings.max_followed;
    let mut executions = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        if hub.stop.is_cancelled() {
            break;
        }
        let call = Call::within(upstream.settings.timeout);
        let request = ListRequest {
            hints: Hints::none(),
            page_size: PAGE,
            cursor,
        };
        let work = upstream.provider().list(&call, request);
        let page = upstream.guard(Verb::List, &call, work).await?;
        executions.extend(
            page.observations
                .into_iter()
                .map(|seen| upstream.execution(seen)),
        );
        cursor = page.next;
        if cursor.is_none() {
            return Ok(executions);
        }
        if executions.len() >= most {
            break;
        }
    }
    let message = format!("it has more than {most} executions, as many as a watch follows");
    Err(
        Error::new(ErrorKind::FailedPrecondition, Verb::WatchAll, message)
            .with_reason("TOO_MANY_EXECUTIONS")
            .with_hint("Watch single executions, or raise `watch.max_followed`."),
    )
}

/// Takes note of a failure. True if there is no use in trying again.
fn give_up(hub: &Hub, upstream: &Upstream, topic: &Topic, error: &Error) -> bool {
    let is_gone = error.kind == ErrorKind::NotFound;
    topic.set_unreachable(!is_gone);
    let is_one = topic.key.execution.is_some();
    if topic.is_synced() {
        if let Some(id) = topic.key.execution.as_ref().filter(|_| is_gone) {
            topic.forget(id);
        }
        return false;
    }
    let hopeless = is_one || !error.kind.is_retryable() && !error.kind.is_outage();
    if hopeless {
        hub.forget_failed(topic);
    }
    topic.set_sync(Sync::Failed(status::of_provider(&upstream.id, error)));
    hopeless
}

/// Waits. True if nobody listens any more or the hub stops.
async fn rest(hub: &Hub, topic: &Topic, pause: Duration) -> bool {
    tokio::select! {
        () = hub.stop.cancelled() => true,
        () = tokio::time::sleep(pause) => hub.forget_if_idle(topic),
    }
}

/// Keeps a finished execution's topic until its last reader has left, which is true, or until it
/// is found to be open again, which is false.
async fn linger(hub: &Hub, topic: &Topic) -> bool {
    loop {
        tokio::select! {
            unwatched = rest(hub, topic, IDLE_CHECK) => {
                if unwatched {
                    return true;
                }
            }
            () = topic.hurried() => {}
        }
        if topic.shows_open() {
            return false;
        }
    }
}
