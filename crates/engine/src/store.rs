//! What is kept: events, where each execution is, definitions, and what requests were answered.
//!
//! Everything a turn of the keeper leads to is one [`Turn`], written all of it or nothing. The log
//! is the truth; a row per execution says the same in a form that can be searched, and when the
//! keeper has to look at it next. [`Store`] and [`Reading`] are the contract; `sqlite` keeps it in
//! one file, and `suite` is what any other way of keeping it has to pass.

mod chain;
mod error;
#[cfg(feature = "simulation")]
mod faulty;
mod layer;
mod lineage;
mod load;
#[cfg(any(test, feature = "simulation"))]
mod memory;
mod noting;
mod reading;
mod sqlite;
mod status;
#[cfg(test)]
mod suite;
mod turn;

pub(crate) use chain::{BEGINNING, Hash, link};
pub use error::StoreError;
#[cfg(feature = "simulation")]
pub(crate) use faulty::{FaultyBackend, StoreFaults};
#[cfg(feature = "simulation")]
pub use faulty::{StoreCall, StoreFate};
pub(crate) use lineage::{Segment, lineage};
pub(crate) use load::{LogRow, load, plan};
#[cfg(any(test, feature = "simulation"))]
pub(crate) use memory::MemoryDisk;
pub(crate) use noting::{FailedReads, noting};
pub(crate) use reading::{
    DefinitionReading, EachRow, LogReading, Reading, RequestReading, RowReading,
};
pub use sqlite::SCHEMA_VERSION;
pub(crate) use sqlite::SqliteFile;
pub(crate) use status::{ExecutionRow, OpenWork, Status};
pub(crate) use turn::{
    ANY_BODY, Answered, Append, Branch, Created, DefinitionChange, Snapshot, Turn,
};

use std::fmt::Debug;

use jiff::Timestamp;

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
