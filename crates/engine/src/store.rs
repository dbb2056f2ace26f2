//! The file: events, where each execution is, definitions, and what requests were answered.
//!
//! Everything a turn of the keeper leads to is one [`Turn`], written in one transaction. The log
//! is the truth; the rows of `executions` say the same in a form that can be searched, and when
//! the keeper has to look at an execution next.

mod chain;
mod error;
mod lock;
mod read;
mod row;
mod schema;
mod write;

pub(crate) use chain::{Hash, link};
pub use error::StoreError;
pub(crate) use read::Read;
pub(crate) use row::{Kept, Status};
pub use schema::SCHEMA_VERSION;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};

use crate::Config;
use crate::request::DefinitionRecord;
use crate::view::Origin;
use lock::FileLock;

/// How long a reader waits for the writer where they meet.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pages of the log that may gather before they are moved into the file.
const CHECKPOINT_PAGES: u32 = 4_000;
/// The pages kept in memory, in KiB.
const WRITER_CACHE_KIB: i32 = 16 * 1024;
/// Statements kept ready.
const STATEMENTS: usize = 64;

/// The store as the keeper has it: the only one that writes.
#[derive(Debug)]
pub(crate) struct Store {
    connection: Connection,
    /// Held for as long as the store is open.
    _lock: FileLock,
}

/// Everything one turn leads to.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) created: Vec<Created>,
    pub(crate) appends: Vec<Append>,
    pub(crate) statuses: Vec<(i64, Status)>,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) requests: Vec<Answered>,
    pub(crate) definitions: Vec<DefinitionRecord>,
}

/// An execution that became known.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) origin: Arc<Origin>,
    pub(crate) revision: Arc<str>,
    pub(crate) at: Timestamp,
    pub(crate) status: Status,
}

/// Events of one execution, one line each.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) number: i64,
    pub(crate) branch: u32,
    /// The sequence of the first of them.
    pub(crate) first: u64,
    pub(crate) lines: Vec<u8>,
    pub(crate) hash: Hash,
}

/// A state, so that a replay need not begin at the beginning.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) number: i64,
    pub(crate) branch: u32,
    pub(crate) sequence: u64,
    pub(crate) revision: Arc<str>,
    pub(crate) hash: Hash,
    pub(crate) data: Vec<u8>,
}

/// Where a branch grew from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) number: i64,
    pub(crate) branch: u32,
    pub(crate) parent: u32,
    /// The last sequence it shares with its parent.
    pub(crate) cutoff: u64,
}

/// A request that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) id: Arc<str>,
    pub(crate) body: [u8; 16],
    pub(crate) number: i64,
    pub(crate) at: Timestamp,
}

impl Turn {
    pub(crate) fn is_empty(&self) -> bool {
        self.created.is_empty()
            && self.appends.is_empty()
            && self.statuses.is_empty()
            && self.snapshots.is_empty()
            && self.branches.is_empty()
            && self.requests.is_empty()
            && self.definitions.is_empty()
    }
}

impl Store {
    /// Opens the file for writing, making or migrating it as needed.
    pub(crate) fn open(config: &Config) -> Result<Self, StoreError> {
        let path = &config.path;
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).map_err(|error| StoreError::opening(path, error))?;
        }
        let lock = FileLock::take(path)?;
        let mut connection = connect(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        )?;
        let set = |connection: &Connection| -> rusqlite::Result<()> {
            connection.pragma_update(None, "journal_mode", "wal")?;
            // In this mode every commit is synced before it returns.
            connection.pragma_update(None, "synchronous", "full")?;
            connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
            connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            connection.pragma_update(None, "temp_store", "memory")?;
            connection.pragma_update(None, "cell_size_check", true)
        };
        set(&connection).map_err(|error| StoreError::of(path, error))?;
        schema::migrate(&mut connection, path)?;
        Ok(Self {
            connection,
            _lock: lock,
        })
    }

    /// Reads through the writer's own connection.
    pub(crate) const fn read(&self) -> Read<'_> {
        Read(&self.connection)
    }
}

/// Opens the file for reading only.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let cache = connection.pragma_update(None, "cache_size", -4 * 1024);
    cache.map_err(|error| StoreError::of(path, error))?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| StoreError::of(path, error))?;
    let patience = connection.busy_timeout(PATIENCE);
    patience.map_err(|error| StoreError::of(path, error))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}
