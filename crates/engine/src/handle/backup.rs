//! Copies of a store that is a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::store::Backend;

impl Engine {
    /// Copies the store to another file while it is in use; the copy is whole and consistent. The size of the copy.
    ///
    /// # Errors
    /// The store is no file, the file exists, or cannot be written.
    pub async fn backup(&self, to: PathBuf) -> Result<u64> {
        let backend = Arc::clone(self.inner.readers.backend());
        self.read(move |_| copy(&*backend, &to)).await
    }
}

fn refused(why: String) -> EngineError {
    EngineError::new(ErrorKind::FailedPrecondition, "BACKUP_NOT_WRITTEN", why)
}

fn copy(backend: &dyn Backend, to: &Path) -> Result<u64> {
    let file = backend.file().ok_or_else(|| {
        refused("the store is no file".to_owned())
            .hint("Back the database up with its own tools, for example pg_dump.")
    })?;
    // Created here and nowhere else: a link in the directory is not followed.
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    // A backup has the payloads of every tenant.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(to) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(refused(format!("{} exists already", to.display()))
                .hint("Choose another name; a backup never replaces a file."));
        }
        Err(error) => {
            let to = to.display();
            return Err(refused(format!("{to} cannot be created: {error}")));
        }
    }
    if let Err(error) = file.backup(to) {
        // An incomplete file is not a backup.
        let _ = std::fs::remove_file(to);
        return Err(error.into());
    }
    let size = std::fs::metadata(to).map_err(|error| refused(error.to_string()))?;
    Ok(size.len())
}
