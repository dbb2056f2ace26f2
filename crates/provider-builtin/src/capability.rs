//! What the provider can do: everything, less what the operator turned off.

use stateway_provider_api::Capabilities;

use crate::ConfigError;

pub(crate) fn all_but(disabled: &[String]) -> Result<Capabilities, ConfigError> {
    let mut capabilities = Capabilities::ALL;
    for name in disabled {
        capabilities = capabilities
            .without(name)
            .ok_or_else(|| ConfigError::Capability(name.clone()))?;
    }
    Ok(capabilities)
}
