//! The store of an engine that keeps its own: removing old executions, backups.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Call, Result};

/// An engine that keeps its own store. Requires [`Capabilities::store`](crate::Capabilities::store).
#[async_trait]
pub trait Store: Send + Sync {
    /// Removes finished executions, or counts them.
    ///
    /// - At most `limit` of them, so that others can write between two calls.
    /// - The answer names the cut-off time that was applied, by the engine's clock.
    async fn purge_executions(
        &self,
        call: &Call,
        request: PurgeExecutionsRequest,
    ) -> Result<PurgedExecutions>;

    /// Writes a backup.
    ///
    /// - An existing file is never overwritten: `AlreadyExists` with reason `BACKUP_ALREADY_EXISTS`.
    /// - `file` is a plain file name; the operator configures the folder.
    async fn backup(&self, call: &Call, file: &str) -> Result<Backup>;
}

/// Which finished executions to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeExecutionsRequest {
    /// How long ago they ended.
    pub age: PurgeAge,
    /// The maximum number of results.
    pub limit: usize,
    /// Only count them.
    pub dry_run: bool,
}

/// How long ago an execution must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeAge {
    /// Before this time.
    EndedBefore(Timestamp),
    /// Longer ago than this, by the engine's clock.
    OlderThan(Duration),
}

/// What a purge removed or would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgedExecutions {
    /// The number of executions.
    pub executions: u64,
    /// Whether more executions match.
    pub more: bool,
    /// Executions that matched and were kept because the delivery of their events is pending.
    pub held_back: u64,
    /// The effective cut-off time.
    pub ended_before: Timestamp,
}

/// A backup that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Where it is.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}
