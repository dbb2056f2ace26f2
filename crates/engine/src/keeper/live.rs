//! An execution in memory.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{Event, MAX_EVENT_BYTES, State, encode_into};

use crate::error::{EngineError, ErrorKind, Result};
use crate::store::{Hash, Status, UnderWay};
use crate::view::Origin;

/// An execution in memory.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) origin: Arc<Origin>,
    pub(super) state: State,
    /// What its row says; nothing before the row is written.
    pub(super) status: Option<Status>,
    pub(super) hash: Hash,
    pub(super) since_snapshot: u32,
    /// The events of this turn, one line each.
    pub(super) lines: Vec<u8>,
    /// The sequence of the first of them.
    pub(super) first: u64,
    /// The branch of this turn's events.
    pub(super) branch: u32,
    pub(super) alarm: Option<Timestamp>,
    pub(super) touched: bool,
    /// Whether its snapshot misleads, so that another has to take its place.
    pub(super) renew_snapshot: bool,
    /// Whether it counts as having work under way.
    pub(super) counted: bool,
    /// About how many bytes it has in memory: those of its snapshot and of the events since.
    pub(super) bytes: usize,
    /// How many of them are counted.
    pub(super) weighed: usize,
    /// The execution at the top of its tree, where that is known.
    pub(super) root: Option<i64>,
}

impl Live {
    pub(super) const fn new(origin: Arc<Origin>, state: State, hash: Hash) -> Self {
        Self {
            origin,
            state,
            status: None,
            hash,
            since_snapshot: 0,
            lines: Vec::new(),
            first: 0,
            branch: 0,
            alarm: None,
            touched: false,
            renew_snapshot: false,
            counted: false,
            bytes: 0,
            weighed: 0,
            root: None,
        }
    }

    /// Applies events. Events that could not be written are refused, and nothing changes. Returns
    /// their bytes.
    pub(super) fn apply(&mut self, events: &[Event]) -> Result<usize> {
        let before = self.lines.len();
        for event in events {
            let start = self.lines.len();
            encode_into(event, &mut self.lines);
            let length = self.lines.len() - start;
            if length > MAX_EVENT_BYTES {
                self.lines.truncate(before);
                return Err(too_long(event, length));
            }
            self.lines.push(b'\n');
        }
        if let (0, Some(first)) = (before, events.first()) {
            self.first = first.sequence;
        }
        for event in events {
            self.state.apply(event);
        }
        self.branch = self.state.branch();
        self.since_snapshot += u32::try_from(events.len()).unwrap_or(u32::MAX);
        let bytes = self.lines.len() - before;
        self.bytes += bytes;
        Ok(bytes)
    }

    /// What it has under way now.
    pub(super) fn under_way(&self) -> UnderWay {
        UnderWay::of(&self.state, self.origin.not_before)
    }

    /// Time never runs backwards within a log, whatever the clock does.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        self.state.times().updated.map_or(now, |last| last.max(now))
    }
}

fn too_long(event: &Event, length: usize) -> EngineError {
    let name = event.fact.name();
    EngineError::new(
        ErrorKind::Invalid,
        "EVENT_TOO_LARGE",
        format_args!(
            "the event {name} has {length} bytes, more than the limit of {MAX_EVENT_BYTES}"
        ),
    )
    .hint("Store large data elsewhere and pass a reference.")
}
