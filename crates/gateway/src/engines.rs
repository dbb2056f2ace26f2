//! The built-in engines behind the gateway, by the provider that each stands behind.
//!
//! What every engine can do goes through `Provider`. What only the built-in one has (definitions,
//! people, workers, its store) goes through its handle, and here is where it is found.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use prost::Message;
use sha2::{Digest, Sha256};
use stateway_engine::{Engine, EngineError, ErrorKind, RequestKey};
use stateway_model::ProviderId;
use stateway_provider_api::{Call, RequestId};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::parent::Parent;
use crate::service::executions::provider_named;
use crate::status::{DOMAIN, Refusal};
use crate::upstream::Upstreams;

/// How long a caller should pause before it asks an engine again that could not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// One built-in engine, and what the gateway has to know beside it.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    /// The engine.
    pub engine: Engine,
    /// Where backups go; without it there are none.
    pub backups: Option<PathBuf>,
}

/// Every built-in engine, by the id of its provider.
pub type Engines = BTreeMap<ProviderId, BuiltIn>;

/// One engine that a request is for.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<'e> {
    pub(crate) id: &'e ProviderId,
    pub(crate) engine: &'e Engine,
    pub(crate) backups: Option<&'e PathBuf>,
}

/// Where a request finds its engine.
pub(crate) struct Directory {
    pub(crate) engines: Engines,
    pub(crate) upstreams: std::sync::Arc<Upstreams>,
}

impl Directory {
    /// The engine behind a provider; a provider of another kind cannot do `what`.
    pub(crate) fn of(&self, id: &ProviderId, what: &str) -> Result<Chosen<'_>, Status> {
        if let Some((id, built_in)) = self.engines.get_key_value(id) {
            return Ok(chosen(id, built_in));
        }
        let upstream = provider_named(&self.upstreams, id)?;
        let message = format!(
            "provider {id} is of kind {} and does not offer {what}",
            upstream.kind
        );
        Err(
            Refusal::new(Code::Unimplemented, "CAPABILITY_NOT_SUPPORTED", message)
                .with("provider", id.to_string())
                .hint("Only providers of kind `builtin` do.")
                .into(),
        )
    }

    /// The engine of `providers/{provider}`, or the only one when nothing is said.
    pub(crate) fn one(
        &self,
        field: &'static str,
        name: &str,
        what: &str,
    ) -> Result<Chosen<'_>, Status> {
        if !name.is_empty() {
            let id = name.strip_prefix("providers/").ok_or_else(|| {
                let message = format!("`{field}` is not of the form `providers/{{provider}}`");
                Status::from(Refusal::invalid(field, message))
            })?;
            let id = id
                .parse()
                .map_err(|error| Refusal::invalid(field, format!("{error}")))?;
            return self.of(&id, what);
        }
        let mut engines = self.engines.iter();
        match (engines.next(), engines.next()) {
            (Some((id, built_in)), None) => Ok(chosen(id, built_in)),
            (None, _) => Err(Refusal::unsupported(what).into()),
            (Some(_), Some(_)) => {
                let known: Vec<_> = self.engines.keys().map(ProviderId::resource_name).collect();
                let message = format!("`{field}` must say which provider is meant");
                Err(Refusal::invalid(field, message)
                    .hint(format!("These can be: {}.", known.join(", ")))
                    .into())
            }
        }
    }

    /// The engines that a parent covers; none at all is a refusal.
    pub(crate) fn under(&self, parent: &Parent, what: &str) -> Result<Vec<Chosen<'_>>, Status> {
        match parent {
            Parent::One(id) => Ok(vec![self.of(id, what)?]),
            Parent::All if self.engines.is_empty() => Err(Refusal::unsupported(what).into()),
            Parent::All => Ok(self.engines.iter().map(|(id, b)| chosen(id, b)).collect()),
        }
    }

    /// Every engine; none at all is a refusal.
    pub(crate) fn all(&self, what: &str) -> Result<Vec<Chosen<'_>>, Status> {
        self.under(&Parent::All, what)
    }
}

const fn chosen<'e>(id: &'e ProviderId, built_in: &'e BuiltIn) -> Chosen<'e> {
    Chosen {
        id,
        engine: &built_in.engine,
        backups: built_in.backups.as_ref(),
    }
}

impl Chosen<'_> {
    /// Waits for the engine's answer, within the call's deadline.
    pub(crate) async fn answer<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, Status> {
        match tokio::time::timeout_at(call.deadline.into(), work).await {
            Ok(answer) => answer.map_err(|error| self.refused(&error)),
            Err(_) => Err(Refusal::new(
                Code::DeadlineExceeded,
                "PROVIDER_TIMEOUT",
                format!("provider {}: no answer in time", self.id),
            )
            .with("provider", self.id.to_string())
            .retry_after(PAUSE)
            .into()),
        }
    }

    /// The engine's no, told to a client.
    pub(crate) fn refused(&self, error: &EngineError) -> Status {
        let mut metadata =
            std::collections::HashMap::from([("provider".to_owned(), self.id.to_string())]);
        if !error.hint.is_empty() {
            metadata.insert("hint".to_owned(), error.hint.clone());
        }
        for (key, value) in &error.metadata {
            metadata.insert((*key).to_owned(), value.clone());
        }
        let mut details = ErrorDetails::new();
        details.set_error_info(error.reason, DOMAIN, metadata);
        if matches!(error.kind, ErrorKind::Busy | ErrorKind::Unavailable) {
            details.set_retry_info(Some(PAUSE));
        }
        let message = format!("provider {}: {}", self.id, error.message);
        Status::with_error_details(code(error.kind), message, details)
    }
}

/// The gRPC code of each kind of no.
const fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::FailedPrecondition => Code::FailedPrecondition,
        ErrorKind::Forbidden => Code::PermissionDenied,
        ErrorKind::Conflict => Code::Aborted,
        ErrorKind::Busy => Code::ResourceExhausted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Corrupt => Code::DataLoss,
    }
}

/// What makes a repetition of a write one request: its id, and a digest of method, author and
/// body. `body` must not hold the id.
pub(crate) fn request_key(
    id: &RequestId,
    method: &str,
    call: &Call,
    body: &impl Message,
) -> RequestKey {
    let mut digest = Sha256::new();
    for part in [method.as_bytes(), call.actor.as_bytes()] {
        digest.update(part);
        digest.update([0]);
    }
    digest.update(body.encode_to_vec());
    let mut short = [0; 16];
    short.copy_from_slice(&digest.finalize()[..16]);
    RequestKey {
        id: id.as_str().into(),
        body: short,
    }
}
