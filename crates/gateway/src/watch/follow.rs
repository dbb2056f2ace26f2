//! Followers of what a provider pushes.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use stateway_provider_api::{Call, Error, ErrorKind, Result, Verb, WatchStream, Watched};

use super::hub::Hub;
use super::listed;
use super::poll::pause_after;
use super::present::TooMany;
use super::topic::{SightingTaken, Topic};
use crate::status;
use crate::upstream::Upstream;

/// How often a follower sees whether anyone still listens.
pub(super) const IDLE_CHECK: Duration = Duration::from_secs(1);
/// How long a finished execution is watched without being read.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// The least time that a provider has for each execution of the current set. The contract of
/// providers in other processes promises it, also when `timeout` is shorter.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);
/// How often a watch is opened in a row while the provider is restarted.
const MOST_OPENED: usize = 3;
/// The reason of a push whose versions decrease without a restart of the provider.
const VERSION_DECREASED: &str = "PROVIDER_VERSION_DECREASED";
/// The reason when a collection has more executions than a watch follows.
const TOO_MANY_EXECUTIONS: &str = "TOO_MANY_EXECUTIONS";

/// Why a follower ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Followed {
    /// No reader is left, the topic was given up, or the hub stops.
    Unwatched,
    /// The provider described itself in another way: the topic has to be followed again from the start.
    Changed,
}

/// Whether the provider offers another manner of following since the topic was last followed.
pub(super) fn has_other_manner(upstream: &Upstream, topic: &Topic) -> bool {
    topic.key.scope().is_offered(&upstream.capabilities()) != topic.is_pushed()
}

/// Follows by the provider's own push, opening it again whenever it breaks.
pub(super) async fn pushed(hub: &Hub, upstream: &Upstream, topic: &Topic) -> Followed {
    let mut failures = 0;
    loop {
        match follow_stream(hub, upstream, topic).await {
            Ok(End::Unwatched) => return Followed::Unwatched,
            Ok(End::Changed) => return Followed::Changed,
            Ok(End::Finished) => {
                // It may be reopened: a redrive, a reset.
                if linger(hub, topic).await {
                    return Followed::Unwatched;
                }
                continue;
            }
            Ok(End::LostTrack) => failures = 0,
            Err(Broken { error, in_sync }) => {
                if in_sync {
                    failures = 0;
                }
                if topic.is_synced() && has_other_manner(upstream, topic) {
                    return Followed::Changed;
                }
                if failed(hub, upstream, topic, &error) == Next::Stop {
                    return Followed::Unwatched;
                }
            }
        }
        failures += 1;
        let unwatched = tokio::select! {
            unwatched = rest(hub, topic, pause_after(failures, upstream)) => unwatched,
            () = upstream.back() => hub.forget_if_idle(topic),
        };
        if unwatched {
            return Followed::Unwatched;
        }
    }
}

/// Why following a stream ended without an error.
enum End {
    /// No reader is left, or the hub stops.
    Unwatched,
    /// The state table or the manner of following has changed.
    Changed,
    /// The one execution it followed has finished or is gone.
    Finished,
    /// The provider lost track of changes: the stream has to be opened again.
    LostTrack,
}

/// A stream that ended with an error.
struct Broken {
    error: Error,
    /// The current set had been read, so that opening the stream again is no storm.
    in_sync: bool,
}

/// Opens the push and follows it to its end.
async fn follow_stream(
    hub: &Hub,
    upstream: &Upstream,
    topic: &Topic,
) -> std::result::Result<End, Broken> {
    let mut in_sync = false;
    let followed = async {
        let push = open(upstream, topic).await?;
        topic.begin_round();
        drain(hub, upstream, topic, (push, &mut in_sync)).await
    };
    let end = followed.await;
    end.map_err(|error| Broken { error, in_sync })
}

/// A stream of one process of the provider.
struct Push {
    stream: WatchStream,
    restart_count: u64,
}

/// Opens the push. If the provider is restarted meanwhile, it is not known which process has opened the
/// stream, so it is opened again.
async fn open(upstream: &Upstream, topic: &Topic) -> Result<Push> {
    let verb = topic.key.scope().verb();
    for _ in 0..MOST_OPENED {
        let restart_count = upstream.restart_count();
        let call = Call::within(upstream.settings.timeout);
        let scope = topic.key.scope();
        let guarded = upstream.within(&call);
        let opened = guarded.call(verb, |provider, call| provider.watch(call, scope));
        let stream = opened.await?;
        if upstream.restart_count() == restart_count {
            return Ok(Push {
                stream,
                restart_count,
            });
        }
    }
    let message = "the provider was restarted several times while its watch was opened";
    Err(Error::new(ErrorKind::Unavailable, verb, message))
}

/// Takes in a stream. Until the current set is known, each item must come within the provider's
/// timeout, or within [`LEAST_PATIENCE`] if that is longer.
async fn drain(
    hub: &Hub,
    upstream: &Upstream,
    topic: &Topic,
    (push, in_sync): (Push, &mut bool),
) -> Result<End> {
    let Push {
        mut stream,
        restart_count,
    } = push;
    let verb = topic.key.scope().verb();
    let described = upstream.describe();
    let mut idle_check = tokio::time::interval(IDLE_CHECK);
    let patience = upstream.settings.timeout.max(LEAST_PATIENCE);
    let mut next_by = Instant::now() + patience;
    loop {
        // An adapter's panic breaks the stream off, not the follower.
        let item = AssertUnwindSafe(stream.next()).catch_unwind();
        let item = tokio::select! {
            () = hub.stop.cancelled() => return Ok(End::Unwatched),
            _ = idle_check.tick() => {
                if hub.forget_if_idle(topic) {
                    return Ok(End::Unwatched);
                }
                // What was seen before is shown by the old table until it is read again.
                let now = upstream.describe();
                let is_same = now.generation == described.generation || now.table == described.table;
                if !is_same || has_other_manner(upstream, topic) {
                    return Ok(End::Changed);
                }
                continue;
            }
            () = tokio::time::sleep_until(next_by.into()), if !*in_sync => {
                let message = "the current executions were not reported in time";
                return Err(Error::new(ErrorKind::Timeout, verb, message));
            }
            item = item => item,
        };
        let Ok(item) = item else {
            tracing::error!(provider = %upstream.id, "the adapter panicked in a watch");
            return Err(Error::new(
                ErrorKind::Internal,
                verb,
                "the adapter panicked",
            ));
        };
        let Some(item) = item else {
            return Ok(match topic.key.execution() {
                Some(_) => End::Finished,
                None => End::LostTrack,
            });
        };
        let item = item?;
        if item == Watched::InSync && topic.key.execution().is_none() {
            // Executions that finished while the topic was not followed are read, so that their ends are reported.
            listed::check(upstream, topic, &topic.absent(listed::MOST_CHECKED)).await?;
        }
        *in_sync |= item == Watched::InSync;
        take(hub, upstream, topic, (item, restart_count))?;
        next_by = Instant::now() + patience;
    }
}

fn take(
    hub: &Hub,
    upstream: &Upstream,
    topic: &Topic,
    (item, restart_count): (Watched, u64),
) -> Result<()> {
    match item {
        Watched::Seen(observation) => {
            let verb = topic.key.scope().verb();
            let id = observation.id.clone();
            let taken = topic.see_pushed(upstream.sighting(*observation), restart_count);
            let taken = taken.map_err(|TooMany| too_many(hub, verb))?;
            if taken == SightingTaken::Decreased {
                tracing::debug!(provider = %upstream.id, %id, "the version has decreased");
                upstream.note_violation(&version_decreased(verb));
            }
        }
        Watched::Gone(id) => drop(topic.forget(&id)),
        Watched::InSync => {
            for id in topic.absent(usize::MAX) {
                topic.forget(&id);
            }
            topic.set_synced();
        }
    }
    Ok(())
}

/// What a provider did wrong whose versions decrease. Without the id: one message for all executions is one
/// log line.
fn version_decreased(verb: Verb) -> Error {
    let message =
        "a watch reported an execution with a lower version than before, which is ignored";
    Error::new(ErrorKind::Malformed, verb, message).with_reason(VERSION_DECREASED)
}

/// The refusal to follow more executions than allowed.
pub(super) fn too_many(hub: &Hub, verb: Verb) -> Error {
    let most = hub.settings.max_watched_executions;
    let message =
        format!("the watch has to follow more than {most} executions, which is the maximum");
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_reason(TOO_MANY_EXECUTIONS)
        .with_hint(
            "Narrow the filter by `definition`, `labels.<key>` or `sub_state`, watch single executions, or raise `watch.max_watched_executions`.",
        )
}

/// What a follower does after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Retry,
    /// The topic cannot be followed and is forgotten.
    Stop,
}

/// Takes note of a failure. The policy of every follower:
///
/// - An execution that is gone leaves the current set of a topic that shows it.
/// - A topic that was never in sync fails to open. One execution is not tried again: its readers
///   have the error. A collection is, for the readers that watch all providers, whatever the failure: a
///   provider that breaks the contract may be repaired. Only a refusal that depends on nothing but the
///   provider's abilities or the collection's size is final.
/// - More executions than allowed end the topic, and the streams of its readers with it.
/// - After any other failure the topic keeps its current set, its readers learn that the provider
///   is unreachable, and the follower tries again.
pub(super) fn failed(hub: &Hub, upstream: &Upstream, topic: &Topic, error: &Error) -> Next {
    let is_gone = error.kind == ErrorKind::NotFound;
    topic.set_unreachable(!is_gone);
    if error.reason() == TOO_MANY_EXECUTIONS {
        hub.set_crowded(&topic.key);
    }
    if topic.is_synced() {
        if error.reason() == TOO_MANY_EXECUTIONS {
            hub.forget_failed(topic);
            topic.end(status::of_provider(&upstream.id, error));
            return Next::Stop;
        }
        if let Some(id) = topic.key.execution().filter(|_| is_gone) {
            topic.forget(id);
        }
        tracing::info!(provider = %upstream.id, "watch interrupted: {error}");
        return Next::Retry;
    }
    let is_one = topic.key.execution().is_some();
    let is_final = error.kind == ErrorKind::Unsupported || error.reason() == TOO_MANY_EXECUTIONS;
    let hopeless = is_one || is_final;
    let status = status::of_provider(&upstream.id, error);
    if hopeless {
        hub.forget_failed(topic);
        topic.end(status);
        return Next::Stop;
    }
    topic.set_failed(status);
    Next::Retry
}

/// Waits. True if no reader is left or the hub stops.
pub(super) async fn rest(hub: &Hub, topic: &Topic, pause: Duration) -> bool {
    tokio::select! {
        () = hub.stop.cancelled() => true,
        () = tokio::time::sleep(pause) => hub.forget_if_idle(topic),
    }
}

/// Keeps a finished execution's topic until its last reader has left, which is true, or until the
/// execution has to be read again, which is false: it is open again, it is gone and may be started
/// again under the same id, or it was not read for a while and may be gone.
async fn linger(hub: &Hub, topic: &Topic) -> bool {
    let began = Instant::now();
    loop {
        tokio::select! {
            unwatched = rest(hub, topic, IDLE_CHECK) => {
                if unwatched {
                    return true;
                }
            }
            () = topic.hurried() => {}
        }
        if topic.shows_open() || topic.is_empty() || began.elapsed() >= READ_AGAIN {
            return false;
        }
    }
}
