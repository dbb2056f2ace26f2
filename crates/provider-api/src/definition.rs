//! Definitions of an engine's own: state machines and the like. Portable definitions are not its
//! business; the gateway keeps those.

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
    /// Where to go on.
    pub cursor: Option<String>,
}

/// Some definitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DefinitionsPage {
    /// Ordered by name as far as the engine orders them.
    pub definitions: Vec<NativeDefinition>,
    /// Where the next page begins; none after the last.
    pub next: Option<String>,
}

/// Make a definition, or a new revision of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyDefinitionRequest {
    /// The engine's name for it.
    pub name: String,
    /// In the engine's own language.
    pub source: String,
    /// To be put on it. Labels that it has and that are not named here stay.
    pub labels: Labels,
    /// The idempotency key.
    pub request_id: RequestId,
}

/// Something that the engine says of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionProblem {
    /// Whether the engine would refuse it.
    pub is_error: bool,
    /// The engine's code for it.
    pub code: String,
    /// One line.
    pub message: String,
    /// Where, in the engine's own way of saying it; may be empty.
    pub location: String,
}
