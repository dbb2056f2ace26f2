//! Native definitions of an engine, for example state machines. The gateway stores portable
//! definitions.

use jiff::Timestamp;
use stateway_model::Labels;

use crate::RequestId;

/// A definition as the engine keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NativeDefinition {
    /// The engine's name for it, as a start takes it.
    pub name: String,
    /// The engine's name for this revision; empty where it has none.
    pub revision: String,
    /// Every revision that can be named, newest first. Not in lists.
    pub revisions: Vec<String>,
    /// In the engine's own language. Not in lists.
    pub source: String,
    /// Not in lists.
    pub labels: Labels,
    /// When this revision was made, if the engine reports it.
    pub create_time: Option<Timestamp>,
    /// Only of what was applied: whether it is new or has changed.
    pub changed: bool,
}

/// Which definitions to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionsRequest {
    /// The most rows; at least one.
    pub page_size: u32,
    /// The cursor of the page.
    pub cursor: Option<String>,
}

/// Some definitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DefinitionsPage {
    /// Ordered by name as far as the engine orders them.
    pub definitions: Vec<NativeDefinition>,
    /// The cursor of the next page; none after the last page.
    pub next: Option<String>,
}

/// Create a definition, or a new revision of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyDefinitionRequest {
    /// The engine's name for it.
    pub name: String,
    /// In the engine's own language.
    pub source: String,
    /// The labels to set. Other labels of the definition are unchanged.
    pub labels: Labels,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// A diagnostic of the engine about a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionProblem {
    /// Whether the engine would refuse it.
    pub is_error: bool,
    /// The engine's code for it.
    pub code: String,
    /// One line.
    pub message: String,
    /// The place, in the notation of the engine; may be empty.
    pub location: String,
}
