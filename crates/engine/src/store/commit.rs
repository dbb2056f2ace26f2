//! The outcome of writing a turn.

use super::{Result, StoreError};

/// The outcome of [`Store::commit`](super::Store::commit).
#[derive(Debug)]
#[must_use]
pub(crate) enum Commit {
    /// The turn is stored, and stays stored.
    Committed,
    /// Another process owns the store. Nothing of the turn is stored.
    Fenced(StoreError),
    /// The turn contradicts what is stored, which is a defect. Nothing of the turn is stored.
    Conflict(StoreError),
    /// The turn is stored as a whole or not at all. [`Store::own`](super::Store::own) settles that.
    Failed(StoreError),
}

impl Commit {
    /// The error of a turn that is not known to be stored.
    pub(crate) fn result(self) -> Result<()> {
        match self {
            Self::Committed => Ok(()),
            Self::Fenced(error) | Self::Conflict(error) | Self::Failed(error) => Err(error),
        }
    }
}

impl From<Result<()>> for Commit {
    fn from(done: Result<()>) -> Self {
        match done {
            Ok(()) => Self::Committed,
            Err(error @ (StoreError::InUse { .. } | StoreError::Standby { .. })) => {
                Self::Fenced(error)
            }
            Err(error @ StoreError::Conflict { .. }) => Self::Conflict(error),
            Err(error) => Self::Failed(error),
        }
    }
}
