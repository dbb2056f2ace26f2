//! The store: events, a row for each execution, definitions, and the requests that were answered.
//!
//! The writes of one turn of the keeper are one [`Turn`], which is stored as a whole or not at all. The
//! log is the truth. The row of an execution follows from its log: it can be searched, and it has the
//! time at which the keeper must load the execution next. [`Store`] and [`Reading`] are the contract,
//! `sqlite` is the store in one file, and `suite` contains the tests that every store passes.

mod error;
mod failed_reads;
#[cfg(feature = "simulation")]
mod faulty;
mod layer;
mod load;
#[cfg(any(test, feature = "simulation"))]
mod memory;
mod reading;
mod sqlite;
mod status;
#[cfg(test)]
mod suite;
mod turn;

pub use error::StoreError;
pub(crate) use failed_reads::{FailedReads, note_failed_reads};
#[cfg(feature = "simulation")]
pub(crate) use faulty::{FaultyBackend, StoreFaults};
#[cfg(feature = "simulation")]
pub use faulty::{StoreCall, StoreFate};
pub(crate) use load::{LogRow, load, plan};
#[cfg(any(test, feature = "simulation"))]
pub(crate) use memory::MemoryDisk;
pub(crate) use reading::{
    DefinitionReading, EachRow, LogReading, Reading, RequestReading, RowReading,
};
pub(crate) use sqlite::SqliteFile;
pub use sqlite::{SCHEMA_VERSION, unpack};
pub(crate) use status::{ExecutionRow, OpenWork, Status};
pub(crate) use turn::{
    ANY_BODY, Answered, Append, Branch, Created, DefinitionChange, Snapshot, Turn,
};

use std::fmt::Debug;

use jiff::Timestamp;
pub(crate) use stateway_replay::{BEGINNING, Hash, Segment, lineage, link};

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
