//! The built-in engines behind the gateway, by the provider that each stands behind.
//!
//! What every engine can do goes through `Provider`. What only the built-in one has (definitions,
//! people, workers, its store) goes through its handle, and here is where it is found.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;

use prost::Message;
use stateway_engine::{Engine, EngineError, RequestDigest, RequestKey};
use stateway_model::ProviderId;
use stateway_provider_api::{Call, RequestId};
use tonic::{Code, Status};

use crate::parent::Parent;
use crate::service::executions::provider_named;
use crate::status::{self, Refusal};
use crate::upstream::Upstreams;

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
            Err(_) => Err(status::no_answer(self.id)),
        }
    }

    /// The answer to a client when the engine refuses or fails.
    pub(crate) fn refused(&self, error: &EngineError) -> Status {
        status::of_engine(self.id, error)
    }
}

/// The key of a request: its id, and a digest of method, caller and body. `body` must not contain the
/// id.
pub(crate) fn request_key(
    id: &RequestId,
    method: &str,
    call: &Call,
    body: &impl Message,
) -> RequestKey {
    RequestDigest::new(method, &call.actor)
        .bytes(&body.encode_to_vec())
        .key(id.as_str())
}
