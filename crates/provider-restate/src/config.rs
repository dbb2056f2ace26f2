//! The configuration of a Restate provider.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use stateway_hosted::Http;
use thiserror::Error;

/// The configuration of a Restate provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The admin API: queries and the verbs.
    pub admin: Endpoint,
    /// The ingress: starts, signals and outputs.
    pub ingress: Endpoint,
    /// Which handler resolves a promise, by the promise's name, or by `Service/promise`. A promise
    /// that is not named here is resolved by the handler of the same name.
    pub signals: BTreeMap<String, String>,
}

/// The configuration of a provider of portable executions inside Restate, and of its host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// The admin API: queries and the registration of the host.
    pub admin: Endpoint,
    /// The ingress: every write.
    pub ingress: Endpoint,
    /// The host: where it listens, and whether `stateway serve` runs it.
    pub host: HostAddress,
    /// The roles that may decide about escalations whose definition names none; without any, the role
    /// `operator`.
    pub escalation_roles: Vec<String>,
    /// HTTP steps, which the gateway does. With an empty `allow`, definitions with HTTP steps are refused.
    pub http: Http,
}

/// Where a host listens, and where Restate finds it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostAddress {
    /// The address on which the host listens.
    pub listen: std::net::SocketAddr,
    /// The URL by which Restate reaches the host; derived from `listen` when empty.
    pub advertise: String,
    /// The name of the version under which the host is registered; the version of the program when empty.
    pub deployment: String,
    /// Whether `stateway serve` runs the host too.
    pub serve: bool,
}

impl HostAddress {
    /// The port on which a host listens by default.
    pub const LISTEN: std::net::SocketAddr =
        std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9080);
}

impl Default for HostAddress {
    fn default() -> Self {
        Self {
            listen: Self::LISTEN,
            advertise: String::new(),
            deployment: String::new(),
            serve: false,
        }
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        let Config { admin, ingress, .. } = Config::default();
        Self {
            admin,
            ingress,
            host: HostAddress::default(),
            escalation_roles: Vec::new(),
            http: Http::default(),
        }
    }
}

impl HostConfig {
    /// The server, without the host.
    #[must_use]
    pub fn restate(&self) -> Config {
        Config {
            admin: self.admin.clone(),
            ingress: self.ingress.clone(),
            ..Config::default()
        }
    }

    /// The roles that may decide about escalations whose definition names none.
    pub(crate) fn roles(&self) -> Result<Vec<Arc<str>>, ConfigError> {
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

/// One of Restate's two APIs, as this gateway reaches it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Endpoint {
    /// Where it is; a path is kept, so a proxy may serve it under a prefix.
    pub url: String,
    /// The environment variable that holds a bearer token, for a proxy in front of it.
    pub bearer_env: Option<String>,
    /// The file that holds a bearer token. Read once, at start.
    pub bearer_file: Option<PathBuf>,
    /// The only certificate authorities to trust, PEM. The system's when there are none.
    pub ca_file: Option<PathBuf>,
    /// The gateway's own certificate and key, PEM, for proxies that ask for one.
    pub identity_file: Option<PathBuf>,
}

impl Config {
    /// The default port of the admin API.
    pub const ADMIN_URL: &'static str = "http://127.0.0.1:9070";
    /// The default port of the ingress.
    pub const INGRESS_URL: &'static str = "http://127.0.0.1:8080";

    /// A server at these two addresses, with default settings.
    #[must_use]
    pub fn at(admin: impl Into<String>, ingress: impl Into<String>) -> Self {
        Self {
            admin: Endpoint::at(admin),
            ingress: Endpoint::at(ingress),
            ..Self::default()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            admin: Endpoint::at(Self::ADMIN_URL),
            ingress: Endpoint::at(Self::INGRESS_URL),
            signals: BTreeMap::new(),
        }
    }
}

impl Endpoint {
    fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A role that nobody can have.
    #[error(
        "`{0}` in `escalation_roles` is not a role: a role must not be empty, contain a comma, or begin or end with a space"
    )]
    Role(String),
    /// Not an address.
    #[error("`{api}.url`: `{url}` is not an http or https address")]
    Url {
        /// Which of the two.
        api: &'static str,
        /// The text.
        url: String,
    },
    /// Two tokens.
    #[error("`{0}`: `bearer_env` and `bearer_file` cannot both be given")]
    TwoTokens(&'static str),
    /// A token that cannot be read or sent.
    #[error("`{api}`: the bearer token of {from} cannot be used: {why}")]
    Token {
        /// Which of the two.
        api: &'static str,
        /// Where it was to come from.
        from: String,
        /// What is wrong.
        why: String,
    },
    /// A certificate or key that cannot be used.
    #[error("`{api}`: {file}: {why}")]
    Certificate {
        /// Which of the two.
        api: &'static str,
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// The HTTP client cannot be made.
    #[error("`{api}`: no HTTP client: {why}")]
    Client {
        /// Which of the two.
        api: &'static str,
        /// What is wrong.
        why: String,
    },
}
