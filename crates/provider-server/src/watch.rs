//! The stream of a watch, with heartbeats.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use stateway_provider_api::{WatchStream, Watched};
use stateway_wire::v1::watch_executions_response::Item;
use stateway_wire::{convert, status_of, v1};
use tokio::time::{Interval, MissedTickBehavior};
use tonic::Status;

/// How often a stream reports something unless the gateway names another interval.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(10);

pub(crate) type Responses = BoxStream<'static, Result<v1::WatchExecutionsResponse, Status>>;

/// The messages of a watch: a heartbeat first, because the watch is open, and then whenever there was
/// nothing to report for the interval.
pub(crate) fn responses(stream: WatchStream, interval: Option<Duration>) -> Responses {
    let interval = interval.unwrap_or(HEARTBEAT).max(SHORTEST);
    let mut heartbeats = tokio::time::interval(interval);
    heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold(Some((stream, heartbeats)), next).boxed()
}

type State = Option<(WatchStream, Interval)>;

async fn next(state: State) -> Option<(Result<v1::WatchExecutionsResponse, Status>, State)> {
    let (mut stream, mut heartbeats) = state?;
    let item = tokio::select! {
        biased;
        // The first tick is immediate.
        _ = heartbeats.tick() => Item::Heartbeat(v1::Heartbeat {}),
        item = stream.next() => match item? {
            Ok(watched) => {
                heartbeats.reset();
                of(&watched)
            }
            Err(error) => return Some((Err(status_of(&error)), None)),
        },
    };
    let response = v1::WatchExecutionsResponse { item: Some(item) };
    Some((Ok(response), Some((stream, heartbeats))))
}

fn of(watched: &Watched) -> Item {
    match watched {
        Watched::Seen(seen) => Item::Seen(convert::observation(seen)),
        Watched::Gone(id) => Item::Gone(id.to_string()),
        Watched::InSync => Item::InSync(v1::InSync {}),
    }
}
