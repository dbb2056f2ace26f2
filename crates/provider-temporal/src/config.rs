//! The configuration of a Temporal provider.

use std::path::PathBuf;

use serde::Deserialize;
use stateway_provider_api::adapter::Quota;
use thiserror::Error;

/// The configuration of a Temporal provider: one namespace of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The frontend: `http://host:port`, or `https://host:port` for TLS.
    pub address: String,
    /// The namespace whose workflow executions this provider shows.
    pub namespace: String,
    /// The environment variable that holds an API key.
    pub api_key_env: Option<String>,
    /// The file that holds an API key. Read again when it changes.
    pub api_key_file: Option<PathBuf>,
    /// Certificates and keys of `https` addresses.
    pub tls: Tls,
    /// The name under which this gateway makes requests; workflow histories show it.
    pub identity: String,
    /// The task queue of workflows that are started without the option `task_queue`; none: the option
    /// must be given.
    pub task_queue: Option<String>,
    /// The workflow types that may be started. Empty: every type, because the server accepts every
    /// type.
    pub workflow_types: Vec<String>,
    /// Labels with these names are stored as search attributes of type Keyword; other labels are
    /// stored in the memo. The search attributes must exist in the namespace.
    pub search_attributes: Vec<String>,
    /// The remote codec that decodes encrypted payloads; none: they are shown as encrypted.
    pub codec: Option<Codec>,
    /// The most long polls that are open at a time. Watches beyond this number are polled.
    pub max_long_polls: usize,
    /// How many calls this gateway makes.
    pub quotas: RequestQuotas,
}

/// Certificates and keys, PEM. The files are read again when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// The only certificate authorities to trust; the system's when there are none.
    pub ca_file: Option<PathBuf>,
    /// The gateway's own certificate, for servers that ask for one (mTLS).
    pub cert_file: Option<PathBuf>,
    /// The key of that certificate.
    pub key_file: Option<PathBuf>,
    /// The name that the server's certificate must have; that of the address when empty.
    pub server_name: Option<String>,
}

/// A remote codec: an HTTP endpoint that decodes payloads.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Codec {
    /// The address before `/decode`.
    pub url: String,
    /// The environment variable that holds a bearer token for it.
    #[serde(default)]
    pub bearer_env: Option<String>,
    /// The only certificate authorities to trust for it, PEM; the system's when there are none.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Allows an `http` address of another machine, for networks that encrypt by themselves.
    #[serde(default)]
    pub insecure: bool,
}

/// How many calls this gateway makes per second. The defaults stay below those of a self-hosted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestQuotas {
    /// Lists and counts.
    pub visibility: Quota,
    /// Reads of one execution: descriptions, histories and task queues.
    pub reads: Quota,
}

impl Default for RequestQuotas {
    fn default() -> Self {
        let quota = |burst, per_second| Quota { burst, per_second };
        Self {
            visibility: quota(10, 10),
            reads: quota(500, 500),
        }
    }
}

impl Config {
    /// Where a local development server listens.
    pub const ADDRESS: &'static str = "http://127.0.0.1:7233";
    /// The most long polls unless configured. A server allows 1,200 in each namespace, those of workers
    /// included.
    pub const LONG_POLLS: usize = 300;

    /// The namespace `default` of the server at this address.
    #[must_use]
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            ..Self::default()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: Self::ADDRESS.to_owned(),
            namespace: "default".to_owned(),
            api_key_env: None,
            api_key_file: None,
            tls: Tls::default(),
            identity: "stateway".to_owned(),
            task_queue: None,
            workflow_types: Vec::new(),
            search_attributes: Vec::new(),
            codec: None,
            max_long_polls: Self::LONG_POLLS,
            quotas: RequestQuotas::default(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Not an address.
    #[error("`address`: `{0}` is not an http or https address with a host")]
    Address(String),
    /// A user name or a password in the address. Not shown.
    #[error(
        "`address` must not contain a user name or a password; use an API key or a certificate"
    )]
    SecretInAddress,
    /// No namespace.
    #[error("`namespace` must not be empty")]
    Namespace,
    /// Two keys.
    #[error("`api_key_env` and `api_key_file` cannot both be given")]
    TwoKeys,
    /// An API key that cannot be read or sent.
    #[error("the API key of {from} cannot be used: {why}")]
    ApiKey {
        /// Where it was to come from.
        from: String,
        /// What is wrong.
        why: String,
    },
    /// An API key would be readable on the network.
    #[error("an API key needs an https address")]
    KeyWithoutTls,
    /// Certificates for an address without TLS.
    #[error("`tls` needs an https address")]
    CertificateWithoutTls,
    /// A certificate without its key, or a key without its certificate.
    #[error("`tls.cert_file` and `tls.key_file` must be given together")]
    HalfIdentity,
    /// A certificate or key that cannot be used.
    #[error("`tls`: {file}: {why}")]
    Certificate {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A quota that leaves nothing to watches.
    #[error("`quotas.{0}`: `burst` must be at least 4 and `per_second` at least 1")]
    Quota(&'static str),
    /// No task queue.
    #[error("`host.task_queue` must not be empty")]
    TaskQueue,
    /// A number of tasks that cannot be used.
    #[error("`host.concurrency` must be between 1 and {0}")]
    Concurrency(usize),
    /// A role that nobody can have.
    #[error(
        "`{0}` in `escalation_roles` is not a role: a role must not be empty, contain a comma, or begin or end with a space"
    )]
    Role(String),
    /// Not an address of a codec.
    #[error("`codec.url`: {0}")]
    Codec(String),
}
