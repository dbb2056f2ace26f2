//! The store in one SQLite file: one connection writes, others read beside it.

mod definitions;
mod file;
mod labels;
mod lock;
mod read;
mod row;
mod schema;
mod write;

pub(super) use row::ROW_FORM;
pub use schema::SCHEMA_VERSION;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::{Backend, Epoch, FileStore, Reading, Store, StoreError};
use crate::Faults;
use file::{DatabaseLock, Files, SharedHandle};
use lock::FileLock;

/// How long a reader waits for the writer where they meet.
const PATIENCE: Duration = Duration::from_secs(5);
/// The size of a page of a new file. A turn changes few bytes of many pages, and each page that it changes is written
/// whole.
const PAGE_BYTES: u32 = 1_024;
/// The size of the log at which its pages are moved into the file.
const CHECKPOINT_BYTES: u32 = 16 * 1024 * 1024;
/// The pages kept in memory, in KiB.
const WRITER_CACHE_KIB: i32 = 8 * 1024;
/// Statements kept ready.
const STATEMENTS: usize = 64;
/// The last place that anyone could know of: events may have been removed since.
const LAST_POSITION: &str = "SELECT max(ifnull((SELECT max(position) FROM events), 0), \
     ifnull((SELECT value FROM counters WHERE name = 'position'), 0))";

/// A SQLite file, which may be opened once for writing and any number of times for reading.
#[derive(Debug, Clone)]
pub(crate) struct SqliteFile {
    path: PathBuf,
    faults: Faults,
    handle: SharedHandle,
}

impl SqliteFile {
    pub(crate) fn new(path: impl Into<PathBuf>, faults: &Faults) -> Self {
        Self {
            path: path.into(),
            faults: faults.clone(),
            handle: SharedHandle::default(),
        }
    }
}

/// A connection to the file.
#[derive(Debug)]
pub(crate) struct Sqlite {
    connection: Connection,
    /// The place of the last event, for the one that writes.
    last_position: i64,
    faults: Faults,
    /// How often this process became the owner. A lock keeps other processes away, so it begins with one.
    epoch: Epoch,
    /// As far as this process is concerned, it has died.
    dead: bool,
    /// Held for as long as the file is open for writing.
    writer: Option<Writer>,
    /// Closed after the connection.
    _handle: Option<Arc<std::fs::File>>,
}

/// The state of the writer beside its connection.
#[derive(Debug)]
struct Writer {
    files: Files,
    _database: Option<DatabaseLock>,
    _lock: FileLock,
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if self.writer.is_none() {
            return;
        }
        // Readers may stay open, so SQLite would not move the log when the writer closes. A copy of the
        // file of a stopped engine must be complete.
        let moved = self
            .connection
            .pragma(None, "wal_checkpoint", "truncate", |_| Ok(()));
        if let Err(error) = moved {
            tracing::warn!("the write-ahead log of the store cannot be removed: {error}");
        }
    }
}

impl Backend for SqliteFile {
    fn open(&self) -> Result<Box<dyn Store>, StoreError> {
        let mut writer = open_writer(&self.path, &self.handle)?;
        writer.faults = self.faults.clone();
        Ok(Box::new(writer))
    }

    fn reader(&self) -> Result<Box<dyn Reading + Send>, StoreError> {
        let mut reader = open_reader(&self.path)?;
        reader._handle = self.handle.get();
        Ok(Box::new(reader))
    }

    fn file(&self) -> Option<&dyn FileStore> {
        Some(self)
    }
}

impl FileStore for SqliteFile {
    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let mut reader = open_reader(&self.path)?;
        reader._handle = self.handle.get();
        // One statement reads as of one moment, and the copy has no gaps to carry along.
        let to = to.to_string_lossy();
        reader.connection.execute("VACUUM INTO ?1", [to.as_ref()])?;
        Ok(())
    }
}

/// Opens the file for writing, making or migrating it as needed.
fn open_writer(path: &Path, handle: &SharedHandle) -> Result<Sqlite, StoreError> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder).map_err(|error| StoreError::opening(path, error))?;
    }
    let lock = FileLock::take(path)?;
    let database = DatabaseLock::take(path, handle)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(path, flags)?;
    // Without the right to write it opens all the same, for reading.
    let readonly = connection.is_readonly(MAIN_DB);
    if readonly.map_err(|error| StoreError::of(path, error))? {
        return Err(StoreError::ReadOnly);
    }
    // Nothing is changed in a file that is not ours to change.
    let version = schema::version(&connection, path)?;
    let set = |connection: &Connection| -> rusqlite::Result<()> {
        // Without effect on a file that has pages already.
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // In this mode every commit is synced before it returns.
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        let page_bytes: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = CHECKPOINT_BYTES / page_bytes.max(1);
        connection.pragma_update(None, "wal_autocheckpoint", pages)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "cell_size_check", true)
    };
    set(&connection).map_err(|error| StoreError::of(path, error))?;
    schema::migrate(&mut connection, path, version)?;
    let last_position = connection
        .query_row(LAST_POSITION, [], |row| row.get(0))
        .map_err(|error| StoreError::of(path, error))?;
    Ok(Sqlite {
        connection,
        last_position,
        faults: Faults::default(),
        epoch: 0,
        dead: false,
        writer: Some(Writer {
            files: Files::of(path)?,
            _database: database,
            _lock: lock,
        }),
        _handle: handle.get(),
    })
}

/// Opens the file for reading only.
fn open_reader(path: &Path) -> Result<Sqlite, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let cache = connection.pragma_update(None, "cache_size", -2 * 1024);
    cache.map_err(|error| StoreError::of(path, error))?;
    Ok(Sqlite {
        connection,
        last_position: 0,
        faults: Faults::default(),
        epoch: 0,
        dead: false,
        writer: None,
        _handle: None,
    })
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| StoreError::of(path, error))?;
    let patience = connection.busy_timeout(PATIENCE);
    patience.map_err(|error| StoreError::of(path, error))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without this guarantee the bundled SQLite prepares a cached statement again whenever its values
    // change, in order to plan by them.
    let planned_once = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
    planned_once.map_err(|error| StoreError::of(path, error))?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::store::LogReading as _;

    #[test]
    fn a_statement_is_prepared_once_however_often_it_is_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let writer = open_writer(&path, &SharedHandle::default()).expect("a store");
        let reader = open_reader(&path).expect("a reader");
        for store in [&writer, &reader] {
            for number in 1..10 {
                let walked = store.walk(number, 1, 0, &mut |_| Ok(true));
                walked.expect("a log without rows");
            }
            let walk = store.connection.prepare_cached(read::WALK);
            let walk = walk.expect("a statement");
            assert_eq!(walk.get_status(StatementStatus::RePrepare), 0);
        }
    }
}
