//! An execution in memory, and bringing one there.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{Event, State, encode_into};

use super::Keeper;
use crate::EngineError;
use crate::error::Result;
use crate::store::{Hash, Kept, Status, UnderWay, load};
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

impl Keeper {
    /// The number of an execution, in memory or not.
    pub(super) fn number_of(&self, id: &str) -> Result<i64> {
        if let Some(number) = self.numbers.get(id) {
            return Ok(*number);
        }
        let found = self.store.number_of(id)?;
        found.ok_or_else(|| EngineError::no_execution(id))
    }

    /// Brings an execution into memory.
    pub(super) fn bring(&mut self, number: i64) -> Result<()> {
        if self.hot.contains_key(&number) {
            return Ok(());
        }
        let kept = self.store.kept(number)?;
        let kept = kept.ok_or_else(|| EngineError::no_execution(&number.to_string()))?;
        self.bring_kept(kept)
    }

    /// Brings an execution into memory whose row was read.
    pub(super) fn bring_kept(&mut self, kept: Kept) -> Result<()> {
        let loaded = load(&*self.store, kept, &self.catalogue)?;
        let origin = Arc::clone(&loaded.kept.origin);
        let under_way = UnderWay::of(&loaded.state, origin.not_before);
        let so = loaded.kept.older
            || Status::of(&loaded.state, &under_way).agrees(&loaded.kept.status)
                && self.store.head(origin.number)?
                    == Some((loaded.kept.status.branch, loaded.hash));
        if !so {
            self.drifted(origin.number)?;
            if self.hot.contains_key(&origin.number) {
                return Ok(());
            }
        }
        let mut live = Live::new(Arc::clone(&origin), loaded.state, loaded.hash);
        live.status = Some(loaded.kept.status);
        live.since_snapshot = loaded.since_snapshot;
        live.branch = live.state.branch();
        let times = live.state.times();
        let under_way = times.started.is_some() && times.ended.is_none();
        self.keep(live);
        self.count(origin.number, under_way);
        // Its timers and parking are settled at the end of the turn.
        self.touch(origin.number);
        Ok(())
    }

    pub(super) fn keep(&mut self, live: Live) {
        let number = live.origin.number;
        self.numbers.insert(Arc::clone(&live.origin.id), number);
        self.hot.insert(number, live);
    }

    /// Lets go of an execution; its row says when it has to come back.
    pub(super) fn let_go(&mut self, number: i64) {
        self.count(number, false);
        if let Some(live) = self.hot.remove(&number) {
            self.numbers.remove(&live.origin.id);
            if let Some(alarm) = live.alarm {
                self.alarms.remove(&(alarm, number));
            }
        }
    }

    /// Notes that a turn has to look at this execution when it ends.
    pub(super) fn touch(&mut self, number: i64) {
        if let Some(live) = self.hot.get_mut(&number)
            && !live.touched
        {
            live.touched = true;
            self.touched.push(number);
        }
    }
}
