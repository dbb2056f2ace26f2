//! The follower of a collection that can only be listed.
//!
//! A list may lag behind. So an execution that is missing from a list, or that a list shows as open
//! again, is read by itself before the change is published.

use std::time::Instant;

use futures::FutureExt;
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, ErrorKind, ListRequest, Result, Verb};

use super::follow::{Followed, IDLE_CHECK, Next, failed, has_other_manner, rest, too_many};
use super::hub::Hub;
use super::present::TooMany;
use super::topic::{RowTaken, Topic};
use crate::upstream::Upstream;

/// Rows per page.
const PAGE: u32 = 500;
/// The most pages of a collection, however few rows an engine puts on each.
const MOST_PAGES: usize = 5_000;
/// The most executions that are read by themselves after one list; others wait for the next.
pub(super) const MOST_CHECKED: usize = 100;

/// Follows a collection by listing it again and again.
pub(super) async fn listed(hub: &Hub, upstream: &Upstream, topic: &Topic) -> Followed {
    loop {
        if has_other_manner(upstream, topic) {
            return Followed::Changed;
        }
        match round(hub, upstream, topic).await {
            Ok(news) => {
                topic.set_synced();
                topic.plan(news);
            }
            Err(error) => {
                // The provider may have described itself during the call, and push instead of list.
                if has_other_manner(upstream, topic) {
                    return Followed::Changed;
                }
                if failed(hub, upstream, topic, &error) == Next::Stop {
                    return Followed::Unwatched;
                }
                topic.plan_after_failure();
            }
        }
        while Instant::now() < topic.due() {
            let left = topic.due().saturating_duration_since(Instant::now());
            if rest(hub, topic, left.min(IDLE_CHECK)).await {
                return Followed::Unwatched;
            }
            if has_other_manner(upstream, topic) {
                return Followed::Changed;
            }
        }
        if hub.stop.is_cancelled() {
            return Followed::Unwatched;
        }
    }
}

/// Reads the collection once. True if there is news.
async fn round(hub: &Hub, upstream: &Upstream, topic: &Topic) -> Result<bool> {
    topic.begin_round();
    let (mut news, mut doubtful) = read_all(hub, upstream, topic).await?;
    let left = MOST_CHECKED.saturating_sub(doubtful.len());
    doubtful.extend(topic.absent(left));
    news |= check(upstream, topic, &doubtful).await?;
    Ok(news)
}

/// Takes in every page; whether there is news, and the executions whose rows are doubtful.
async fn read_all(
    hub: &Hub,
    upstream: &Upstream,
    topic: &Topic,
) -> Result<(bool, Vec<ExecutionId>)> {
    let (mut news, mut doubtful) = (false, Vec::new());
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        if hub.stop.is_cancelled() {
            break;
        }
        let asked = upstream.asked();
        let call = Call::within(upstream.settings.timeout);
        let request = ListRequest {
            hints: topic.key.hints(),
            page_size: PAGE,
            cursor,
        };
        let guarded = upstream.within(&call);
        let page = guarded.call(Verb::List, |provider, call| provider.list(call, request));
        let page = page.await?;
        for row in page.observations {
            let id = row.id.clone();
            let taken = topic.see_row(upstream.sighting(row), asked);
            match taken.map_err(|TooMany| too_many(hub, Verb::List))? {
                RowTaken::Taken { news: is_news } => news |= is_news,
                RowTaken::Doubtful if doubtful.len() < MOST_CHECKED => doubtful.push(id),
                RowTaken::Doubtful => {}
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok((news, doubtful));
        }
    }
    Err(too_many(hub, Verb::List))
}

/// Reads executions by themselves. True if there is news.
pub(super) async fn check(upstream: &Upstream, topic: &Topic, ids: &[ExecutionId]) -> Result<bool> {
    if ids.is_empty() {
        return Ok(false);
    }
    let asked = upstream.asked();
    let call = Call::within(upstream.settings.timeout);
    let guarded = upstream.within(&call);
    let answers = guarded.call(Verb::Observe, |provider, call| {
        async { Ok(provider.observe(call, ids).await) }.boxed()
    });
    let answers = answers.await?;
    let mut news = false;
    for (id, answer) in ids.iter().zip(answers) {
        news |= match answer {
            Ok(seen) => {
                let taken = topic.see(upstream.sighting(seen), asked);
                taken.unwrap_or(false)
            }
            Err(error) if error.kind == ErrorKind::NotFound => topic.forget(id),
            // Not known: it stays as it is, and the next list shows whether to ask again.
            Err(_) => false,
        };
    }
    Ok(news)
}
