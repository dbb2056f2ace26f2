//! An execution in memory.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{Event, State, encode_into};

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
        }
    }

    /// Takes in what happened.
    pub(super) fn apply(&mut self, events: &[Event]) {
        if let (true, Some(first)) = (self.lines.is_empty(), events.first()) {
            self.first = first.sequence;
        }
        for event in events {
            self.state.apply(event);
            encode_into(event, &mut self.lines);
            self.lines.push(b'\n');
        }
        self.branch = self.state.branch();
        self.since_snapshot += u32::try_from(events.len()).unwrap_or(u32::MAX);
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
