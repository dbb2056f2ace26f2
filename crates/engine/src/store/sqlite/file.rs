//! The file itself, apart from what is in it: which file is open, and that no other process has it.
//!
//! A database that is unlinked or replaced under its process keeps accepting writes to a deleted file.
//! So every commit compares the files at the paths with the files that were opened. The system's own lock on the
//! database file refuses a second process that comes by another path: a link, or without the lock file.

use std::fs::{File, Metadata, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::StoreError;

/// The identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

#[cfg(unix)]
fn identity(of: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    Identity {
        device: of.dev(),
        inode: of.ino(),
    }
}

/// Elsewhere a file in use cannot be removed.
#[cfg(not(unix))]
const fn identity(_: &Metadata) -> Identity {
    Identity {
        device: 0,
        inode: 0,
    }
}

/// The database file and its log, as they were when they were opened.
#[derive(Debug)]
pub(super) struct Files {
    database: PathBuf,
    log: PathBuf,
    opened: Identity,
    /// Nothing before the first write.
    opened_log: Option<Identity>,
    /// Whether the log was removed and its content moved to the database.
    rescued: bool,
}

impl Files {
    /// Notes which files are open. The connection has the database open already.
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        let mut log = database.file_name().unwrap_or_default().to_owned();
        log.push("-wal");
        let log = database.with_file_name(log);
        let found = std::fs::metadata(database);
        let found = found.map_err(|error| StoreError::opening(database, error))?;
        let opened_log = std::fs::metadata(&log).ok();
        Ok(Self {
            opened: identity(&found),
            opened_log: opened_log.as_ref().map(identity),
            database: database.to_owned(),
            log,
            rescued: false,
        })
    }

    /// Fails if a file was removed or replaced.
    pub(super) fn check(&mut self) -> Result<(), StoreError> {
        let log = now(&self.log);
        let same_log = self.opened_log.is_none() || self.opened_log == log;
        if now(&self.database) != Some(self.opened) || !same_log {
            return Err(StoreError::Replaced {
                path: self.database.clone(),
            });
        }
        self.opened_log = log;
        Ok(())
    }

    /// Whether only the log was removed, and its content is to be moved to the database. Once.
    pub(super) fn rescues_log(&mut self) -> bool {
        let database = now(&self.database) == Some(self.opened);
        database && !std::mem::replace(&mut self.rescued, true)
    }
}

fn now(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().as_ref().map(identity)
}

/// The lock on the database file. SQLite's own locks are of another kind (`fcntl`), which this one (`flock`)
/// does not touch.
///
/// The file must not be closed while this process has a connection to it: closing any handle of a file drops
/// the process's `fcntl` locks on it. So readers share the handle.
#[derive(Debug)]
pub(super) struct DatabaseLock {
    file: Arc<File>,
}

/// The handle of a locked database, for the readers of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedHandle(Arc<Mutex<Weak<File>>>);

impl SharedHandle {
    pub(super) fn get(&self) -> Option<Arc<File>> {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        handle.upgrade()
    }

    fn set(&self, file: &Arc<File>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(file);
    }
}

impl DatabaseLock {
    /// Locks the database file, and creates it if it is missing.
    #[cfg(unix)]
    pub(super) fn take(database: &Path, handle: &SharedHandle) -> Result<Option<Self>, StoreError> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let opening = |error| StoreError::opening(database, error);
        let file = match File::open(database) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut options = File::options();
                // The file has the payloads of every tenant. SQLite gives its mode to the files beside it.
                options.read(true).append(true).create(true).mode(0o600);
                options.open(database)
            }
            opened => opened,
        };
        let file = file.map_err(opening)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // This process may have the file open by another path: see above.
                std::mem::forget(file);
                return Err(StoreError::InUse {
                    store: database.display().to_string(),
                    holder: String::new(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(opening(error)),
        }
        let file = Arc::new(file);
        handle.set(&file);
        Ok(Some(Self { file }))
    }

    /// Elsewhere a lock on the file would lock SQLite out as well.
    #[cfg(not(unix))]
    pub(super) fn take(_: &Path, _: &SharedHandle) -> Result<Option<Self>, StoreError> {
        Ok(None)
    }
}

impl Drop for DatabaseLock {
    fn drop(&mut self) {
        // Readers may have the handle for longer.
        if let Err(error) = self.file.unlock() {
            tracing::warn!("the lock of the store stays until the process ends: {error}");
        }
    }
}
