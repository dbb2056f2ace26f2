//! What an operator may say of a Step Functions provider.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use crate::quota::{Api, Quota};

/// The configuration of a Step Functions provider. Everything has a default: credentials and
/// region come from the SDK's own chain (environment, profile, web identity, container, instance).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The region; that of the SDK's chain when empty.
    pub region: String,
    /// Another endpoint than AWS's own, for example an emulator's.
    pub endpoint: String,
    /// A profile of the shared configuration files.
    pub profile: String,
    /// The state machines to list, by name or ARN; every standard one when empty.
    pub state_machines: Vec<String>,
    /// The role that state machines made by `apply_definition` run under, by its ARN. Needed to
    /// make one; one that is there keeps its own.
    pub role: String,
    /// How many pages of a history are read at most to answer a status.
    pub history_pages: usize,
    /// The state machines are Express ones: they can be started, and that is all.
    pub express: bool,
    /// Capabilities to go without, by name.
    pub disable: Vec<String>,
    /// Other quotas than AWS's defaults, by API.
    pub quotas: BTreeMap<Api, Quota>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            region: String::new(),
            endpoint: String::new(),
            profile: String::new(),
            state_machines: Vec::new(),
            role: String::new(),
            history_pages: 5,
            express: false,
            disable: Vec::new(),
            quotas: BTreeMap::new(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No such capability.
    #[error("`{0}` in `disable` is not a capability")]
    Capability(String),
    /// Nothing could be read.
    #[error("`history_pages` must be at least 1")]
    NoPages,
    /// Not an address.
    #[error("`endpoint` must begin with http:// or https://, not `{0}`")]
    Endpoint(String),
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.history_pages == 0 {
            return Err(ConfigError::NoPages);
        }
        let schemes = ["http://", "https://"];
        let good = self.endpoint.is_empty()
            || schemes
                .iter()
                .any(|scheme| self.endpoint.starts_with(scheme));
        match good {
            true => Ok(()),
            false => Err(ConfigError::Endpoint(self.endpoint.clone())),
        }
    }
}
