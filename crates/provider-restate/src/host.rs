//! Portable executions that a host of Stateway runs inside Restate.
//!
//! Requests go to the objects `stateway.Execution` and `stateway.Definition` through the ingress. Reads
//! are queries on the stored values of these objects, so they work while no host runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use stateway_hosted::definition_object::CURRENT;
use stateway_hosted::message::{DEFINITION_OBJECT, EXECUTION_OBJECT};
use stateway_hosted::object::{MAX_VALUE_BYTES, VIEW};
use stateway_hosted::portability::EngineLimits;
pub use stateway_hosted::provider::HttpSteps;
use stateway_hosted::provider::{HostPort, HostedProvider, ObjectKind, StoredValue, ViewQuery};
use stateway_model::Payload;
use stateway_provider_api::{Call, Error, ErrorKind, Health, Result, Table, Verb};

use crate::client::{Client, Send};
use crate::error::{Api, refusal};
use crate::host_sql as sql;
use crate::reader::Reader;
use crate::sql::PROBE;
use crate::{Config, ConfigError, HostConfig};

/// A provider of portable executions inside Restate.
pub type RestateHostedProvider = HostedProvider<RestatePort>;

/// A provider on this server. Nothing is asked of the server yet.
///
/// # Errors
/// A configuration that cannot be used.
pub fn hosted_provider(
    config: &HostConfig,
    table: Arc<Table>,
) -> std::result::Result<RestateHostedProvider, ConfigError> {
    let provider = HostedProvider::new(RestatePort::new(&config.restate())?, table);
    Ok(provider.with_escalation_roles(config.roles()?))
}

/// A Restate server with a host.
pub struct RestatePort {
    reader: Reader,
}

impl RestatePort {
    fn new(config: &Config) -> std::result::Result<Self, ConfigError> {
        Ok(Self {
            reader: Reader::new(Client::new(config)?),
        })
    }

    async fn rows(&self, call: &Call, verb: Verb, query: &str) -> Result<Vec<StoredValue>> {
        #[derive(Deserialize)]
        struct Row {
            service_key: String,
            key: String,
            #[serde(default)]
            value_utf8: String,
        }
        let rows: Vec<Row> = self.reader.client.query(call, verb, query).await?;
        let rows = rows.into_iter().map(|row| StoredValue {
            object: row.service_key,
            key: row.key,
            value: row.value_utf8.into_bytes(),
        });
        Ok(rows.collect())
    }
}

const fn service(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Execution => EXECUTION_OBJECT,
        ObjectKind::Definition => DEFINITION_OBJECT,
    }
}

#[async_trait]
impl HostPort for RestatePort {
    fn has_schedules(&self) -> bool {
        true
    }

    fn limits(&self) -> EngineLimits {
        EngineLimits {
            engine: "Restate",
            state_bytes: Some(MAX_VALUE_BYTES),
            ..EngineLimits::default()
        }
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let (engine_version, _) = self.reader.ask_server(call, Verb::Health).await?;
        let client = &self.reader.client;
        // For a moment after its start a server answers everything but queries.
        let _: Vec<serde_json::Value> = client.query(call, Verb::Health, PROBE).await?;
        let path = ["services", EXECUTION_OBJECT];
        let found = client.admin_get(call, Verb::Health, &path).await?;
        let detail = match found.status {
            404 => "no host is registered, so every write fails: run `stateway host`".to_owned(),
            _ => String::new(),
        };
        Ok(Health {
            engine_version,
            detail,
        })
    }

    async fn send(
        &self,
        call: &Call,
        verb: Verb,
        (kind, key): (ObjectKind, &str),
        request: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let server = self.reader.server(call, verb).await?;
        let service = service(kind);
        let path: &[&str] = if server.version.has_new_ingress() {
            &["restate", "call", service, key, "command"]
        } else {
            &[service, key, "command"]
        };
        let payload = Payload::json(request);
        let send = Send {
            payload: Some(&payload),
            ..Send::default()
        };
        let client = &self.reader.client;
        let answer = client.ingress_post(call, verb, path, send).await?;
        match answer.status {
            200..=299 => Ok(answer.body.to_vec()),
            404 => Err(Error::new(
                ErrorKind::Unavailable,
                verb,
                "no host is registered with Restate",
            )
            .with_reason("HOST_NOT_REGISTERED")
            .with_component("host")
            .with_retry_after(Duration::from_secs(1))
            .with_hint("Run `stateway host` for this provider. Reads work without it.")),
            _ => Err(refusal(verb, Api::Ingress, &answer)),
        }
    }

    async fn values(
        &self,
        call: &Call,
        verb: Verb,
        (kind, objects): (ObjectKind, &[&str]),
        key: &str,
    ) -> Result<Vec<StoredValue>> {
        let mut found = Vec::new();
        for objects in objects.chunks(sql::MOST_OBJECTS) {
            let query = sql::values(service(kind), objects, key);
            found.extend(self.rows(call, verb, &query).await?);
        }
        Ok(found)
    }

    async fn values_from(
        &self,
        call: &Call,
        verb: Verb,
        (kind, object): (ObjectKind, &str),
        (prefix, from, limit): (&str, &str, usize),
    ) -> Result<Vec<StoredValue>> {
        let query = sql::values_from((service(kind), object), prefix, from, limit);
        self.rows(call, verb, &query).await
    }

    async fn views(&self, call: &Call, verb: Verb, query: &ViewQuery) -> Result<Vec<StoredValue>> {
        let query = sql::views((EXECUTION_OBJECT, VIEW), query);
        self.rows(call, verb, &query).await
    }

    async fn counts(&self, call: &Call) -> Result<Vec<(String, u64)>> {
        #[derive(Deserialize)]
        struct Row {
            #[serde(default)]
            word: String,
            total: u64,
        }
        let query = sql::counts((EXECUTION_OBJECT, VIEW));
        let client = &self.reader.client;
        let rows: Vec<Row> = client.query(call, Verb::Count, &query).await?;
        Ok(rows.into_iter().map(|row| (row.word, row.total)).collect())
    }

    async fn definitions(
        &self,
        call: &Call,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredValue>> {
        let query = sql::definitions((DEFINITION_OBJECT, CURRENT), after, limit);
        self.rows(call, Verb::PortableDefinitions, &query).await
    }
}

/// Registers the address of a host with the admin API of Restate. Registering it again changes nothing.
///
/// # Errors
/// Restate does not answer, cannot reach the host, or refuses the deployment.
pub async fn register_deployment(
    config: &Config,
    address: &str,
    patience: Duration,
) -> std::result::Result<(), RegisterError> {
    let client = Client::new(config)?;
    let call = Call::within(patience);
    let body = serde_json::json!({"uri": address, "force": false});
    let answer = client.admin_post(&call, Verb::Health, &["deployments"], &body);
    let answer = answer.await.map_err(RegisterError::Failed)?;
    // A conflict is a deployment at this address that is registered already.
    if answer.is_success() || answer.status == 409 {
        return Ok(());
    }
    Err(RegisterError::Failed(refusal(
        Verb::Health,
        Api::Admin,
        &answer,
    )))
}

/// Why a host could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The configuration cannot be used; trying again does not help.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Restate refused or did not answer.
    #[error("{}", .0.message)]
    Failed(Error),
}
