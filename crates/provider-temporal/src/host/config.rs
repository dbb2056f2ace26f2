//! The configuration of a provider of portable executions inside Temporal, and of its host.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use stateway_hosted::Http;
use stateway_provider_api::adapter::Quota;

use crate::config::{Config, ConfigError, RequestQuotas, Tls};

/// The configuration of a provider of portable executions inside Temporal, and of its host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// The frontend: `http://host:port`, or `https://host:port` for TLS.
    pub address: String,
    /// The namespace of the workflows.
    pub namespace: String,
    /// The environment variable that holds an API key.
    pub api_key_env: Option<String>,
    /// The file that holds an API key. Read again when it changes.
    pub api_key_file: Option<PathBuf>,
    /// Certificates and keys of `https` addresses.
    pub tls: Tls,
    /// The name under which gateway and host make requests; workflow histories show it.
    pub identity: String,
    /// How many calls this gateway makes.
    pub quotas: RequestQuotas,
    /// How the host works.
    pub host: HostOptions,
    /// The roles that may decide about escalations whose definition names none; without any, the role
    /// `operator`.
    pub escalation_roles: Vec<String>,
    /// HTTP steps, which the gateway does. With an empty `allow`, definitions with HTTP steps are refused.
    pub http: Http,
}

/// How the host works.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostOptions {
    /// The task queue of the workflows. Providers with the same namespace and queue are the same.
    pub task_queue: String,
    /// How many workflow tasks one host handles at a time.
    pub concurrency: usize,
    /// How many executions one host keeps in memory. The history of any other one is read again.
    pub cache: usize,
    /// Whether `stateway serve` runs the host too.
    pub serve: bool,
}

impl HostOptions {
    /// The task queue unless configured.
    pub const TASK_QUEUE: &'static str = "stateway";
    /// The most workflow tasks at a time that can be configured.
    pub const MOST_TASKS: usize = 512;
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            task_queue: Self::TASK_QUEUE.to_owned(),
            concurrency: 32,
            cache: 1_000,
            serve: false,
        }
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        let config = Config::default();
        Self {
            address: config.address,
            namespace: config.namespace,
            api_key_env: None,
            api_key_file: None,
            tls: Tls::default(),
            identity: config.identity,
            quotas: RequestQuotas {
                // Open tasks are found by lists, twice a second.
                visibility: Quota {
                    burst: 30,
                    per_second: 30,
                },
                ..config.quotas
            },
            host: HostOptions::default(),
            escalation_roles: Vec::new(),
            http: Http::default(),
        }
    }
}

impl HostConfig {
    /// The namespace `default` of the server at this address.
    #[must_use]
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            ..Self::default()
        }
    }

    /// The server, with a maximum number of long polls.
    pub(super) fn temporal(&self, long_polls: usize) -> Config {
        Config {
            address: self.address.clone(),
            namespace: self.namespace.clone(),
            api_key_env: self.api_key_env.clone(),
            api_key_file: self.api_key_file.clone(),
            tls: self.tls.clone(),
            identity: self.identity.clone(),
            quotas: self.quotas,
            max_long_polls: long_polls,
            ..Config::default()
        }
    }

    /// Checks what is about the host.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let HostOptions {
            task_queue,
            concurrency,
            ..
        } = &self.host;
        if task_queue.is_empty() {
            return Err(ConfigError::TaskQueue);
        }
        if *concurrency == 0 || *concurrency > HostOptions::MOST_TASKS {
            return Err(ConfigError::Concurrency(HostOptions::MOST_TASKS));
        }
        Ok(())
    }

    /// The roles that may decide about escalations whose definition names none.
    pub(super) fn roles(&self) -> Result<Vec<Arc<str>>, ConfigError> {
        let wrong = |role: &&String| {
            role.is_empty() || role.contains(',') || role.trim().len() != role.len()
        };
        if let Some(role) = self.escalation_roles.iter().find(wrong) {
            return Err(ConfigError::Role(role.clone()));
        }
        let roles = self.escalation_roles.iter();
        Ok(roles.map(|role| role.as_str().into()).collect())
    }
}
