//! The configuration that counts, once file, environment, flags and defaults are put together.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use stateway_gateway::Settings;
use stateway_model::ProviderId;

use super::{
    Access, AllowedOrigin, Audit, Authentication, Kind, Limits, Log, Otlp, Peers, Quotas, Server,
    Tls, Watch,
};

/// The configuration that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file it was read from, if any.
    pub file: Option<PathBuf>,
    /// The gateway's settings, every provider's limits included.
    pub settings: Settings,
    /// The access rules as the file has them.
    pub access: Access,
    /// Where the token key came from, for printing.
    pub token_key_file: Option<PathBuf>,
    /// Logs.
    pub log: Log,
    /// Traces.
    pub otlp: Otlp,
    /// The providers, ordered by id.
    pub providers: Vec<ProviderConfig>,
}

/// One configured provider.
#[derive(Clone, PartialEq)]
pub struct ProviderConfig {
    /// Its id.
    pub id: ProviderId,
    /// Its kind.
    pub kind: Kind,
    /// Rows to lay over the kind's table.
    pub table: Option<PathBuf>,
    /// The capabilities that are turned off, by name.
    pub disable: Vec<String>,
    /// Settings of this kind only.
    pub options: toml::Table,
}

impl fmt::Debug for ProviderConfig {
    /// Without the values of the options, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("table", &self.table)
            .field("disable", &self.disable)
            .field("options", &self.options.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl Config {
    /// The configuration as a file that would give the same. Secrets are left out.
    ///
    /// # Errors
    /// A value that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let mut server = Server::of(&self.settings);
        server.token_key_file.clone_from(&self.token_key_file);
        let origins = self.settings.allowed_origins.iter().cloned();
        server.allowed_origins = origins.map(AllowedOrigin).collect();
        server.tls = self.settings.tls.as_ref().map(Tls::of);
        server.peers = self.settings.peers.as_ref().map(Peers::of);
        server.monitoring_listen = self.settings.monitoring_listen;
        let providers = self.providers.iter().map(|provider| {
            let limits = Limits::of(self.settings.upstream(&provider.id));
            (provider.id.to_string(), Printed::of(provider, limits))
        });
        toml::to_string(&PrintedFile {
            server,
            authentication: Authentication::of(&self.settings.authentication),
            access: Access {
                reload_interval: Some(self.settings.access.reload_interval.into()),
                ..self.access.clone()
            },
            audit: self.settings.audit.as_ref().map(Audit::of),
            quotas: Quotas::of(&self.settings.quotas),
            watch: Watch::of(&self.settings.watch),
            limits: Limits::of(&self.settings.default_upstream),
            log: &self.log,
            otlp: &self.otlp,
            providers: providers.collect(),
        })
    }
}

#[derive(Serialize)]
struct PrintedFile<'a> {
    server: Server,
    authentication: Authentication,
    access: Access,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<Audit>,
    quotas: Quotas,
    watch: Watch,
    limits: Limits,
    log: &'a Log,
    otlp: &'a Otlp,
    providers: std::collections::BTreeMap<String, Printed<'a>>,
}

#[derive(Serialize)]
struct Printed<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'a PathBuf>,
    disable: &'a [String],
    #[serde(flatten)]
    options: toml::Table,
    limits: Limits,
}

impl<'a> Printed<'a> {
    fn of(provider: &'a ProviderConfig, limits: Limits) -> Self {
        let mut options = provider.options.clone();
        options.retain(|key, _| !is_secret(key));
        Self {
            kind: provider.kind.as_str(),
            table: provider.table.as_ref(),
            disable: &provider.disable,
            options,
            limits,
        }
    }
}

/// An option that holds a secret itself. One that names a file with it may be shown.
fn is_secret(key: &str) -> bool {
    let words = ["token", "secret", "password", "key"];
    !key.ends_with("_file") && words.iter().any(|word| key.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed_and_paths_to_them_are() {
        for secret in ["api_key", "token", "client_secret", "password"] {
            assert!(is_secret(secret), "{secret}");
        }
        for open in ["api_key_file", "endpoint", "key_count"] {
            assert!(!is_secret(open), "{open}");
        }
    }
}
