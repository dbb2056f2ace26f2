//! What the provider can do, less what the operator turned off.

use stateway_provider_api::Capabilities;

use crate::ConfigError;

/// What Restate lets an adapter do.
const OFFERED: Capabilities = Capabilities {
    // Restate pushes nothing: the gateway polls, and a hundred invocations are one query.
    watch_one: false,
    watch_end: false,
    watch_all: false,
    // Resolving an awakeable twice is resolving it once, but another body is not refused.
    signal_idempotent: false,
    labels: false,
    // Handlers are known by their deployments, not by anything that could be applied here.
    definitions: false,
    apply_definition: false,
    // What a row means may take its journal: counting would be reading everything.
    count: false,
    // The handler's own code compensates; Restate only tells the handler that it was cancelled.
    cancel_compensation: false,
    ..Capabilities::ALL
};

pub(crate) fn all_but(disabled: &[String]) -> Result<Capabilities, ConfigError> {
    let mut capabilities = OFFERED;
    for name in disabled {
        capabilities = capabilities
            .without(name)
            .ok_or_else(|| ConfigError::Capability(name.clone()))?;
    }
    Ok(capabilities)
}
