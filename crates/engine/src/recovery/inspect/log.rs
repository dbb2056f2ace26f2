//! A log as it is stored: every row of every branch, and how far each can be trusted.

use std::collections::{BTreeMap, BTreeSet};

use stateway_machine::{Event, Fact};

use crate::recovery::{Code, Finding};
use crate::store::{BEGINNING, Branch, Hash, LogRow, Reading, Segment, StoreError, lineage};

/// Everything that is stored of an execution's log.
#[derive(Debug, Default)]
pub(super) struct Log {
    branches: BTreeMap<u32, BranchLog>,
}

#[derive(Debug, Default)]
struct BranchLog {
    /// What it grew from.
    grown: Option<(u32, u64)>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    position: i64,
    first: u64,
    hash: Hash,
    events: Vec<Event>,
    fault: Option<Fault>,
}

#[derive(Debug)]
enum Fault {
    /// It is not what was written.
    Changed,
    /// Events before it are missing.
    Gap { wanted: u64 },
    /// It cannot be read.
    Unreadable(String),
}

/// The events of a lineage that can be trusted.
#[derive(Debug)]
pub(super) struct Trusted {
    pub(super) events: Vec<Event>,
    /// The link after them.
    pub(super) hash: Hash,
    /// Whether that is all of them.
    pub(super) whole: bool,
    pub(super) lineage: Vec<Segment>,
}

impl Log {
    pub(super) fn read(
        store: &dyn Reading,
        number: i64,
        table: &[Branch],
    ) -> Result<Self, StoreError> {
        let mut log = Self::default();
        store.chronicle(number, (0, 0), &mut |row| {
            log.add(number, &row, table);
            Ok(true)
        })?;
        Ok(log)
    }

    fn add(&mut self, number: i64, row: &LogRow<'_>, table: &[Branch]) {
        let read = row.events(number);
        let (branch, first) = (row.branch, row.first);
        self.branches.entry(branch).or_insert_with(|| {
            let opened = read.as_ref().ok().and_then(|events| opening(events));
            let listed = table.iter().find(|known| known.branch == branch);
            let grown = opened.or(listed.map(|known| (known.parent, known.cutoff)));
            let grown = grown.filter(|(parent, _)| *parent < branch);
            let rows = Vec::new();
            BranchLog { grown, rows }
        });
        let (before, wanted) = self.expected(branch);
        let fault = match &read {
            _ if first != wanted => Some(Fault::Gap { wanted }),
            _ if row.link_after(&before) != row.hash() => Some(Fault::Changed),
            Err(error) => Some(Fault::Unreadable(error.to_string())),
            Ok(events) => misnumbered(events, first),
        };
        let row = Row {
            position: row.position,
            first,
            hash: row.hash(),
            events: read.unwrap_or_default(),
            fault,
        };
        if let Some(log) = self.branches.get_mut(&branch) {
            log.rows.push(row);
        }
    }

    /// The link and the sequence that the next row of a branch follows.
    fn expected(&self, branch: u32) -> (Hash, u64) {
        let Some(log) = self.branches.get(&branch) else {
            return (BEGINNING, 1);
        };
        if let Some(last) = log.rows.last() {
            let next = last.events.last().map_or(last.first, |last| last.sequence);
            return (last.hash, next + 1);
        }
        match log.grown {
            Some((parent, cutoff)) => {
                let link = self.link_at(parent, cutoff);
                (link.unwrap_or(BEGINNING), cutoff + 1)
            }
            None => (BEGINNING, 1),
        }
    }

    /// The link of the row that holds an event of a lineage.
    pub(super) fn link_at(&self, branch: u32, sequence: u64) -> Option<Hash> {
        for Segment { branch, up_to } in self.lineage(branch).into_iter().rev() {
            let rows = &self.branches.get(&branch)?.rows;
            let within = sequence.min(up_to);
            let found = rows.iter().rev().find(|row| row.first <= within);
            if let Some(row) = found {
                return Some(row.hash);
            }
        }
        None
    }

    /// The newest branch, which is the current one.
    pub(super) fn current(&self) -> u32 {
        self.branches.keys().next_back().copied().unwrap_or(0)
    }

    pub(super) fn events(&self) -> u64 {
        let rows = self.branches.values().flat_map(|branch| &branch.rows);
        rows.map(|row| row.events.len() as u64).sum()
    }

    /// The parts of a lineage, the oldest first.
    fn lineage(&self, branch: u32) -> Vec<Segment> {
        // Parents that are not older were left out when the log was read.
        let parent = |branch| self.branches.get(&branch)?.grown;
        lineage(branch, parent).unwrap_or_default()
    }

    /// How much of a lineage can be trusted.
    pub(super) fn trusted(&self, branch: u32) -> Trusted {
        let lineage = self.lineage(branch);
        let (mut events, mut hash, mut whole) = (Vec::new(), BEGINNING, true);
        'lineage: for Segment { branch, up_to } in &lineage {
            let rows = self.branches.get(branch).map_or(&[][..], |log| &log.rows);
            for row in rows.iter().filter(|row| row.first <= *up_to) {
                if row.fault.is_some() {
                    whole = false;
                    break 'lineage;
                }
                let counts = row.events.iter().filter(|event| event.sequence <= *up_to);
                events.extend(counts.cloned());
                hash = row.hash;
            }
        }
        Trusted {
            events,
            hash,
            whole,
            lineage,
        }
    }

    /// The events of a lineage after one, as far as they can be read.
    pub(super) fn after(&self, lineage: &[Segment], sequence: u64) -> Vec<Event> {
        let rows = lineage.iter().flat_map(|Segment { branch, up_to }| {
            let rows = self.branches.get(branch).map_or(&[][..], |log| &log.rows);
            let events = rows.iter().flat_map(|row| &row.events);
            events.filter(move |event| event.sequence > sequence && event.sequence <= *up_to)
        });
        rows.cloned().collect()
    }

    /// The events that the last turn wrote, on any branch.
    pub(super) fn last_turn(&self) -> impl Iterator<Item = &Event> {
        let rows = || self.branches.values().flat_map(|branch| &branch.rows);
        let newest = rows().max_by_key(|row| row.position);
        let at = newest
            .and_then(|row| row.events.last())
            .map(|event| event.at);
        let events = rows().flat_map(|row| &row.events);
        events.filter(move |event| Some(event.at) == at)
    }

    /// Where the log is not whole, but for what an earlier recovery left behind.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let left = self.left_behind();
        let mut found = Vec::new();
        for (branch, log) in &self.branches {
            let new = log.rows.iter().filter(|row| !left.contains(&row.position));
            found.extend(new.filter_map(|row| row.finding(*branch)));
        }
        found
    }

    /// The places of damaged events that earlier recoveries left behind.
    fn left_behind(&self) -> BTreeSet<i64> {
        let rows = self.branches.values().flat_map(|log| &log.rows);
        let sound = rows.filter(|row| row.fault.is_none());
        sound
            .flat_map(|row| &row.events)
            .filter_map(|event| match &event.fact {
                Fact::ExecutionRecovered { left, .. } => Some(left),
                _ => None,
            })
            .flatten()
            .copied()
            .collect()
    }

    /// What the table of branches should have and has not.
    pub(super) fn lacking(&self, table: &[Branch], number: i64) -> Vec<Branch> {
        let grown = self.branches.iter().filter_map(|(branch, log)| {
            let (parent, cutoff) = log.grown?;
            Some(Branch {
                number,
                branch: *branch,
                parent,
                cutoff,
            })
        });
        grown.filter(|branch| !table.contains(branch)).collect()
    }

    /// How a branch came about, in words.
    pub(super) fn opening(&self, branch: u32) -> String {
        match self.branches.get(&branch).and_then(|log| log.grown) {
            Some((parent, cutoff)) => {
                format!("branch {branch} was opened after event {cutoff} of branch {parent}")
            }
            None => format!("branch {branch}"),
        }
    }
}

impl Row {
    fn finding(&self, branch: u32) -> Option<Finding> {
        let place = format!(
            "log: position {}, branch {branch}, from event {} on",
            self.position, self.first
        );
        let (code, summary, seen) = match self.fault.as_ref()? {
            Fault::Changed => (
                Code::H1,
                "events were changed after they were written",
                "the chain of hashes is broken here".to_owned(),
            ),
            Fault::Gap { wanted } => (
                Code::H2,
                "events are missing",
                format!(
                    "event {wanted} should follow, and event {} does",
                    self.first
                ),
            ),
            Fault::Unreadable(why) => (Code::H2, "events cannot be read", why.clone()),
        };
        let mut found = Finding::new(code, summary).seen(place).seen(seen);
        found.position = Some(self.position);
        Some(found)
    }
}

/// What a branch grew from, by its first event.
fn opening(events: &[Event]) -> Option<(u32, u64)> {
    match &events.first()?.fact {
        Fact::BranchOpened { parent, cutoff, .. } => Some((*parent, *cutoff)),
        _ => None,
    }
}

/// Whether the events of a row are numbered one after the other.
fn misnumbered(events: &[Event], first: u64) -> Option<Fault> {
    let wrong = events
        .iter()
        .zip(first..)
        .find(|(event, wanted)| event.sequence != *wanted);
    let (event, wanted) = wrong?;
    Some(Fault::Unreadable(format!(
        "event {} stands where {wanted} should",
        event.sequence
    )))
}
