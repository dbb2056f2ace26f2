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
    /// What is wrong. The codes appear in reports and never change; docs/recovery.md lists them.
    pub enum Code as "finding code" {
        /// The row waits for a person, the log does not.
        A1 = "A1",
        /// The log waits for a person, the row does not.
        A2 = "A2",
        /// The execution has ended in the log, not in the row.
        A3 = "A3",
        /// A step failed in the log, not in the row.
        A4 = "A4",
        /// The log went on as another branch, and the row or the table of branches did not.
        D2 = "D2",
        /// A revision that the log needs is not stored.
        E2 = "E2",
        /// Memory and log disagree about which worker has a task.
        F1 = "F1",
        /// Events were changed after they were written: the chain of hashes is broken.
        H1 = "H1",
        /// Events are missing or cannot be read.
        H2 = "H2",
        /// The row is ahead of the log: the last events are lost.
        L1 = "L1",
        /// A parent waits for a child that does not exist or has ended.
        P1 = "P1",
        /// The record of the request that started the execution is missing.
        R1 = "R1",
        /// The row differs from the log in a way that no other code covers.
        S1 = "S1",
        /// The snapshot differs from the state that the log leads to.
        S2 = "S2",
        /// A timer is set for another time than in the log.
        T1 = "T1",
    }
}

/// One difference between stored data and the log, or damage of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The code of the finding.
    pub code: Code,
    /// The finding in words.
    pub summary: String,
    /// The evidence, one line each.
    pub evidence: Vec<String>,
    /// The positions of damaged events in the log of the store.
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

/// The repair of the findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Remedy {
    /// Nothing is wrong.
    #[default]
    Nothing,
    /// Rows and snapshots are repaired from the log; no step runs again.
    Repair,
    /// The execution continues as a new branch.
    Branch {
        /// The last event that is intact. The new branch begins after it.
        cutoff: u64,
        /// The steps that run again.
        again: Vec<Arc<str>>,
    },
    /// No repair is possible.
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
    /// The findings; empty if nothing is wrong.
    pub findings: Vec<Finding>,
    /// The repair.
    pub remedy: Remedy,
}

/// A page of verified executions.
#[derive(Debug, Clone, Default)]
pub struct Inspected {
    /// How many executions.
    pub executions: u64,
    /// How many events they have.
    pub events: u64,
    /// The executions with findings.
    pub wrong: Vec<Verdict>,
    /// Where the next page begins; `None` at the end.
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
    /// The last event of the earlier branch that still counts.
    pub cutoff: u64,
    /// The steps whose work is done again.
    pub again: Vec<Arc<str>>,
}

/// Asks for a recovery.
#[derive(Debug, Clone, Default)]
pub struct Recover {
    /// The branch and last event the caller has seen; a recovery of anything else is refused.
    pub expected: Option<(u32, u64)>,
    /// Only repairs that run no step again.
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

    /// The number of executions.
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
