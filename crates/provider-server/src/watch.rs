//! The stream of a watch, with heartbeats.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use stateway_provider_api::{WatchStream, Watched};
use stateway_wire::v1::watch_executions_response::Item;
use stateway_wire::{convert, status_of, v1};
use tokio::time::{Interval, MissedTickBehavior};
use tonic::Status;

use crate::stop::Stop;

/// How often a stream reports something unless the gateway names another interval.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(10);

pub(crate) type Responses = BoxStream<'static, Result<v1::WatchExecutionsResponse, Status>>;

/// The messages of a watch: a heartbeat first, because the watch is open, and then whenever there was
/// nothing to report for the interval.
///
/// A server that stops ends the watch: the stream of a watch has no end by itself, and would keep the
/// connection open.
pub(crate) fn responses(
    stream: WatchStream,
    interval: Option<Duration>,
    stop: Option<Stop>,
) -> Responses {
    let interval = interval.unwrap_or(HEARTBEAT).max(SHORTEST);
    let mut heartbeats = tokio::time::interval(interval);
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stopping = match stop {
        Some(stop) => stop.requested().boxed(),
        None => std::future::pending().boxed(),
    };
    let open = Open {
        stream,
        heartbeats,
        stopping,
    };
    stream::unfold(Some(open), next).boxed()
}

struct Open {
    stream: WatchStream,
    heartbeats: Interval,
    stopping: BoxFuture<'static, ()>,
}

type Response = Result<v1::WatchExecutionsResponse, Status>;

async fn next(open: Option<Open>) -> Option<(Response, Option<Open>)> {
    let mut open = open?;
    let item = tokio::select! {
        biased;
        () = &mut open.stopping => {
            return Some((Err(Status::unavailable("the provider is stopping")), None));
        }
        // The first tick is immediate.
        _ = open.heartbeats.tick() => Item::Heartbeat(v1::Heartbeat {}),
        item = open.stream.next() => match item? {
            Ok(watched) => {
                open.heartbeats.reset();
                of(&watched)
            }
            Err(error) => return Some((Err(status_of(&error)), None)),
        },
    };
    let response = v1::WatchExecutionsResponse { item: Some(item) };
    Some((Ok(response), Some(open)))
}

fn of(watched: &Watched) -> Item {
    match watched {
        Watched::Seen(seen) => Item::Seen(convert::observation(seen)),
        Watched::Gone(id) => Item::Gone(id.to_string()),
        Watched::InSync => Item::InSync(v1::InSync {}),
    }
}
