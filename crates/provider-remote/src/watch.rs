//! The stream of a watch: heartbeats are taken out, and a stream that stalls, floods or reports other
//! executions ends with an error.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use prost::Message;
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{
    Call, Error, ErrorKind, Result, Verb, WatchScope, WatchStream, Watched,
};
use stateway_wire::v1::watch_executions_response::Item;
use stateway_wire::{convert, v1};
use tonic::Streaming;

use crate::client::Client;
use crate::connection::Connection;
use crate::error::{malformed, timed_out};
use crate::violation::{FLOODS, STALLED};
use crate::{request, response};

/// How often a stream must report something.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);
/// A stream that is silent for this number of heartbeats has stalled.
const MISSED_HEARTBEATS: u32 = 3;

/// What an execution, and each entry of its repeated fields, counts beside its bytes: an entry of ten bytes
/// takes some hundred in memory.
const ENTRY_BYTES: usize = 512;

/// The most bytes of all executions that one watch shows, entries included.
const MAX_PRESENT_BYTES: usize = 512 * 1024 * 1024;

/// Refuses a watch of a provider that flooded a short time ago.
pub(crate) fn check_pause(connection: &Connection, verb: Verb) -> Result<()> {
    if lock(&connection.budget).is_paused(Instant::now()) {
        return Err(floods(verb));
    }
    Ok(())
}

/// Opens a watch. It is open when its first message has come.
pub(crate) async fn open(
    connection: &Arc<Connection>,
    client: &Client,
    call: &Call,
    scope: WatchScope,
    heartbeat: Duration,
) -> Result<WatchStream> {
    let verb = scope.verb();
    let message = request::watch(call, &scope, heartbeat);
    let opening = async {
        let opened = client.provider().watch_executions(message).await;
        let mut messages = opened
            .map_err(|status| client.failed(&status, verb))?
            .into_inner();
        let first = messages.message().await;
        let first = first.map_err(|status| client.failed(&status, verb))?;
        Ok((messages, first))
    };
    let opened = tokio::time::timeout_at(call.deadline.into(), opening).await;
    let (messages, first) = opened.map_err(|_| timed_out(verb))??;
    let follower = Follower {
        connection: Arc::clone(connection),
        client: client.clone(),
        present: Present::default(),
        messages,
        first,
        verb,
        scope,
        patience: heartbeat * MISSED_HEARTBEATS,
        is_in_sync: false,
    };
    let items = stream::unfold(Some(follower), |follower| async {
        let mut follower = follower?;
        match follower.next().await {
            Ok(Some(item)) => Some((Ok(item), Some(follower))),
            Ok(None) => None,
            Err(error) => {
                follower.connection.blame(&error);
                Some((Err(error), None))
            }
        }
    });
    Ok(items.boxed())
}

struct Follower {
    connection: Arc<Connection>,
    client: Client,
    present: Present,
    messages: Streaming<v1::WatchExecutionsResponse>,
    first: Option<v1::WatchExecutionsResponse>,
    verb: Verb,
    scope: WatchScope,
    patience: Duration,
    is_in_sync: bool,
}

impl Follower {
    /// The next item that is not a heartbeat; none at the end of the stream.
    async fn next(&mut self) -> Result<Option<Watched>> {
        loop {
            let Some(message) = self.receive().await? else {
                return Ok(None);
            };
            let bytes = size(&message);
            if !lock(&self.connection.budget).take(Instant::now(), bytes) {
                return Err(floods(self.verb));
            }
            if let Some(item) = self.read(message)? {
                if !self.present.take(&item, bytes) {
                    lock(&self.connection.budget).pause(Instant::now());
                    return Err(too_much(self.verb));
                }
                return Ok(Some(item));
            }
        }
    }

    async fn receive(&mut self) -> Result<Option<v1::WatchExecutionsResponse>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let message = tokio::time::timeout(self.patience, self.messages.message()).await;
        let stalled = |_| stalled(self.verb);
        let message = message.map_err(stalled)?;
        message.map_err(|status| self.client.failed(&status, self.verb))
    }

    fn read(&mut self, message: v1::WatchExecutionsResponse) -> Result<Option<Watched>> {
        match message.item {
            Some(Item::Seen(seen)) => {
                let seen = match self.execution() {
                    Some(id) => response::of(self.verb, id, seen)?,
                    None => response::any(self.verb, seen)?,
                };
                Ok(Some(Watched::seen(seen)))
            }
            Some(Item::Gone(id)) => {
                if let Some(asked) = self.execution() {
                    response::check(self.verb, asked, &id)?;
                }
                let id = convert::read_id("gone", &id);
                let id = id.map_err(|misfit| malformed(self.verb, &misfit))?;
                Ok(Some(Watched::Gone(id)))
            }
            Some(Item::InSync(_)) if !self.is_in_sync => {
                self.is_in_sync = true;
                Ok(Some(Watched::InSync))
            }
            Some(Item::InSync(_) | Item::Heartbeat(_)) | None => Ok(None),
        }
    }

    const fn execution(&self) -> Option<&ExecutionId> {
        match &self.scope {
            WatchScope::All | WatchScope::Within(_) => None,
            WatchScope::One(id) | WatchScope::End(id) => Some(id),
        }
    }
}

/// About the size of a message in memory.
fn size(message: &v1::WatchExecutionsResponse) -> usize {
    let entries = match &message.item {
        Some(Item::Seen(seen)) => 1 + entries(seen),
        _ => 0,
    };
    message.encoded_len() + ENTRY_BYTES * entries
}

/// The entries of all repeated fields of an observation that its rules do not bound.
fn entries(seen: &v1::Observation) -> usize {
    let qualifiers = |state: &Option<v1::NativeState>| {
        let state = state.as_ref();
        state.map_or(0, |state| state.qualifiers.len())
    };
    let steps = seen.steps.iter().map(|step| {
        let own = step.waits.len() + step.blocked_by.len() + step.notes.len();
        1 + own + qualifiers(&step.native_state)
    });
    let conflicts = seen.pause.as_ref().map_or(0, |pause| pause.conflicts.len());
    let texts = seen.forks.len() + seen.not_rolled_back.len() + seen.notes.len() + conflicts;
    let facts = seen.waits.len() + seen.labels.len() + qualifiers(&seen.native_state);
    texts + facts + steps.sum::<usize>()
}

/// The size of the executions that a watch shows. The gateway stores all of them, so its memory is bounded by
/// their size, not only by their number.
#[derive(Default)]
struct Present {
    bytes: HashMap<ExecutionId, usize>,
    total: usize,
}

impl Present {
    /// Takes in an item of this size; false when the executions have become too large.
    fn take(&mut self, item: &Watched, bytes: usize) -> bool {
        let (id, bytes) = match item {
            Watched::Seen(seen) => (&seen.id, bytes),
            Watched::Gone(id) => (id, 0),
            Watched::InSync => return true,
        };
        let before = if bytes == 0 {
            self.bytes.remove(id)
        } else {
            self.bytes.insert(id.clone(), bytes)
        };
        self.total = self.total.saturating_sub(before.unwrap_or_default()) + bytes;
        self.total <= MAX_PRESENT_BYTES
    }
}

fn too_much(verb: Verb) -> Error {
    let message =
        "the executions of one watch have more than 512 MiB (512 bytes for each entry included)";
    Error::new(ErrorKind::Throttled, verb, message).with_reason(FLOODS)
}

fn floods(verb: Verb) -> Error {
    let message = "the watches of the provider sent more than 20,000 messages or 16 MiB per second \
                   (512 bytes for each entry included)";
    Error::new(ErrorKind::Throttled, verb, message).with_reason(FLOODS)
}

fn stalled(verb: Verb) -> Error {
    let message = "the watch of the provider was silent for three heartbeats";
    Error::new(ErrorKind::Unavailable, verb, message).with_reason(STALLED)
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::{NativeState, Observation};

    use super::*;

    #[test]
    fn the_executions_of_a_watch_are_bounded_in_bytes() {
        let id = |number: usize| ExecutionId::new(number.to_string()).unwrap();
        let seen = |number| Watched::seen(Observation::new(id(number), NativeState::new("A")));
        let (large, mut present) = (4 * 1024 * 1024, Present::default());
        assert!((0..128).all(|number| present.take(&seen(number), large)));
        // A known execution needs no further room, and an execution that has gone makes room for another.
        assert!(present.take(&seen(0), large));
        assert!(present.take(&Watched::Gone(id(1)), 9) && present.take(&seen(128), large));
        assert!(!present.take(&seen(129), large));
    }

    #[test]
    fn each_entry_counts_beside_its_bytes() {
        let state = || {
            let qualifiers = [("a".to_owned(), "b".to_owned())];
            Some(v1::NativeState {
                state: "A".into(),
                qualifiers: qualifiers.into(),
            })
        };
        let step = v1::StepObservation {
            name: "a".into(),
            native_state: state(),
            waits: vec![v1::Wait::default()],
            blocked_by: vec![String::new()],
            notes: vec![String::new()],
            ..v1::StepObservation::default()
        };
        let seen = v1::Observation {
            native_state: state(),
            waits: vec![v1::Wait::default()],
            labels: [("a".to_owned(), "b".to_owned())].into(),
            pause: Some(v1::Pause {
                conflicts: vec![String::new()],
                ..v1::Pause::default()
            }),
            forks: vec!["a".into()],
            not_rolled_back: vec!["a".into()],
            notes: vec!["a".into()],
            steps: vec![step; 40_000],
            ..v1::Observation::default()
        };
        assert_eq!(entries(&seen), 7 + 5 * 40_000);
        let message = v1::WatchExecutionsResponse {
            item: Some(Item::Seen(seen)),
        };
        let entries = 1 + 7 + 5 * 40_000;
        assert_eq!(size(&message), message.encoded_len() + 512 * entries);
        // The largest entry takes about as much.
        let step = size_of::<stateway_provider_api::StepObservation>();
        assert!(step < ENTRY_BYTES * 3 / 2, "{step} bytes");
    }
}
