//! The store: events, a row for each execution, definitions, and the requests that were answered.
//!
//! The writes of one turn of the keeper are one [`Turn`], which is stored as a whole or not at all. The
//! log is the truth. The row of an execution follows from its log: it can be searched, and it has the
//! time at which the keeper must load the execution next. [`Store`] and [`Reading`] are the contract,
//! `sqlite` is the store in one file, `postgres` is the store in a database that several processes share, and `suite` contains the tests that every store passes.
//!
//! A store has one owner at a time, and every owner has an [`Epoch`]. A process may lose the store to another
//! process at any time; the store then refuses the turns of the first one. The contract knows no files:
//! what only a file can do is [`FileStore`].

mod commit;
mod compact;
mod error;
mod failed_reads;
#[cfg(feature = "simulation")]
mod faulty;
mod layer;
mod lease;
mod load;
#[cfg(any(test, feature = "simulation"))]
mod memory;
mod postgres;
mod reading;
mod sqlite;
mod status;
#[cfg(test)]
mod suite;
mod turn;

pub(crate) use commit::Commit;
pub use compact::unpack;
pub use error::StoreError;
pub(crate) use failed_reads::{FailedReads, note_failed_reads};
#[cfg(feature = "simulation")]
pub(crate) use faulty::{FaultyBackend, StoreFaults};
#[cfg(feature = "simulation")]
pub use faulty::{StoreCall, StoreFate};
pub(crate) use lease::{LeaseClock, LeaseEnd};
pub(crate) use load::{LogRow, load, plan};
#[cfg(any(test, feature = "simulation"))]
pub(crate) use memory::MemoryDisk;
pub(crate) use postgres::PostgresStore;
pub use postgres::{Password, PostgresConfig};
pub(crate) use reading::{
    DefinitionReading, EachRow, LogReading, Reading, RequestReading, RowReading,
};
pub use sqlite::SCHEMA_VERSION;
pub(crate) use sqlite::SqliteFile;
pub(crate) use status::{ExecutionRow, OpenWork, Status};
pub(crate) use turn::{
    ANY_BODY, Answered, Append, Branch, Created, DefinitionChange, Forget, Snapshot, Turn,
};

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

pub(crate) use stateway_replay::{BEGINNING, Hash, Segment, lineage, link};

type Result<T> = std::result::Result<T, StoreError>;

/// How often the store has had a new owner. It only grows.
pub(crate) type Epoch = u64;

/// A place where things are kept.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Opens it for writing. A second writer is refused here, or by [`Store::own`].
    fn open(&self) -> Result<Box<dyn Store>>;

    /// Opens it for reading beside the writer.
    fn reader(&self) -> Result<Box<dyn Reading + Send>>;

    /// The operations of the store if it is a file.
    fn file(&self) -> Option<&dyn FileStore>;
}

/// The operations of a store that is a file.
pub(crate) trait FileStore {
    /// Copies everything to a file that is empty, as of one moment.
    fn backup(&self, to: &Path) -> Result<()>;
}

/// What the keeper asks: reading its own writes, and writing.
pub(crate) trait Store: Reading + Debug + Send {
    /// Becomes the owner, or stays the owner: before the first turn, and after a turn that was not committed.
    ///
    /// - Gives the epoch in which this process owns the store from now on.
    /// - Settles turns whose outcome is unknown: afterwards they are stored, or they never will be.
    /// - Fails if another process owns the store, or if the store cannot be written.
    fn own(&mut self) -> Result<Epoch>;

    /// Whether this process owns the store, as far as it knows without asking. After a failure nothing that is
    /// in memory may be shown.
    fn check(&self) -> Result<()>;

    /// The end of the lease, if the ownership of the store ends by itself. Nothing may be shown after it, not even
    /// what is read past the keeper.
    fn lease(&self) -> Option<Arc<LeaseEnd>> {
        None
    }

    /// Writes a turn of the owner.
    fn commit(&mut self, turn: &Turn) -> Commit;

    /// The position of the last event. No position is ever given twice, not even when the newest events
    /// are removed: a reader that has read up to a position would miss new events there. Positions and the
    /// numbers of executions belong to one shard, which has one owner.
    fn last_position(&self) -> i64;
}
