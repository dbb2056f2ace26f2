//! The configuration of a provider in another process.

use std::path::PathBuf;

use serde::Deserialize;
use thiserror::Error;

/// The configuration of a provider in another process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The address of the provider: `unix:/run/acme.sock`, `https://jobs.internal:7443`, or
    /// `http://127.0.0.1:7000` on this machine only.
    pub address: String,
    /// With `https`: the certificate authorities of the provider, PEM.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// With `https`: the gateway's own certificate and key, PEM.
    #[serde(default)]
    pub identity_file: Option<PathBuf>,
}

impl Config {
    /// A provider at this address, without TLS.
    #[must_use]
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            ca_file: None,
            identity_file: None,
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not an address.
    #[error(
        "`address`: `{0}` is not an address; use `unix:/path/to/socket`, `https://host:port`, or \
         `http://127.0.0.1:port`"
    )]
    Address(String),
    /// Plain TCP to another machine.
    #[error("`address`: plain `http` is for this machine only; use `https` for `{0}`")]
    NotLoopback(String),
    /// TLS without certificates, or certificates without TLS.
    #[error("{0}")]
    Certificates(&'static str),
    /// A certificate or key that cannot be used.
    #[error("`{option}`: {file}: {why}")]
    Certificate {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
}
