//! What Temporal lets an adapter do.

use stateway_provider_api::Capabilities;

/// What is missing: an execution's labels and types are visible to lists, but whether an open one backs
/// off is not, so counting by sub-state would be reading everything; the server stores no definitions;
/// a reset or a retry of an activity that is repeated with another body is not refused; the
/// workflow's own code decides about compensation.
pub const CAPABILITIES: Capabilities = Capabilities {
    list: true,
    list_hints: true,
    steps: true,
    retries: true,
    ..Capabilities::NONE
};
