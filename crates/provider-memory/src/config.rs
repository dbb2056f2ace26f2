//! The configuration of an in-memory provider.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use crate::script::{Script, ScriptError};

/// The configuration of an in-memory provider. Everything has a default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The most executions kept. The oldest finished one makes room; when none is finished, a
    /// start is refused.
    pub max_executions: usize,
    /// Scripts beside those that come with the provider, by the name they are started with.
    pub scripts: BTreeMap<String, Script>,
    /// The maximum number of executions that one page of a list reads.
    pub list_scan: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_executions: 10_000,
            scripts: BTreeMap::new(),
            list_scan: 1_000,
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A script breaks a rule.
    #[error("script `{name}`: {error}")]
    Script {
        /// The script's name.
        name: String,
        /// The rule.
        error: ScriptError,
    },
    /// A limit of nothing.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
}
