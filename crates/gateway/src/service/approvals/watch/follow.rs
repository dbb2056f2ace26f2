//! The follower of one provider's approvals: by the provider's push, or by listing again and again.
//!
//! Which of the two is decided each time the follower begins again: a provider may describe itself
//! otherwise after a reconnect.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use stateway_provider_api::{
    ApprovalStream, Call, Error, ErrorKind, InboxRequest, Result, Verb, WatchedApproval,
};

use super::hub::ApprovalHub;
use super::topic::{TooMany, Topic};
use crate::status;
use crate::upstream::Upstream;
use crate::watch::{Pace, pause_after};

/// How often a follower checks whether anyone still listens.
const IDLE_CHECK: Duration = Duration::from_secs(1);
/// Rows per page of a list.
const PAGE: usize = 500;
/// The most pages of a list, however few rows a provider puts on each.
const MOST_PAGES: usize = 5_000;
/// The most approvals that are read by themselves after one list; others wait for the next.
const MOST_CHECKED: usize = 100;
/// The reason when a provider has more pending approvals than a watch follows.
const TOO_MANY_APPROVALS: &str = "TOO_MANY_APPROVALS";

/// Why following ended without an error.
enum End {
    /// No reader is left.
    Unwatched,
    /// The provider lost track of changes: the stream has to be opened again.
    LostTrack,
    /// The approvals were listed; whether there was news.
    Listed { news: bool },
}

/// Follows until no reader is left, or the approvals cannot be followed.
pub(super) async fn follow(hub: &ApprovalHub, upstream: &Upstream, topic: &Topic) {
    let settings = &upstream.settings;
    let mut pace = Pace::new(settings.min_poll_interval, settings.max_poll_interval);
    let mut failures = 0;
    loop {
        let mut in_sync = false;
        let followed = if upstream.capabilities().watch_approvals {
            pushed(hub, upstream, topic, &mut in_sync).await
        } else {
            listed(hub, upstream, topic).await
        };
        let pause = match followed {
            Ok(End::Unwatched) => return,
            Ok(End::Listed { news }) => {
                failures = 0;
                pace.next(news, None)
            }
            Ok(End::LostTrack) => {
                failures = 1;
                pause_after(failures, upstream)
            }
            Err(error) => {
                if error.reason() == TOO_MANY_APPROVALS {
                    hub.set_crowded(topic);
                }
                if !may_go_on(upstream, topic, &error) {
                    hub.forget(topic);
                    topic.end(status::of_provider(&upstream.id, &error));
                    return;
                }
                failures = if in_sync { 1 } else { failures + 1 };
                pause_after(failures, upstream)
            }
        };
        if rest(hub, topic, pause).await {
            return;
        }
    }
}

/// Takes note of a failure; false if the approvals cannot be followed.
///
/// - A provider that does not offer approvals, or has too many, is not tried again.
/// - Before the approvals were known: an outage is tried again, for the readers of all providers.
/// - Later: the topic keeps what it knows, its readers learn that the provider is unreachable, and the
///   follower tries again.
fn may_go_on(upstream: &Upstream, topic: &Topic, error: &Error) -> bool {
    let is_final = error.kind == ErrorKind::Unsupported || error.reason() == TOO_MANY_APPROVALS;
    let may_pass = error.kind.is_retryable() || error.kind.is_outage();
    if is_final || !topic.is_synced() && !may_pass {
        return false;
    }
    tracing::info!(provider = %upstream.id, "watch of approvals interrupted: {error}");
    topic.set_unreachable();
    if !topic.is_synced() {
        topic.set_failed(status::of_provider(&upstream.id, error));
    }
    true
}

/// Opens the push and follows it to its end.
async fn pushed(
    hub: &ApprovalHub,
    upstream: &Upstream,
    topic: &Topic,
    in_sync: &mut bool,
) -> Result<End> {
    let call = Call::within(upstream.settings.timeout);
    let guarded = upstream.within(&call);
    let opened = guarded.approvals(Verb::WatchApprovals, |inbox, call| {
        inbox.watch_approvals(call)
    });
    let stream = opened.await?;
    topic.begin_round();
    drain(hub, upstream, topic, (stream, in_sync)).await
}

/// Takes in a stream. Until the pending approvals are known, each item must come within the provider's
/// timeout.
async fn drain(
    hub: &ApprovalHub,
    upstream: &Upstream,
    topic: &Topic,
    (mut stream, in_sync): (ApprovalStream, &mut bool),
) -> Result<End> {
    let verb = Verb::WatchApprovals;
    let mut idle_check = tokio::time::interval(IDLE_CHECK);
    let mut patience = Instant::now() + upstream.settings.timeout;
    loop {
        // An adapter's panic breaks the stream off, not the follower.
        let item = AssertUnwindSafe(stream.next()).catch_unwind();
        let item = tokio::select! {
            _ = idle_check.tick() => {
                if hub.forget_if_idle(topic) {
                    return Ok(End::Unwatched);
                }
                continue;
            }
            () = tokio::time::sleep_until(patience.into()), if !*in_sync => {
                let message = "the pending approvals were not reported in time";
                return Err(Error::new(ErrorKind::Timeout, verb, message));
            }
            item = item => item,
        };
        let Ok(item) = item else {
            tracing::error!(provider = %upstream.id, "the adapter panicked in a watch of approvals");
            return Err(Error::new(
                ErrorKind::Internal,
                verb,
                "the adapter panicked",
            ));
        };
        let Some(item) = item else {
            return Ok(End::LostTrack);
        };
        match item? {
            WatchedApproval::Seen(approval) => {
                let seen = topic.see(*approval);
                seen.map_err(|TooMany| too_many(hub, verb))?;
            }
            WatchedApproval::Gone(id) => drop(topic.forget(&id)),
            WatchedApproval::InSync => {
                *in_sync = true;
                end_absent(upstream, topic).await?;
                topic.set_synced();
            }
        }
        patience = Instant::now() + upstream.settings.timeout;
    }
}

/// Removes the approvals that ended while the stream was broken, the first of them with their last state.
async fn end_absent(upstream: &Upstream, topic: &Topic) -> Result<()> {
    check(upstream, topic).await?;
    for id in topic.absent() {
        topic.forget(&id);
    }
    Ok(())
}

/// Lists the pending approvals once.
async fn listed(hub: &ApprovalHub, upstream: &Upstream, topic: &Topic) -> Result<End> {
    topic.begin_round();
    let mut news = read_all(hub, upstream, topic).await?;
    news |= check(upstream, topic).await?;
    topic.set_synced();
    Ok(End::Listed { news })
}

/// Takes in every page. True if there is news.
async fn read_all(hub: &ApprovalHub, upstream: &Upstream, topic: &Topic) -> Result<bool> {
    let verb = Verb::ListApprovals;
    let (mut news, mut cursor) = (false, None);
    for _ in 0..MOST_PAGES {
        let request = InboxRequest {
            hints: topic.part.hints(),
            page_size: PAGE,
            cursor,
        };
        let call = Call::within(upstream.settings.timeout);
        let guarded = upstream.within(&call);
        let page = guarded.approvals(verb, |inbox, call| inbox.list_approvals(call, request));
        let page = page.await?;
        for row in page.items {
            news |= topic.see(row).map_err(|TooMany| too_many(hub, verb))?;
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(news);
        }
    }
    Err(too_many(hub, verb))
}

/// Reads the approvals that were not seen in this round: how they ended, or that they are still pending.
/// True if there is news.
async fn check(upstream: &Upstream, topic: &Topic) -> Result<bool> {
    let mut news = false;
    for id in topic.absent().into_iter().take(MOST_CHECKED) {
        let call = Call::within(upstream.settings.timeout);
        let guarded = upstream.within(&call);
        let read = guarded.approvals(Verb::GetApproval, |inbox, call| {
            inbox.get_approval(call, &id)
        });
        news |= match read.await.map_err(Error::from) {
            Ok(mut approval) => {
                approval.input = None;
                topic.see(approval).unwrap_or(false)
            }
            Err(error) if error.kind.is_outage() || error.kind.is_retryable() => return Err(error),
            // It is neither among the pending approvals nor can it be read.
            Err(_) => topic.forget(&id),
        };
    }
    Ok(news)
}

/// The refusal to follow more approvals than allowed.
fn too_many(hub: &ApprovalHub, verb: Verb) -> Error {
    let most = hub.settings.max_watched_executions;
    let message =
        format!("the provider has more than {most} pending approvals, the maximum of a watch");
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_reason(TOO_MANY_APPROVALS)
        .with_hint("List the approvals instead, or raise `watch.max_watched_executions`.")
}

/// Waits until the next read is due or is requested. True if no reader is left.
async fn rest(hub: &ApprovalHub, topic: &Topic, pause: Duration) -> bool {
    let due = Instant::now() + pause;
    loop {
        let next_check = due.min(Instant::now() + IDLE_CHECK);
        tokio::select! {
            () = topic.hurried() => return false,
            () = tokio::time::sleep_until(next_check.into()) => {
                if hub.forget_if_idle(topic) {
                    return true;
                }
            }
        }
        if Instant::now() >= due {
            return false;
        }
    }
}
