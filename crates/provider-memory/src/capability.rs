//! What the provider can do: everything, less what the operator turned off.

use stateway_provider_api::Capabilities;

use crate::ConfigError;

/// All but definitions of its own: the gateway keeps the portable ones.
const OFFERED: Capabilities = Capabilities {
    definitions: false,
    apply_definition: false,
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
