//! The errors of a store.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use thiserror::Error;

/// What is wrong with the store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process uses the store.
    #[error("the store {store} is in use by another process{}", who(.holder))]
    InUse {
        /// The store, as people know it.
        store: String,
        /// Process id of the holder, if known.
        holder: String,
    },
    /// Another gateway owns the shared store, and this one takes over when that gateway stops.
    #[error("this gateway stands by: {owner} owns the store")]
    Standby {
        /// The gateway that owns the store, as people know it.
        owner: String,
        /// Where other gateways reach it, if that is configured there.
        address: Option<String>,
    },
    /// The server of the store does not answer.
    #[error("the store {store} cannot be reached: {why}")]
    Unreachable {
        /// The store, as people know it.
        store: String,
        /// Why.
        why: String,
    },
    /// A turn contradicts what is stored.
    #[error("a write contradicts what is stored: {what}")]
    Conflict {
        /// The stored value.
        what: String,
    },
    /// Written by a newer version.
    #[error("the store {store} has schema version {found}; this version knows {known}")]
    Newer {
        /// The store, as people know it.
        store: String,
        /// The schema version of the file.
        found: i64,
        /// The newest schema version that this build supports.
        known: i64,
    },
    /// The store cannot be opened.
    #[error("the store {store} cannot be opened: {why}")]
    Unopened {
        /// The store, as people know it.
        store: String,
        /// Why.
        why: String,
    },
    /// The file that is open is not the one at its path any more.
    #[error("the store file {} was removed or replaced while it was in use", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The store cannot be written.
    #[error("the store cannot be written: the file or its folder is read-only")]
    ReadOnly,
    /// The disk is full.
    #[error("the store cannot be written: the disk is full")]
    Full,
    /// The content of the store is damaged.
    #[error("the store is damaged: {what}")]
    Corrupt {
        /// The finding.
        what: String,
    },
    /// Reading or writing failed.
    #[error("the store failed: {0}")]
    Failed(String),
}

fn who(holder: &str) -> String {
    match holder {
        "" => String::new(),
        holder => format!(" (process {holder})"),
    }
}

impl StoreError {
    pub(crate) fn opening(path: &Path, error: impl std::fmt::Display) -> Self {
        Self::Unopened {
            store: path.display().to_string(),
            why: error.to_string(),
        }
    }

    /// An error while the file is being opened.
    pub(crate) fn of(path: &Path, error: rusqlite::Error) -> Self {
        match Self::from(error) {
            Self::Failed(why) => Self::opening(path, why),
            Self::Corrupt { what } => Self::corrupt(format_args!("{}: {what}", path.display())),
            known => known,
        }
    }

    pub(crate) fn corrupt(what: impl std::fmt::Display) -> Self {
        Self::Corrupt {
            what: what.to_string(),
        }
    }

    /// Whether the store may work again without a change of the configuration: a process may start and wait for it.
    pub(crate) const fn is_temporary(&self) -> bool {
        matches!(self, Self::Standby { .. } | Self::Unreachable { .. })
    }

    /// A stable word for programs.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "STORE_IN_USE",
            Self::Standby { .. } => "STORE_STANDBY",
            Self::Unreachable { .. } => "STORE_UNREACHABLE",
            Self::Conflict { .. } => "STORE_CONFLICT",
            Self::Newer { .. } => "STORE_TOO_NEW",
            Self::Unopened { .. } => "STORE_NOT_OPENED",
            Self::Replaced { .. } => "STORE_REPLACED",
            Self::ReadOnly => "STORE_READ_ONLY",
            Self::Full => "STORE_FULL",
            Self::Corrupt { .. } => "STORE_DAMAGED",
            Self::Failed(_) => "STORE_FAILED",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::InUse { .. } => {
                "Stop the other process, or give this one another `path` in the configuration."
            }
            Self::Standby { .. } => {
                "Send the request to the gateway that owns the store; this one takes over if that gateway stops."
            }
            Self::Unreachable { .. } => {
                "Check the server of the store and the network; nothing that was answered is lost, and the gateway reconnects by itself."
            }
            Self::Conflict { .. } => {
                "See the log; nothing that was answered is lost. Report the defect."
            }
            Self::Newer { .. } => "Use the version that wrote it, or a newer one.",
            Self::Unopened { .. } => "Check the path or the address, and the permissions.",
            Self::Replaced { .. } => {
                "Stop the process, put the file and its `-wal` file back or restore a backup, then start the process again."
            }
            Self::ReadOnly => {
                "Make the file and its folder writable; nothing that was answered is lost."
            }
            Self::Full => "Free some space; nothing that was answered is lost.",
            Self::Corrupt { .. } => {
                "Nothing was changed. Verify the execution, then recover it or restore a backup."
            }
            Self::Failed(_) => "See the log; nothing that was answered is lost.",
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        match code {
            Some(ErrorCode::ConstraintViolation) => Self::Conflict {
                what: plain(&error),
            },
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::corrupt(plain(&error))
            }
            _ if is_unreadable(&error) => Self::corrupt(plain(&error)),
            _ => Self::Failed(plain(&error)),
        }
    }
}

/// Whether a value in the file is not of the type that belongs there.
const fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
    };
    matches!(
        error,
        FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | Utf8Error(..)
    )
}

/// SQLite's own words, without the statement.
fn plain(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(code, Some(text)) => format!("{text} ({code})"),
        other => other.to_string(),
    }
}
