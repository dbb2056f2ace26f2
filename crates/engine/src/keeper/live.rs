//! An execution in memory.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_driver::{Step, apply};
use stateway_machine::{Event, EventHeader, MAX_EVENT_BYTES, State, encode_after};

use crate::error::{EngineError, ErrorKind, Result};
use crate::store::{Hash, OpenWork, Status};
use crate::view::Origin;

/// An execution in memory.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) origin: Arc<Origin>,
    pub(super) state: State,
    /// The content of its row; none before the row is written.
    pub(super) status: Option<Status>,
    pub(super) hash: Hash,
    pub(super) since_snapshot: u32,
    /// The events of this turn, one line each.
    pub(super) lines: Vec<u8>,
    /// What the last of them has in common with the next one.
    last: Option<EventHeader>,
    /// The sequence of the first of them.
    pub(super) first: u64,
    /// The branch of this turn's events.
    pub(super) branch: u32,
    pub(super) alarm: Option<Timestamp>,
    pub(super) touched: bool,
    /// Whether what the turn did to it is gathered, so that it is written with the turn.
    pub(super) gathered: bool,
    /// Whether it may leave memory once the turn is on disk. Known when it is gathered.
    pub(super) leaves: bool,
    /// Whether its snapshot misleads, so that another has to take its place.
    pub(super) renew_snapshot: bool,
    /// Whether its row was written in an older form.
    pub(super) renew_row: bool,
    /// Whether its row does not show its last events.
    pub(super) renew_summary: bool,
    /// Whether it counts as having work under way.
    pub(super) counted: bool,
    /// About how many bytes it has in memory: those of its snapshot and of the events since.
    pub(super) bytes: usize,
    /// How many of them are counted.
    pub(super) weighed: usize,
    /// The execution at the top of its tree, where that is known.
    pub(super) root: Option<i64>,
    /// The time before which no timer fires, because the core rejected one.
    pub(super) timers_after: Option<Timestamp>,
    /// How far its log is ahead of the wall clock, which was moved back.
    shift: SignedDuration,
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
            last: None,
            first: 0,
            branch: 0,
            alarm: None,
            touched: false,
            gathered: false,
            leaves: false,
            renew_snapshot: false,
            renew_row: false,
            renew_summary: false,
            counted: false,
            bytes: 0,
            weighed: 0,
            root: None,
            timers_after: None,
            shift: SignedDuration::ZERO,
        }
    }

    /// Applies the events of one command. Events that could not be written are refused, and nothing
    /// changes. Returns what has to be done, and the bytes of the events.
    pub(super) fn apply(&mut self, events: Vec<Event>) -> Result<(Step, usize)> {
        let before = self.lines.len();
        let mut last = self.last.clone().filter(|_| before > 0);
        for event in &events {
            let start = self.lines.len();
            encode_after(last.as_ref(), event, &mut self.lines);
            last = Some(EventHeader::from(event));
            let length = self.lines.len() - start;
            if length > MAX_EVENT_BYTES {
                self.lines.truncate(before);
                return Err(too_long(event, length));
            }
            self.lines.push(b'\n');
        }
        self.last = last;
        if let (0, Some(first)) = (before, events.first()) {
            self.first = first.sequence;
        }
        self.since_snapshot += u32::try_from(events.len()).unwrap_or(u32::MAX);
        let step = apply(&mut self.state, events);
        self.branch = self.state.branch();
        let bytes = self.lines.len() - before;
        self.bytes += bytes;
        Ok((step, bytes))
    }

    /// Whether something that happened to it is not handed to the store yet.
    pub(super) const fn is_unwritten(&self) -> bool {
        !self.lines.is_empty() || self.gathered || self.status.is_none()
    }

    /// What it has under way now.
    pub(super) fn under_way(&self) -> OpenWork {
        OpenWork::of(&self.state, self.origin.not_before)
    }

    /// The time for the next event. Time never runs backwards within a log: a log that is ahead of
    /// the wall clock keeps its distance, so that its timers fire after the time that they were set
    /// for.
    pub(super) fn time(&self, now: Timestamp) -> Timestamp {
        let shifted = self.log_time(now);
        let last = self.state.times().updated;
        last.map_or(shifted, |last| last.max(shifted))
    }

    /// The time that the log has at a moment of the wall clock.
    pub(super) fn log_time(&self, wall: Timestamp) -> Timestamp {
        wall.checked_add(self.shift).unwrap_or(wall)
    }

    /// The moment of the wall clock at which the log has this time.
    pub(super) fn wall_time(&self, due: Timestamp) -> Timestamp {
        due.checked_sub(self.shift).unwrap_or(due)
    }

    /// When a timer that is due fires: later if the core rejected one before.
    pub(super) fn postponed(&self, due: Option<Timestamp>) -> Option<Timestamp> {
        due.map(|due| self.timers_after.map_or(due, |after| after.max(due)))
    }

    /// Whether the wall clock was moved back since its last event.
    pub(super) fn is_shifted(&self) -> bool {
        !self.shift.is_zero()
    }

    /// Takes notice of a wall clock that was moved back behind the last event.
    pub(super) fn notice_time(&mut self, now: Timestamp) {
        if let Some(last) = self.state.times().updated {
            self.shift = self.shift.max(last.duration_since(now));
        }
    }

    /// Takes over the distance with which its row was written: the row is due earlier than the log.
    pub(super) fn take_shift(&mut self, by_row: Option<Timestamp>, by_log: Option<Timestamp>) {
        if let (Some(row), Some(log)) = (by_row, by_log)
            && row > Timestamp::UNIX_EPOCH
        {
            self.shift = self.shift.max(log.duration_since(row));
        }
    }

    /// The wall clock was moved forward: the distance of the log shrinks.
    pub(super) fn shrink_shift(&mut self, by: SignedDuration) {
        self.shift = self.shift.saturating_sub(by).max(SignedDuration::ZERO);
    }
}

fn too_long(event: &Event, length: usize) -> EngineError {
    let name = event.fact.name();
    EngineError::new(
        ErrorKind::InvalidArgument,
        "EVENT_TOO_LARGE",
        format_args!(
            "the event {name} has {length} bytes, more than the limit of {MAX_EVENT_BYTES}"
        ),
    )
    .hint("Store large data elsewhere and pass a reference.")
}
