//! An execution's whole log, taken out of the store: every branch of it, the definitions it was
//! written by, and the chain of hashes that shows whether it is what was written.
//!
//! A recording is only read. It is replayed to any event, run again under another definition, or
//! written to a file that says the same on another machine; `file` is that form, `redact` takes
//! out what must not leave the house.

mod file;
mod redact;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use stateway_definition::{hex, parse};
use stateway_machine::{Event, Fact, Plan, State};
use thiserror::Error;

use crate::{BEGINNING, Hash, Segment, Shadow, lineage, link, rederive};

pub use file::{FILE_VERSION, MOST_FILE_BYTES};

/// The most events that are taken into one recording.
pub const MOST_RECORDED_EVENTS: usize = 200_000;

/// An execution's whole log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The execution's id.
    pub execution: Arc<str>,
    /// The name of its definition.
    pub definition: Arc<str>,
    /// The labels of the execution.
    pub labels: BTreeMap<String, String>,
    /// The current branch.
    pub branch: u32,
    /// Whether the payloads were redacted.
    pub redacted: bool,
    /// The definitions that the log needs, as far as they are stored.
    pub definitions: Vec<Source>,
    /// Where each branch was opened.
    pub branches: Vec<BranchOrigin>,
    /// The rows of the log, by branch and first event.
    pub rows: Vec<Row>,
}

/// A definition as it was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its content hash.
    pub revision: String,
    /// The text.
    pub source: String,
}

/// Where a branch was opened from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchOrigin {
    /// The branch.
    pub branch: u32,
    /// The parent branch.
    pub parent: u32,
    /// The last event they share.
    pub cutoff: u64,
}

/// What one turn wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The branch.
    pub branch: u32,
    /// The sequence of its first event.
    pub first: u64,
    /// The link of the chain that ends with this row.
    pub hash: Hash,
    /// The events, a line each.
    pub lines: Vec<u8>,
    /// Its line in a file; 0 if it comes from a store.
    pub line: usize,
}

/// Why a recording cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{what}", at(.line))]
pub struct RecordingError {
    /// The line of the file; 0 when it comes from a store, or is about all of it.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

fn at(line: &usize) -> String {
    match line {
        0 => String::new(),
        line => format!("line {line}: "),
    }
}

type Result<T> = std::result::Result<T, RecordingError>;

fn wrong<T>(line: usize, what: impl Into<String>) -> Result<T> {
    Err(RecordingError {
        line,
        what: what.into(),
    })
}

impl Recording {
    /// How many events it has, those of all branches.
    #[must_use]
    pub fn events(&self) -> usize {
        self.rows.iter().map(|row| count(&row.lines)).sum()
    }

    /// The events that lead to where a branch is, the current one when none is named. The chain of
    /// hashes is checked on the way.
    ///
    /// # Errors
    /// There is no such branch, or the log is not what was written.
    pub fn log(&self, branch: Option<u32>) -> Result<Vec<Event>> {
        let branch = branch.unwrap_or(self.branch);
        let mut events: Vec<Event> = Vec::new();
        let mut hash = BEGINNING;
        for (row, up_to) in self.lineage(branch)? {
            hash = link(&hash, &row.lines);
            if hash != row.hash {
                let what = format!(
                    "the events from {} on of branch {} were changed after they were written: their hash is {}, \
                     the chain says {}",
                    row.first,
                    row.branch,
                    hex(&hash),
                    hex(&row.hash)
                );
                return wrong(row.line, what);
            }
            for (nth, event) in row.decode()?.into_iter().enumerate() {
                let expected = events.last().map_or(1, |last| last.sequence + 1);
                if event.sequence > up_to {
                    break;
                }
                if event.sequence != expected {
                    let what = format!(
                        "event {expected} is missing, the next is {}",
                        event.sequence
                    );
                    return wrong(row.line_of(nth), what);
                }
                events.push(event);
            }
        }
        if events.is_empty() {
            return wrong(0, format!("branch {branch} has no events"));
        }
        Ok(events)
    }

    /// The last link of the chain that leads to the current branch, in hexadecimal.
    ///
    /// # Errors
    /// The branches do not hang together.
    pub fn head(&self) -> Result<String> {
        let lineage = self.lineage(self.branch)?;
        Ok(lineage
            .last()
            .map_or_else(String::new, |(row, _)| hex(&row.hash)))
    }

    /// A hash of the whole log: every row of every branch, and where each branch was opened.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(self.execution.as_bytes());
        for BranchOrigin {
            branch,
            parent,
            cutoff,
        } in &self.branches
        {
            digest.update(format!("\n{branch} {parent} {cutoff}"));
        }
        for row in &self.rows {
            digest.update(format!(
                "\n{} {} {}\n",
                row.branch,
                row.first,
                hex(&row.hash)
            ));
            digest.update(&row.lines);
        }
        hex(&digest.finalize())
    }

    /// As much of it as another one has, which was taken earlier: a log only ever grows.
    #[must_use]
    pub fn up_to(&self, earlier: &Self) -> Self {
        let known = earlier.rows.iter().map(|row| (row.branch, row.first));
        let known: BTreeSet<_> = known.collect();
        let mut same = self.clone();
        same.rows
            .retain(|row| known.contains(&(row.branch, row.first)));
        same.branches
            .retain(|grown| earlier.branches.contains(grown));
        same
    }

    /// Checks every branch.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<()> {
        self.log(Some(0))?;
        for grown in &self.branches {
            self.log(Some(grown.branch))?;
        }
        let known =
            |row: &&Row| row.branch != 0 && !self.branches.iter().any(|b| b.branch == row.branch);
        match self.rows.iter().find(known) {
            Some(row) => wrong(
                row.line,
                format!("the parent of branch {} is not recorded", row.branch),
            ),
            None => self.head().map(drop),
        }
    }

    /// The plan that a log begins with.
    ///
    /// # Errors
    /// The definition is not there, or cannot be read.
    pub fn plan(&self, events: &[Event]) -> Result<Arc<Plan>> {
        let Some(Fact::ExecutionCreated { revision, .. }) = events.first().map(|first| &first.fact)
        else {
            return wrong(
                0,
                "the log does not begin with the creation of its execution",
            );
        };
        let found = self
            .definitions
            .iter()
            .find(|known| *known.revision == **revision);
        let Some(found) = found else {
            return wrong(
                0,
                format!("the definition of revision {revision} is missing"),
            );
        };
        let plan = plan_of(&found.source, &found.name)?;
        if plan.revision() != &**revision {
            let what = format!(
                "the definition `{}` is of revision {}, not of {revision}",
                found.name,
                plan.revision()
            );
            return wrong(0, what);
        }
        Ok(plan)
    }

    /// The state after an event of a branch, after the last one when `at` is 0.
    ///
    /// # Errors
    /// There is no such branch or event, or the log is not what was written.
    pub fn state_at(&self, branch: Option<u32>, at: u64) -> Result<State> {
        let events = self.log(branch)?;
        let wanted = if at == 0 { events.len() as u64 } else { at };
        let Some(part) = usize::try_from(wanted)
            .ok()
            .and_then(|end| events.get(..end))
        else {
            let what = format!("there is no event {at}: the last one is {}", events.len());
            return wrong(0, what);
        };
        let mut state = State::new(self.plan(&events)?);
        part.iter().for_each(|event| state.apply(event));
        Ok(state)
    }

    /// The result of a branch under another definition.
    ///
    /// # Errors
    /// There is no such branch, the log is not what was written, or its payloads were redacted.
    pub fn rederive(&self, branch: Option<u32>, plan: &Arc<Plan>) -> Result<Shadow> {
        if self.redacted {
            let what = "the payloads were redacted, so conditions and inputs cannot be evaluated";
            return wrong(0, what);
        }
        let events = self.log(branch)?;
        let recorded_with = self.plan(&events)?;
        rederive(&recorded_with, &events, plan).or_else(|error| wrong(0, error.to_string()))
    }

    /// The rows that lead to a branch, each with the last event of it that counts.
    fn lineage(&self, branch: u32) -> Result<Vec<(&Row, u64)>> {
        let known = branch == 0 || self.branches.iter().any(|grown| grown.branch == branch);
        if !known {
            return wrong(0, format!("there is no branch {branch}"));
        }
        let parent = |branch| {
            let grown = self.branches.iter().find(|grown| grown.branch == branch)?;
            Some((grown.parent, grown.cutoff))
        };
        let segments = lineage(branch, parent)
            .or_else(|branch| wrong(0, format!("the parent of branch {branch} is not older")))?;
        let of = |segment: Segment| {
            let rows = self.rows.iter();
            let rows =
                rows.filter(move |row| row.branch == segment.branch && row.first <= segment.up_to);
            rows.map(move |row| (row, segment.up_to))
        };
        let mut found: Vec<_> = segments.into_iter().flat_map(of).collect();
        found.sort_by_key(|(row, _)| row.first);
        Ok(found)
    }
}

impl Row {
    /// Its events.
    ///
    /// # Errors
    /// A line is no event.
    pub fn decode(&self) -> Result<Vec<Event>> {
        stateway_machine::decode_row(&self.lines)
            .or_else(|(nth, error)| wrong(self.line_of(nth), error.to_string()))
    }

    /// The line of the nth event of a row in its file.
    const fn line_of(&self, nth: usize) -> usize {
        if self.line == 0 {
            0
        } else {
            self.line + 1 + nth
        }
    }
}

/// The plan of a definition's text.
///
/// # Errors
/// It is not a valid definition.
pub fn plan_of(source: &str, name: &str) -> Result<Arc<Plan>> {
    let parsed = parse(source, name).or_else(|invalid| wrong(0, invalid.to_string()))?;
    let plan = Plan::new(parsed.definition).or_else(|error| wrong(0, error.to_string()))?;
    Ok(Arc::new(plan))
}

/// How many events a row has.
#[must_use]
pub fn count(lines: &[u8]) -> usize {
    lines.iter().filter(|byte| **byte == b'\n').count()
}
