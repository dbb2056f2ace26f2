//! What can be asked about definitions beside applying them.

use std::sync::Arc;

use jiff::Timestamp;

use super::{ActorName, RequestKey};

/// Delete a definition.
#[derive(Debug, Clone)]
pub struct DeleteDefinition {
    /// The definition.
    pub name: Arc<str>,
    /// Delete it although executions are open: they finish under their revision.
    pub keep_running: bool,
    /// The idempotency key.
    pub request: RequestKey,
}

/// The result of deleting a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeletedDefinition {
    /// The open executions, which finish under their revision.
    pub open_executions: u64,
}

/// Disable or enable the trigger of a definition.
#[derive(Debug, Clone)]
pub struct SwitchTrigger {
    /// The definition.
    pub name: Arc<str>,
    /// False: neither events nor the schedule start executions.
    pub enabled: bool,
    /// The caller.
    pub actor: ActorName,
    /// The reason, for people.
    pub comment: Arc<str>,
    /// The idempotency key.
    pub request: RequestKey,
}

/// A trigger that someone has disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisabledTrigger {
    /// Who disabled the trigger.
    pub by: ActorName,
    /// When.
    pub at: Timestamp,
    /// The reason, for people; may be empty.
    pub comment: Arc<str>,
}

/// Offer another revision of its definition to a running execution.
#[derive(Debug, Clone)]
pub struct AdoptDefinition {
    /// The revision; none: the current one.
    pub revision: Option<Arc<str>>,
    /// The caller.
    pub actor: super::ActorName,
}
