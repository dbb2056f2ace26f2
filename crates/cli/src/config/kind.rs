//! The kinds of providers, and which of them this build supports.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use stateway_engine::HttpClient;
use stateway_gateway::UpstreamSettings;
use stateway_model::ProviderId;
use stateway_provider_api::{Provider, Table};
use stateway_provider_builtin as builtin;
use stateway_provider_memory as memory;
use stateway_provider_remote as remote;
use stateway_provider_restate as restate;
use stateway_provider_step_functions as step_functions;
use stateway_provider_temporal as temporal;
use thiserror::Error;
use toml::de::{DeTable, Deserializer};

/// A kind of provider that this build can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The durable engine that comes with the gateway.
    Builtin,
    /// The reference provider, in memory.
    Memory,
    /// A provider in another process.
    Remote,
    /// A Restate server.
    Restate,
    /// Portable executions inside a Restate server.
    RestateHost,
    /// AWS Step Functions.
    StepFunctions,
    /// Portable executions on AWS Step Functions.
    StepFunctionsHost,
    /// A namespace of a Temporal cluster.
    Temporal,
    /// Portable executions inside a namespace of a Temporal cluster.
    TemporalHost,
}

/// Why a provider cannot be made.
pub(crate) enum Unmade {
    /// By something that was configured.
    Setting(String),
    /// By its store.
    Store(StoreFailure),
}

/// An error of a store.
pub(crate) struct StoreFailure {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// The default path of the built-in engine's store.
pub(crate) const BUILT_IN_STORE: &str = builtin::Config::PATH;

/// Whether the settings of a store in a database can be used. The database is not asked.
pub(crate) fn check_shared_store(options: &toml::Table) -> Result<(), String> {
    let config = builtin::Config::deserialize(options.clone());
    let config = config.map_err(|error| error.to_string())?;
    config.engine().map(drop).map_err(|error| error.to_string())
}

impl From<String> for Unmade {
    fn from(message: String) -> Self {
        Self::Setting(message)
    }
}

impl From<builtin::ConfigError> for Unmade {
    fn from(error: builtin::ConfigError) -> Self {
        let builtin::ConfigError::Store { path, error } = error else {
            return Self::Setting(error.to_string());
        };
        let error = *error;
        // Most messages name the file already.
        let message = if error.message.contains(&path) {
            error.message
        } else {
            format!("{path}: {}", error.message)
        };
        Self::Store(StoreFailure {
            reason: error.reason,
            message,
            hint: error.hint.into(),
        })
    }
}

/// Why a kind cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KindError {
    /// There is no such kind.
    #[error("`{0}` is not a kind of provider; supported kinds: {known}", known = known())]
    Unknown(String),
}

impl Kind {
    /// Every kind of this build.
    pub const ALL: &'static [Self] = &[
        Self::Builtin,
        Self::Memory,
        Self::Remote,
        Self::Restate,
        Self::RestateHost,
        Self::StepFunctions,
        Self::StepFunctionsHost,
        Self::Temporal,
        Self::TemporalHost,
    ];

    /// Whether `stateway host` serves a provider of this kind.
    #[must_use]
    pub(crate) const fn has_host(self) -> bool {
        matches!(self, Self::RestateHost | Self::TemporalHost)
    }

    /// The word in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Memory => "memory",
            Self::Remote => "remote",
            Self::Restate => "restate",
            Self::RestateHost => "restate-host",
            Self::StepFunctions => "step-functions",
            Self::StepFunctionsHost => "step-functions-host",
            Self::Temporal => "temporal",
            Self::TemporalHost => "temporal-host",
        }
    }

    /// The table of its states. An execution of the machine has the states of the built-in engine
    /// wherever it runs.
    #[must_use]
    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::RestateHost | Self::StepFunctionsHost | Self::TemporalHost => {
                Self::Builtin.as_str()
            }
            _ => self.as_str(),
        }
    }

    /// The default of the maximum number of concurrent calls. A provider inside this process
    /// needs no protection.
    #[must_use]
    pub fn max_concurrent(self) -> usize {
        match self {
            Self::Builtin | Self::Memory => 4_096,
            Self::Remote
            | Self::Restate
            | Self::RestateHost
            | Self::StepFunctions
            | Self::StepFunctionsHost
            | Self::Temporal
            | Self::TemporalHost => UpstreamSettings::default().max_concurrent,
        }
    }

    /// The longest poll interval of a quiet execution, if it differs from `[limits]`: on Restate,
    /// one cheap query reads all watched executions.
    pub(super) const fn max_poll_interval(self) -> Option<Duration> {
        match self {
            Self::Restate | Self::RestateHost => Some(Duration::from_secs(1)),
            Self::Builtin
            | Self::Memory
            | Self::Remote
            | Self::StepFunctions
            | Self::StepFunctionsHost
            | Self::Temporal
            | Self::TemporalHost => None,
        }
    }

    /// Checks the options of a provider of this kind, places included.
    pub(super) fn check(self, options: toml::Spanned<DeTable<'_>>) -> Result<(), toml::de::Error> {
        match self {
            Self::Builtin => builtin::Config::deserialize(Deserializer::from(options)).map(drop),
            Self::Memory => memory::Config::deserialize(Deserializer::from(options)).map(drop),
            Self::Remote => remote::Config::deserialize(Deserializer::from(options)).map(drop),
            Self::Restate => restate::Config::deserialize(Deserializer::from(options)).map(drop),
            Self::RestateHost => {
                restate::HostConfig::deserialize(Deserializer::from(options)).map(drop)
            }
            Self::StepFunctions => {
                step_functions::Config::deserialize(Deserializer::from(options)).map(drop)
            }
            Self::StepFunctionsHost => {
                step_functions::HostConfig::deserialize(Deserializer::from(options)).map(drop)
            }
            Self::Temporal => temporal::Config::deserialize(Deserializer::from(options)).map(drop),
            Self::TemporalHost => {
                temporal::HostConfig::deserialize(Deserializer::from(options)).map(drop)
            }
        }
    }

    /// Makes a provider of this kind. A `remote` provider reports its own state table: then `table`
    /// has only the configured rows that overlay the reported table, if any.
    pub(crate) fn make(
        self,
        id: &ProviderId,
        table: Option<Arc<Table>>,
        options: toml::Table,
        max_message_bytes: usize,
    ) -> Result<Arc<dyn Provider>, Unmade> {
        let table = match (self, table) {
            (Self::Remote, overlay) => return make_remote(id, overlay, options),
            (_, Some(table)) => table,
            (_, None) => return Err(Unmade::Setting("the provider has no table".to_owned())),
        };
        Ok(match self {
            Self::Remote => return make_remote(id, Some(table), options),
            Self::Builtin => {
                let config = builtin::Config::deserialize(options);
                let mut config = config.map_err(|error| error.to_string())?;
                config.max_message_bytes = max_message_bytes;
                let provider = builtin::BuiltinProvider::new(id, &config, table)?;
                Arc::new(provider)
            }
            Self::Memory => {
                let config = memory::Config::deserialize(options);
                let config = config.map_err(|error| error.to_string())?;
                let provider = memory::MemoryProvider::new(id.clone(), &config, table);
                Arc::new(provider.map_err(|error| error.to_string())?)
            }
            Self::Restate => {
                let config = restate::Config::deserialize(options);
                let config = config.map_err(|error| error.to_string())?;
                let provider = restate::RestateProvider::new(id.clone(), &config, table);
                Arc::new(provider.map_err(|error| error.to_string())?)
            }
            Self::RestateHost => {
                let config = restate::HostConfig::deserialize(options);
                let config = config.map_err(|error| error.to_string())?;
                let provider = restate::hosted_provider(&config, table);
                let provider = provider.map_err(|error| error.to_string())?;
                Arc::new(match http_steps(&config.http)? {
                    Some(steps) => provider.with_http(steps),
                    None => provider,
                })
            }
            Self::StepFunctions => {
                let config = step_functions::Config::deserialize(options);
                let config = config.map_err(|error| error.to_string())?;
                let provider =
                    step_functions::StepFunctionsProvider::new(id.clone(), &config, table);
                Arc::new(provider.map_err(|error| error.to_string())?)
            }
            Self::StepFunctionsHost => {
                let config = step_functions::HostConfig::deserialize(options);
                let config = config.map_err(|error| error.to_string())?;
                let provider = step_functions::hosted_provider(&config, table);
                let provider = provider.map_err(|error| error.to_string())?;
                Arc::new(match http_steps(&config.http)? {
                    Some(steps) => provider.with_http(steps),
                    None => provider,
                })
            }
            Self::Temporal => {
                let config = temporal::Config::deserialize(options);
                let config = config.map_err(|error| error.to_string())?;
                let provider = temporal::TemporalProvider::new(id.clone(), &config, table);
                Arc::new(provider.map_err(|error| error.to_string())?)
            }
            Self::TemporalHost => {
                let config = temporal::HostConfig::deserialize(options);
                let config = config.map_err(|error| error.to_string())?;
                let provider = temporal::hosted_provider(&config, table);
                let provider = provider.map_err(|error| error.to_string())?;
                Arc::new(match http_steps(&config.http)? {
                    Some(steps) => provider.with_http(steps),
                    None => provider,
                })
            }
        })
    }
}

/// What makes the calls of HTTP steps of hosted executions; none where no address is allowed. It is the client
/// of the built-in engine, so the same rules apply.
fn http_steps(http: &builtin::Http) -> Result<Option<restate::HttpSteps>, Unmade> {
    if http.allow.is_empty() {
        return Ok(None);
    }
    let settings = builtin::http_settings(http).map_err(|error| error.to_string())?;
    let client = HttpClient::new(&settings).map_err(|error| error.to_string())?;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(Unmade::Setting(
            "HTTP steps need a Tokio runtime".to_owned(),
        ));
    }
    Ok(Some(restate::HttpSteps {
        capacity: client.capacity(),
        call: Arc::new(move |attempt| {
            let (client, limit) = (client.clone(), attempt.limit);
            let (request, input, key) = (attempt.request, attempt.input, attempt.key);
            Box::pin(async move { client.call(request, input, key, limit).await })
        }),
    }))
}

fn make_remote(
    id: &ProviderId,
    overlay: Option<Arc<Table>>,
    options: toml::Table,
) -> Result<Arc<dyn Provider>, Unmade> {
    let config = remote::Config::deserialize(options).map_err(|error| error.to_string())?;
    let provider = remote::RemoteProvider::new(id.clone(), &config, overlay);
    Ok(Arc::new(provider.map_err(|error| error.to_string())?))
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(word: &str) -> Result<Self, KindError> {
        let known = Self::ALL.iter().copied().find(|kind| kind.as_str() == word);
        known.ok_or_else(|| KindError::Unknown(word.to_owned()))
    }
}

fn known() -> String {
    Kind::ALL
        .iter()
        .map(|kind| kind.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_is_refused_with_those_that_are_known() {
        let error = "mem".parse::<Kind>().unwrap_err();
        assert_eq!(error, KindError::Unknown("mem".into()));
        let known = "kinds: builtin, memory, remote, restate, restate-host, step-functions, \
             step-functions-host, temporal, temporal-host";
        assert!(error.to_string().ends_with(known), "{error}");
    }

    #[test]
    fn every_kind_has_a_table_but_remote() {
        for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Remote) {
            assert!(stateway_provider_api::table::compiled_in(kind.table()).is_some());
        }
    }
}
