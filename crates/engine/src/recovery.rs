//! Verifies what is stored of an execution against its log, and repairs it.
//!
//! The log is the truth. The row of an execution, its branches, snapshots, answered requests,
//! definitions and its state in memory follow from the log: each is computed again and compared. Data
//! that contradicts the log is repaired from it. If the log itself is damaged, the execution continues
//! as a new branch from the last event that can be trusted. Nothing is removed, and each repair is an
//! event.

pub(crate) mod inspect;
mod remedy;
pub(crate) mod scan;

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_model::words;

use crate::catalogue::Catalogue;
use crate::error::Result;
use crate::store::{Backend as _, Reading, SqliteFile};
use crate::{Faults, View};
use inspect::{InspectionContext, verify_several};

words! {
    /// What is wrong. A1 to F1 are the names of the catalogue that this follows.
    pub enum Code as "finding code" {
        /// The row waits for someone, and the log does not.
        A1 = "A1",
        /// The log waits for someone, and the row does not.
        A2 = "A2",
        /// The log has come to its end, and the row has not.
        A3 = "A3",
        /// Something failed by the log, and the row does not say so.
        A4 = "A4",
        /// The log went on as another branch, and the row or the table of branches did not.
        D2 = "D2",
        /// A revision that is needed is not there.
        E2 = "E2",
        /// Memory and log disagree about which worker has a task.
        F1 = "F1",
        /// Events are not what was written: the chain of hashes is broken.
        H1 = "H1",
        /// Events are missing or cannot be read.
        H2 = "H2",
        /// The row has seen more than the log has: its last events are lost.
        L1 = "L1",
        /// A parent waits for a child that is not there or is over.
        P1 = "P1",
        /// The record of the request that started it is not there.
        R1 = "R1",
        /// The row says otherwise than the log, in a way that no other code names.
        S1 = "S1",
        /// The snapshot is not what the log leads to.
        S2 = "S2",
        /// A timer would ring at another time than the log says.
        T1 = "T1",
    }
}

/// One place where what is kept contradicts the log, or the log is not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub code: Code,
    /// In words.
    pub summary: String,
    /// What was seen, a line each.
    pub evidence: Vec<String>,
    /// Where in the store's log damaged events are.
    pub position: Option<i64>,
}

impl Finding {
    pub(crate) fn new(code: Code, summary: impl Into<String>) -> Self {
        Self {
            code,
            summary: summary.into(),
            evidence: Vec::new(),
            position: None,
        }
    }

    pub(crate) fn seen(mut self, what: impl Into<String>) -> Self {
        self.evidence.push(what.into());
        self
    }
}

/// What would be done about the findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Remedy {
    /// Nothing is wrong.
    #[default]
    Nothing,
    /// Rows and snapshots are repaired from the log; no work is done again.
    Repair,
    /// The execution continues as a new branch.
    Branch {
        /// From this event on: the last that can be trusted.
        cutoff: u64,
        /// The steps whose work is done again.
        again: Vec<Arc<str>>,
    },
    /// It cannot be done.
    Refused {
        /// Why not.
        why: String,
        /// What would help.
        hint: String,
    },
}

/// The result of the verification of one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Its number, in the order of creation.
    pub number: i64,
    /// Its id.
    pub id: Arc<str>,
    /// The branch that is current by the log.
    pub branch: u32,
    /// The last event of that branch that can be trusted.
    pub sequence: u64,
    /// How many events were read, those of all branches.
    pub events: u64,
    /// The last link of the chain of hashes, in hexadecimal.
    pub head: String,
    /// What is wrong; empty when all is well.
    pub findings: Vec<Finding>,
    /// What would be done about it.
    pub remedy: Remedy,
}

/// A page of executions that were looked at.
#[derive(Debug, Clone, Default)]
pub struct Inspected {
    /// How many executions.
    pub executions: u64,
    /// How many events they have.
    pub events: u64,
    /// Those with findings.
    pub wrong: Vec<Verdict>,
    /// Where to go on; `None` at the end.
    pub next: Option<i64>,
}

impl Inspected {
    pub(crate) fn of(verdicts: Vec<Verdict>, next: Option<i64>) -> Self {
        Self {
            executions: verdicts.len() as u64,
            events: verdicts.iter().map(|verdict| verdict.events).sum(),
            wrong: verdicts
                .into_iter()
                .filter(|verdict| !verdict.findings.is_empty())
                .collect(),
            next,
        }
    }
}

/// What a recovery did.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The execution as it is now.
    pub view: View,
    /// What was repaired; empty when nothing was wrong.
    pub repaired: Vec<Finding>,
    /// The branch that was current before, by the row.
    pub from: u32,
    /// Whether the execution continues as a new branch.
    pub branched: bool,
    /// The last event that counts of what was there before.
    pub cutoff: u64,
    /// The steps whose work is done again.
    pub again: Vec<Arc<str>>,
}

/// Asks for a recovery.
#[derive(Debug, Clone, Default)]
pub struct Recover {
    /// The branch and last event the caller has seen; a recovery of anything else is refused.
    pub expected: Option<(u32, u64)>,
    /// Only what can be done without doing work again.
    pub repair_only: bool,
}

/// A store that is only looked at: one that no engine has open, a backup for example. Nothing of it
/// is changed.
#[derive(Debug)]
pub struct StoreFile {
    store: Box<dyn Reading + Send>,
    catalogue: Catalogue,
}

impl StoreFile {
    /// Opens it for reading.
    ///
    /// # Errors
    /// It cannot be read, or is no store.
    pub fn open(path: &Path) -> Result<Self> {
        let file = SqliteFile::new(path.to_owned(), &Faults::default());
        Ok(Self {
            store: file.reader()?,
            catalogue: Catalogue::default(),
        })
    }

    /// How many executions there are.
    ///
    /// # Errors
    /// It cannot be read, or is no store.
    pub fn total(&self) -> Result<u64> {
        Ok(self.store.total()?)
    }

    /// Verifies executions in the order of their creation: at most `limit`, after a number.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn verify(&self, after: i64, limit: usize) -> Result<Inspected> {
        let context = InspectionContext {
            catalogue: &self.catalogue,
            now: Timestamp::now(),
            // Requests are forgotten by the clock of an engine that runs.
            memory: SignedDuration::ZERO,
        };
        let (found, next) = verify_several(&*self.store, (after, limit), context)?;
        let verdicts = found.into_iter().map(|one| one.verdict);
        Ok(Inspected::of(verdicts.collect(), next))
    }
}
