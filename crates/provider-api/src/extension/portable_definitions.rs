//! Portable definitions: stored and run by an engine that understands them.

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_model::{ErrorKind, ExecutionId};

use super::Precondition;
use crate::{Call, Error, RequestId, Result, Verb};

/// An engine that stores and runs portable definitions. Requires
/// [`Capabilities::portable_definitions`](crate::Capabilities::portable_definitions).
#[async_trait]
pub trait PortableDefinitions: Send + Sync {
    /// Stores a definition, or makes another revision the current one.
    ///
    /// - Applying the current revision again changes nothing.
    /// - The same `request_id` does not bring an old revision back.
    async fn apply_portable(
        &self,
        call: &Call,
        request: ApplyPortableRequest,
    ) -> Result<AppliedDefinition>;

    /// Reads a definition: its current revision, or the one named by its first digits.
    ///
    /// - An unknown or deleted definition answers `NotFound` with reason `DEFINITION_NOT_FOUND`.
    /// - Digits of several revisions answer `InvalidArgument` with reason `AMBIGUOUS_REVISION`.
    async fn get_portable(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<PortableDefinition>;

    /// Lists the current revision of every definition, by name, after the name `after`.
    async fn list_portable(
        &self,
        call: &Call,
        after: Option<&str>,
        page_size: usize,
    ) -> Result<PortablePage>;

    /// Lists every stored revision of a definition, newest first; none of an unknown one.
    async fn portable_revisions(&self, call: &Call, name: &str) -> Result<Vec<PortableDefinition>>;

    /// Deletes a definition and answers the number of its open executions, which finish under their
    /// revision.
    ///
    /// - With open executions and without `keep_running` the answer is `FailedPrecondition`.
    async fn delete_portable(&self, call: &Call, request: DeletePortableRequest) -> Result<u64>;

    /// Makes the provider the one on which new executions of a definition start when no provider is named,
    /// or takes that back. The gateway asks every provider and chooses.
    ///
    /// - A provider that cannot store this answers `Unsupported`, which is the default.
    async fn set_home(&self, call: &Call, request: SetHomeRequest) -> Result<()> {
        let _ = (call, request);
        let message = "the provider does not store which provider is the default of a definition";
        Err(Error::new(
            ErrorKind::Unsupported,
            Verb::ApplyPortable,
            message,
        ))
    }

    /// Counts the open executions of a definition.
    async fn open_executions(&self, call: &Call, name: &str) -> Result<u64>;

    /// Offers another revision of its definition to a running execution.
    ///
    /// - A compatible revision is adopted; otherwise the execution pauses, and its last error names
    ///   the differences.
    async fn adopt(&self, call: &Call, request: AdoptRequest) -> Result<()>;

    /// Whether the engine can run this definition as it is written.
    async fn portability(&self, call: &Call, source: &str) -> Result<Portability>;
}

/// Store a portable definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyPortableRequest {
    /// YAML or JSON.
    pub source: String,
    /// Names the source in diagnostics.
    pub source_name: String,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// A definition that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedDefinition {
    /// The definition as it is now.
    pub definition: PortableDefinition,
    /// Whether it is new or has changed.
    pub changed: bool,
}

/// One revision of a portable definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortableDefinition {
    /// Its id.
    pub name: String,
    /// Its content hash.
    pub revision: String,
    /// As it was applied.
    pub source: String,
    /// When this revision was first applied.
    pub create_time: Timestamp,
    /// Whether the definition has no current revision any more.
    pub deleted: bool,
    /// Who disabled its trigger; none while the trigger is enabled.
    pub disabled_trigger: Option<DisabledTrigger>,
    /// Whether new executions start on this provider when no provider is named.
    pub home: bool,
}

/// Make a provider the default of a definition, or no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetHomeRequest {
    /// The id of the definition.
    pub name: String,
    /// Whether new executions start on this provider.
    pub home: bool,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// A trigger that a person has disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisabledTrigger {
    /// Who disabled the trigger.
    pub by: String,
    /// When.
    pub time: Timestamp,
    /// The reason, for people; may be empty.
    pub comment: String,
}

/// Some definitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortablePage {
    /// By name.
    pub definitions: Vec<PortableDefinition>,
    /// The name after which the next page begins; none after the last.
    pub next: Option<String>,
}

/// Delete a portable definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletePortableRequest {
    /// Its id.
    pub name: String,
    /// Delete it although executions are open.
    pub keep_running: bool,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// Offer another revision to a running execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdoptRequest {
    /// The execution.
    pub id: ExecutionId,
    /// The revision or its first digits; the current one when there is none.
    pub revision: Option<String>,
    /// The result of the check of the request's etag.
    pub precondition: Precondition,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// Whether an engine can run a portable definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portability {
    /// How well.
    pub verdict: PortabilityVerdict,
    /// The differences or obstacles, one sentence each.
    pub reasons: Vec<String>,
}

/// How well an engine runs a portable definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortabilityVerdict {
    /// As it is written.
    Exact,
    /// With the differences that the reasons name.
    Emulated,
    /// Not at all.
    Impossible,
}
