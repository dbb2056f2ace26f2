//! One process per file: a lock file beside it, which the system releases when the process ends,
//! however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Held while the store is open.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file would do, but for a process that is being started from this one and
        // still has all of its files.
        if let Err(error) = self.file.unlock() {
            tracing::warn!("the lock of the store stays until the process ends: {error}");
        }
    }
}

impl FileLock {
    pub(super) fn take(store: &Path) -> Result<Self, StoreError> {
        let path = beside(store);
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut file = opened.map_err(|error| StoreError::opening(&path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The name of the other process is only for the message.
                let _ = (&file).take(20).read_to_string(&mut holder);
                return Err(StoreError::InUse {
                    store: store.display().to_string(),
                    holder: holder.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::opening(&path, error)),
        }
        let noted = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        noted.map_err(|error| StoreError::opening(&path, error))?;
        Ok(Self { file })
    }
}

fn beside(store: &Path) -> PathBuf {
    let mut name = store.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    store.with_file_name(name)
}
