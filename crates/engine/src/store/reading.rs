//! What can be read of a store, by subject. [`Reading`] is the sum.

use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::SubState;

use super::{Answered, Branch, ExecutionRow, Hash, LogRow, Result, Snapshot};
use crate::request::{DefinitionRecord, DisabledTrigger, EventRecord, ListQuery};

/// A function that is called with each row of a log, and returns whether to continue.
pub(crate) type EachRow<'e> = &'e mut dyn FnMut(LogRow<'_>) -> Result<bool>;

/// Everything that can be read.
pub(crate) trait Reading:
    LogReading + RowReading + DefinitionReading + RequestReading + Debug
{
    /// Runs several reads on the state of one moment.
    fn at_once(&self, work: &mut dyn FnMut(&dyn Reading)) -> Result<()>;

    /// The position up to which a receiver of events has read, if the receiver is known.
    fn sink_position(&self, name: &str) -> Result<Option<i64>>;
}

/// The events of executions, their branches and their snapshots.
pub(crate) trait LogReading {
    /// The newest snapshot of a branch.
    fn snapshot(&self, number: i64, branch: u32) -> Result<Option<Snapshot>>;

    /// Calls `each` with the rows of a log along its lineage that begin after a sequence, in order,
    /// until `each` returns false.
    fn walk(&self, number: i64, branch: u32, after: u64, each: EachRow<'_>) -> Result<()>;

    /// Calls `each` with every row of a log, branch after branch, from the row that contains this
    /// event on, until `each` returns false. A branch is only opened from the present branch, so
    /// this is the order in which the rows were written.
    fn chronicle(&self, number: i64, from: (u32, u64), each: EachRow<'_>) -> Result<()>;

    /// Calls `each` with every row of a log that begins before this event, in the reverse order of
    /// `chronicle`, until `each` returns false.
    fn chronicle_back(&self, number: i64, before: (u32, u64), each: EachRow<'_>) -> Result<()>;

    /// The sequence just before the row that contains the event after this one.
    fn row_start(&self, number: i64, branch: u32, after: u64) -> Result<u64>;

    /// The branches of an execution.
    fn branches(&self, number: i64) -> Result<Vec<Branch>>;

    /// The highest branch that has events, and the link of its newest row.
    fn head(&self, number: i64) -> Result<Option<(u32, Hash)>>;

    /// The executions that the newest rows of the log belong to.
    fn recent(&self, rows: usize) -> Result<Vec<i64>>;

    /// The events of all executions after a position, in the order they were written: at most
    /// `limit` appends, and a bounded number of bytes.
    fn log(&self, after: i64, limit: usize) -> Result<Vec<EventRecord>>;

    /// Whether an execution has events after a position.
    fn has_events_after(&self, number: i64, after: i64) -> Result<bool>;
}

/// The row of each execution, and which executions need the keeper.
pub(crate) trait RowReading {
    /// The number of an execution.
    fn number_of(&self, id: &str) -> Result<Option<i64>>;

    /// The id of an execution.
    fn id_of(&self, number: i64) -> Result<Option<Arc<str>>>;

    /// An execution's row.
    fn kept(&self, number: i64) -> Result<Option<ExecutionRow>>;

    /// An execution's row by its id, with its summary if that is up to date.
    fn listed(&self, id: &str) -> Result<Option<ExecutionRow>>;

    /// Executions by a query, newest first, with the summaries that are up to date.
    fn list(&self, query: &ListQuery) -> Result<Vec<ExecutionRow>>;

    /// How many executions show a sub-state, counted up to `most`.
    fn showing(&self, sub_state: SubState, most: u32) -> Result<u64>;

    /// The numbers of executions after one, in order.
    fn numbers(&self, after: i64, limit: usize) -> Result<Vec<i64>>;

    /// The number of executions.
    fn total(&self) -> Result<u64>;

    /// The highest number that was ever given to an execution.
    fn last_number(&self) -> Result<i64>;

    /// Executions that the keeper must check by this time, ordered by time and number, after a place
    /// in this order.
    fn due(
        &self,
        by: Timestamp,
        after: (Option<Timestamp>, i64),
        limit: usize,
    ) -> Result<Vec<ExecutionRow>>;

    /// The first time after this one at which the keeper must check an execution.
    fn next_wake(&self, after: Timestamp) -> Result<Option<Timestamp>>;

    /// The executions that have begun and not ended, each with its definition.
    fn begun(&self) -> Result<Vec<(Arc<str>, i64)>>;

    /// Executions that ended before this time, oldest first, without executions that have events
    /// after the position `needed`.
    fn ended(&self, before: Timestamp, needed: Option<i64>, limit: usize) -> Result<Vec<i64>>;

    /// Executions that ended before a time, with their final sub-states, in the order of their ends and
    /// numbers, after a place in this order.
    fn ended_after(
        &self,
        after: (Timestamp, i64),
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, i64, SubState)>>;

    /// How many executions that ended before this time have events after a position, counted up to
    /// `limit`.
    fn held_back(&self, before: Timestamp, after: i64, limit: usize) -> Result<u64>;

    /// The open children of an execution.
    fn open_children(&self, parent: i64) -> Result<Vec<ExecutionRow>>;

    /// Executions after a number, in order, whose rows were written in an older form.
    fn outdated(&self, after: i64, limit: usize) -> Result<Vec<i64>>;

    /// Open executions whose parent has ended, after a number, in order; and whether the parent was
    /// killed.
    fn orphans(&self, after: i64, limit: usize) -> Result<Vec<(i64, bool)>>;

    /// Open executions without a timer or a task that have a child that has ended, after a number, in
    /// order.
    fn parents_of_ended(&self, after: i64, limit: usize) -> Result<Vec<i64>>;

    /// How many executions the tree below an execution has, itself included, counted up to `most`.
    fn tree_size(&self, root: i64, most: usize) -> Result<usize>;

    /// How many executions of a definition have not ended.
    fn open_executions(&self, definition: &str) -> Result<u64>;

    /// The ids of the executions that were forked from one, oldest first, at most `limit`.
    fn forks(&self, id: &str, limit: usize) -> Result<Vec<Arc<str>>>;
}

/// Definitions, their triggers and their schedules.
pub(crate) trait DefinitionReading {
    /// A definition: the named revision, or the current one.
    fn definition(&self, name: &str, revision: Option<&str>) -> Result<Option<DefinitionRecord>>;

    /// The name and source of a revision.
    fn source(&self, revision: &str) -> Result<Option<(String, String)>>;

    /// Every revision of a definition, newest first.
    fn revisions(&self, name: &str) -> Result<Vec<DefinitionRecord>>;

    /// The current revisions, by name.
    fn definitions(&self, after: &str, limit: usize) -> Result<Vec<DefinitionRecord>>;

    /// The disabled triggers, by definition.
    fn disabled_triggers(&self) -> Result<Vec<(Arc<str>, DisabledTrigger)>>;

    /// When a definition's schedule last started something.
    fn last_scheduled(&self, name: &str) -> Result<Option<Timestamp>>;
}

/// Requests that were answered.
pub(crate) trait RequestReading {
    /// A request that was answered.
    fn answered(&self, id: &str) -> Result<Option<Answered>>;

    /// Whether the request that came first was answered before this time.
    fn has_requests_before(&self, before: Timestamp) -> Result<bool>;
}
