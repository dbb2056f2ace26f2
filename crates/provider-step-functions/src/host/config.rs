//! The configuration of a provider of portable executions on Step Functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use stateway_hosted::Http;
use stateway_provider_api::adapter::Quota;

use crate::quota::Api;
use crate::{Config, ConfigError};

/// The configuration of a provider of portable executions on Step Functions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// The region; that of the SDK's chain when empty.
    pub region: String,
    /// Another endpoint than AWS's own, for example an emulator's.
    pub endpoint: String,
    /// A profile of the shared configuration files.
    pub profile: String,
    /// The role under which the state machines run, by its ARN. Needed to create them; state machines that
    /// exist keep their role.
    pub role_arn: String,
    /// The beginning of the names of the two state machines.
    pub name: String,
    /// From this event of its history on an execution continues in another one. AWS ends an execution that reaches
    /// 25,000.
    pub most_events: u64,
    /// Other quotas than AWS's defaults, by API.
    pub quotas: BTreeMap<Api, Quota>,
    /// The roles that may decide about escalations whose definition names none; without any, the role
    /// `operator`.
    pub escalation_roles: Vec<String>,
    /// HTTP steps, which the gateway does. With an empty `allow`, definitions with HTTP steps are refused.
    pub http: Http,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            region: String::new(),
            endpoint: String::new(),
            profile: String::new(),
            role_arn: String::new(),
            name: Self::NAME.to_owned(),
            most_events: Self::MOST_EVENTS,
            quotas: BTreeMap::new(),
            escalation_roles: Vec::new(),
            http: Http::default(),
        }
    }
}

impl HostConfig {
    /// The default beginning of the names of the state machines.
    pub const NAME: &'static str = "stateway";

    /// The default of `most_events`.
    pub const MOST_EVENTS: u64 = 20_000;

    /// The connection.
    pub(crate) fn connection(&self) -> Config {
        Config {
            region: self.region.clone(),
            endpoint: self.endpoint.clone(),
            profile: self.profile.clone(),
            quotas: self.quotas.clone(),
            ..Config::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.connection().check()?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let fits = (1..=60).contains(&self.name.len());
        if !fits || !self.name.bytes().all(is_name) {
            return Err(ConfigError::MachineName(self.name.clone()));
        }
        if !(20..=24_000).contains(&self.most_events) {
            return Err(ConfigError::MostEvents(self.most_events));
        }
        if !self.role_arn.is_empty() && !self.role_arn.starts_with("arn:") {
            return Err(ConfigError::Role(self.role_arn.clone()));
        }
        Ok(())
    }

    /// The roles that decide about escalations.
    pub(crate) fn roles(&self) -> Result<Vec<Arc<str>>, ConfigError> {
        let roles = self.escalation_roles.iter().map(|role| {
            if role.is_empty() || role.contains(',') || role.trim() != role {
                return Err(ConfigError::EscalationRole(role.clone()));
            }
            Ok(role.as_str().into())
        });
        roles.collect()
    }
}
