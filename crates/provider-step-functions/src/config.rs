//! The configuration of a Step Functions provider.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use stateway_provider_api::adapter::Quota;
use thiserror::Error;

use crate::id::is_activity;
use crate::quota::Api;

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
    /// create a state machine; an existing state machine keeps its role.
    pub role: String,
    /// The activities that people answer through this gateway, by ARN. Their tasks are taken by
    /// this gateway, so no worker may poll them.
    pub activities: Vec<String>,
    /// How often a task that was taken and not answered yet is kept alive.
    pub heartbeat_seconds: u64,
    /// How many pages of a history are read at most to answer a status.
    pub history_pages: usize,
    /// The state machines are Express ones: they can be started, and that is all.
    pub express: bool,
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
            activities: Vec::new(),
            heartbeat_seconds: 20,
            history_pages: 5,
            express: false,
            quotas: BTreeMap::new(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Nothing could be read.
    #[error("`history_pages` must be at least 1")]
    NoPages,
    /// Not an activity.
    #[error("`{0}` in `activities` is not the ARN of an activity")]
    Activity(String),
    /// A task would not be kept alive.
    #[error("`heartbeat_seconds` must be from 1 to 3600, not {0}")]
    Heartbeat(u64),
    /// Not the beginning of a name.
    #[error("`name` must have 1 to 60 letters, digits, hyphens and underscores, not `{0}`")]
    MachineName(String),
    /// AWS would end executions.
    #[error("`most_events` must be from 20 to 24000, not {0}")]
    MostEvents(u64),
    /// Not a role of IAM.
    #[error("`role_arn` must be the ARN of an IAM role, not `{0}`")]
    Role(String),
    /// A role that nobody can have.
    #[error(
        "`{0}` in `escalation_roles` is not a role: a role must not be empty, contain a comma, or begin or end with a space"
    )]
    EscalationRole(String),
    /// Not an address.
    #[error("`endpoint` must begin with http:// or https://, not `{0}`")]
    Endpoint(String),
}

impl Config {
    pub(crate) const fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat_seconds)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.history_pages == 0 {
            return Err(ConfigError::NoPages);
        }
        if let Some(wrong) = self.activities.iter().find(|arn| !is_activity(arn)) {
            return Err(ConfigError::Activity(wrong.clone()));
        }
        if !(1..=3_600).contains(&self.heartbeat_seconds) {
            return Err(ConfigError::Heartbeat(self.heartbeat_seconds));
        }
        let schemes = ["http://", "https://"];
        let good = self.endpoint.is_empty()
            || schemes
                .iter()
                .any(|scheme| self.endpoint.starts_with(scheme));
        if good {
            Ok(())
        } else {
            Err(ConfigError::Endpoint(self.endpoint.clone()))
        }
    }
}
