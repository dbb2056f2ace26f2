//! Followers of what a provider pushes, and of collections that can only be listed.

use std::time::Duration;

use futures::StreamExt;
use stateway_model::Execution;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{Call, Error, ErrorKind, ListRequest, ObservationStream, Result, Verb};

use super::hub::Hub;
use super::poll::pause_after;
use super::topic::{Sync, Topic};
use crate::status;
use crate::upstream::Upstream;

/// Rows asked for at once when a whole collection is read.
const PAGE: u32 = 500;
/// How often a follower sees whether anyone still listens.
const IDLE_CHECK: Duration = Duration::from_secs(1);

/// Follows by the provider's own push, opening it again whenever it breaks.
pub(super) async fn pushed(hub: &Hub, upstream: &Upstream, topic: &Topic) {
    let mut failures = 0;
    loop {
        match open(hub, upstream, topic).await {
            Ok(stream) => {
                failures = 0;
                match drain(hub, upstream, topic, stream).await {
                    End::Unwatched => return,
                    End::Finished => return linger(hub, topic).await,
                    End::Broken => {}
                }
            }
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
    Broken,
}

/// Opens the push first and reads the present set second, so that nothing falls in between.
async fn open(hub: &Hub, upstream: &Upstream, topic: &Topic) -> Result<ObservationStream> {
    let call = Call::within(upstream.settings.timeout);
    let work = upstream.provider().watch(&call, topic.key.scope());
    let stream = upstream.guard(Verb::Watch, &call, work).await?;
    match &topic.key.execution {
        Some(id) => {
            let call = Call::within(upstream.settings.timeout);
            let work = upstream
                .provider()
                .get(&call, id, stateway_provider_api::View::Basic);
            let observation = upstream.guard(Verb::Get, &call, work).await?;
            topic.see(upstream.execution(observation));
        }
        None => {
            topic.see_all(read_all(hub, upstream).await?);
        }
    }
    topic.set_unreachable(false);
    topic.set_sync(Sync::Done);
    Ok(stream)
}

async fn drain(
    hub: &Hub,
    upstream: &Upstream,
    topic: &Topic,
    mut stream: ObservationStream,
) -> End {
    let mut idle_check = tokio::time::interval(IDLE_CHECK);
    loop {
        tokio::select! {
            () = hub.stop.cancelled() => return End::Unwatched,
            _ = idle_check.tick() => {
                if hub.forget_if_idle(topic) {
                    return End::Unwatched;
                }
            }
            item = stream.next() => match item {
                Some(Ok(observation)) => {
                    topic.see(upstream.execution(observation));
                }
                Some(Err(error)) => {
                    tracing::info!(provider = %upstream.id, "watch broke off: {error}");
                    topic.set_unreachable(error.kind.is_outage());
                    return End::Broken;
                }
                None if topic.key.execution.is_some() => return End::Finished,
                None => return End::Broken,
            },
        }
    }
}

/// Follows a collection by listing it again and again.
pub(super) async fn listed(hub: &Hub, upstream: &Upstream, topic: &Topic) {
    loop {
        match read_all(hub, upstream).await {
            Ok(executions) => {
                let news = topic.see_all(executions);
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
    loop {
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
            let message = format!("it has more than {most} executions, as many as a watch follows");
            return Err(
                Error::new(ErrorKind::FailedPrecondition, Verb::Watch, message)
                    .with_reason("TOO_MANY_EXECUTIONS")
                    .with_hint("Watch single executions, or raise `watch.max_followed`."),
            );
        }
    }
}

/// Takes note of a failure. True if there is no use in trying again.
fn give_up(hub: &Hub, upstream: &Upstream, topic: &Topic, error: &Error) -> bool {
    topic.set_unreachable(true);
    let is_one = topic.key.execution.is_some();
    if topic.is_synced() {
        let gone = error.kind == ErrorKind::NotFound;
        if let Some(id) = topic.key.execution.as_ref().filter(|_| gone) {
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

/// Keeps a finished execution's topic until its last reader has left.
async fn linger(hub: &Hub, topic: &Topic) {
    while !rest(hub, topic, IDLE_CHECK).await {}
}
