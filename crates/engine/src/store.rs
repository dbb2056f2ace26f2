//! What is kept: events, where each execution is, definitions, and what requests were answered.
//!
//! Everything a turn of the keeper leads to is one [`Turn`], written all of it or nothing. The log
//! is the truth; a row per execution says the same in a form that can be searched, and when the
//! keeper has to look at it next. [`Store`] and [`Reading`] are the contract; `sqlite` keeps it in
//! one file, and `suite` is what any other way of keeping it has to pass.

mod chain;
mod error;
mod load;
mod sqlite;
mod status;
#[cfg(test)]
mod suite;
mod turn;

pub(crate) use chain::{BEGINNING, Hash, link};
pub use error::StoreError;
pub(crate) use load::{LogRow, load, plan};
pub use sqlite::SCHEMA_VERSION;
pub(crate) use sqlite::SqliteFile;
pub(crate) use status::{Kept, Status, UnderWay};
pub(crate) use turn::{
    ANY_BODY, Answered, Append, Branch, Created, DefinitionChange, Snapshot, Turn,
};

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::SubState;

use crate::request::{DefinitionRecord, DisabledTrigger, EventRecord, ListQuery};

type Result<T> = std::result::Result<T, StoreError>;

/// A place where things are kept.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Opens it for writing. There is one writer: a second one is refused.
    fn open(&self) -> Result<Box<dyn Store>>;

    /// Opens it for reading beside the writer.
    fn reader(&self) -> Result<Box<dyn Reading + Send>>;
}

/// What the keeper asks: reading its own writes, and writing.
pub(crate) trait Store: Reading + Debug + Send {
    /// Writes a turn. When this returns it is on disk; when it fails, nothing of it is.
    fn commit(&mut self, turn: &Turn) -> Result<()>;

    /// The place of the last event. No place is ever given twice, not even when the newest events
    /// are removed: whoever has got up to a place would miss the new events there.
    fn last_position(&self) -> i64;

    /// Whether it can be written, after it could not.
    fn probe(&mut self) -> Result<()>;

    /// Removes executions with all that belongs to them, and the revisions of deleted definitions
    /// that no execution needs any more.
    fn remove(&mut self, numbers: &[i64]) -> Result<()>;

    /// Forgets requests that were answered before this time, at most `limit` of them.
    fn forget_requests(&mut self, before: Timestamp, limit: usize) -> Result<usize>;
}

/// What can be read.
pub(crate) trait Reading: Debug {
    /// Does several reads as of one moment.
    fn at_once(&self, work: &mut dyn FnMut(&dyn Reading)) -> Result<()>;

    /// The number of an execution.
    fn number_of(&self, id: &str) -> Result<Option<i64>>;

    /// The id of an execution.
    fn id_of(&self, number: i64) -> Result<Option<Arc<str>>>;

    /// An execution's row.
    fn kept(&self, number: i64) -> Result<Option<Kept>>;

    /// Executions by a query, newest first.
    fn list(&self, query: &ListQuery) -> Result<Vec<Kept>>;

    /// How many executions show a sub-state, counted up to `most`.
    fn showing(&self, sub_state: SubState, most: u32) -> Result<u64>;

    /// The newest snapshot of a branch.
    fn snapshot(&self, number: i64, branch: u32) -> Result<Option<Snapshot>>;

    /// Hands over the rows of a log along its lineage that begin after a sequence, each after the
    /// one it follows, until told to stop.
    fn walk(
        &self,
        number: i64,
        branch: u32,
        after: u64,
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool>,
    ) -> Result<()>;

    /// Hands over every row of a log, branch after branch, from the one that holds this event on,
    /// until told to stop. Branches are only ever opened from the present one, so this is the order
    /// they were written in.
    fn chronicle(
        &self,
        number: i64,
        from: (u32, u64),
        each: &mut dyn FnMut(LogRow<'_>) -> Result<bool>,
    ) -> Result<()>;

    /// The sequence just before the row that holds the event after this one.
    fn row_start(&self, number: i64, branch: u32, after: u64) -> Result<u64>;

    /// The branches of an execution.
    fn branches(&self, number: i64) -> Result<Vec<Branch>>;

    /// The highest branch that has events, and the link of its newest row.
    fn head(&self, number: i64) -> Result<Option<(u32, Hash)>>;

    /// The executions that the newest rows of the log belong to.
    fn recent(&self, rows: usize) -> Result<Vec<i64>>;

    /// The numbers of executions after one, in order.
    fn numbers(&self, after: i64, limit: usize) -> Result<Vec<i64>>;

    /// How many executions there are.
    fn total(&self) -> Result<u64>;

    /// The events of all executions from a place on, in the order they were written: at most
    /// `limit` appends, and no more than fit into memory with ease.
    fn log(&self, after: i64, limit: usize) -> Result<Vec<EventRecord>>;

    /// Executions the keeper has to look at by this time, after a place, in that order.
    fn due(
        &self,
        by: Timestamp,
        after: (Option<Timestamp>, i64),
        limit: usize,
    ) -> Result<Vec<Kept>>;

    /// When the first execution after this time has to be looked at.
    fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>>;

    /// Executions that ended before this time, oldest first. Those with events after the place
    /// `needed` are left out.
    fn ended(&self, before: Timestamp, needed: Option<i64>, limit: usize) -> Result<Vec<i64>>;

    /// Whether an execution has events after a place.
    fn has_events_after(&self, number: i64, after: i64) -> Result<bool>;

    /// How many executions that ended before this time have events after a place; not counted
    /// beyond `limit`.
    fn held_back(&self, before: Timestamp, after: i64, limit: usize) -> Result<u64>;

    /// The open children of an execution.
    fn open_children(&self, parent: i64) -> Result<Vec<Kept>>;

    /// Open executions whose parent has ended, after a number, in order; and whether the parent was killed.
    fn orphans(&self, after: i64, limit: usize) -> Result<Vec<(i64, bool)>>;

    /// How many executions the tree below an execution has, itself included, counted up to `most`.
    fn tree_size(&self, root: i64, most: usize) -> Result<usize>;

    /// The ids of the executions that were forked from one, oldest first, at most `limit`.
    fn forks(&self, id: &str, limit: usize) -> Result<Vec<Arc<str>>>;

    /// The executions that have begun and not ended, each with its definition.
    fn begun(&self) -> Result<Vec<(Arc<str>, i64)>>;

    /// The highest number an execution has.
    fn last_number(&self) -> Result<i64>;

    /// A request that was answered.
    fn answered(&self, id: &str) -> Result<Option<Answered>>;

    /// A definition: the named revision, or the current one.
    fn definition(&self, name: &str, revision: Option<&str>) -> Result<Option<DefinitionRecord>>;

    /// The name and source of a revision.
    fn source(&self, revision: &str) -> Result<Option<(String, String)>>;

    /// Every revision of a definition, newest first.
    fn revisions(&self, name: &str) -> Result<Vec<DefinitionRecord>>;

    /// The current revisions, by name.
    fn definitions(&self, after: &str, limit: usize) -> Result<Vec<DefinitionRecord>>;

    /// The triggers that someone has disabled, by definition.
    fn disabled_triggers(&self) -> Result<Vec<(Arc<str>, DisabledTrigger)>>;

    /// How many executions of a definition have not ended.
    fn open_executions(&self, definition: &str) -> Result<u64>;

    /// When a definition's schedule last started something.
    fn last_scheduled(&self, name: &str) -> Result<Option<Timestamp>>;

    /// How far a receiver of events has got, if it was ever there.
    fn sink_position(&self, name: &str) -> Result<Option<i64>>;

    /// Copies everything to a file that does not exist yet.
    fn backup(&self, to: &Path) -> Result<()>;
}
