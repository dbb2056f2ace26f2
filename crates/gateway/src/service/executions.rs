//! `stateway.v1.Executions`.

mod adopt;
mod count;
mod handlers;
mod lineage;
mod project;
mod read;
mod step;
mod write;

pub(crate) use read::page_token_refused;
pub(crate) use step::attempt;

use std::sync::Arc;

use stateway_model::{Execution, ExecutionName, ProviderId};
use stateway_provider_api::{Call, Error, ErrorKind, Verb, View};
use tonic::{Code, Status};

use super::Shell;
use crate::engines::Directory;
use crate::status::{self, Refusal};
use crate::token::Sealer;
use crate::upstream::{Upstream, Upstreams};
use crate::watch::Hub;

/// The service over every configured provider.
pub(crate) struct Executions {
    pub(crate) shell: Arc<Shell>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) directory: Arc<Directory>,
}

impl Executions {
    fn upstream(&self, id: &ProviderId) -> Result<&Arc<Upstream>, Status> {
        provider_named(&self.upstreams, id)
    }

    /// One execution as its provider shows it now.
    pub(crate) async fn read(
        &self,
        call: &Call,
        name: &ExecutionName,
        view: View,
    ) -> Result<Execution, Status> {
        let upstream = self.upstream(&name.provider)?;
        let call = upstream.bounded(call);
        let work = upstream.provider().get(&call, &name.id, view);
        let observation = upstream.guard(Verb::Get, &call, work).await;
        let observation = observation.map_err(|error| status::of_provider(&upstream.id, &error))?;
        Ok(upstream.execution(observation))
    }

    /// Refuses a write whose etag is not the execution's any more. Not atomic with the write: it
    /// catches whoever decided on stale facts, not two who decide in the same instant.
    async fn check_etag(
        &self,
        call: &Call,
        name: &ExecutionName,
        etag: &str,
        verb: Verb,
    ) -> Result<(), Status> {
        if etag.is_empty() {
            return Ok(());
        }
        let current = self.read(call, name, View::Basic).await?;
        if current.etag() == etag {
            return Ok(());
        }
        let message = format!("it has changed meanwhile and is {} now", current.sub_state);
        let error =
            Error::new(ErrorKind::Conflict, verb, message).with_hint("Read it again, then decide.");
        Err(status::of_provider(&name.provider, &error))
    }
}

/// The provider with this id, or the refusal that names those there are.
pub(crate) fn provider_named<'u>(
    upstreams: &'u Upstreams,
    id: &ProviderId,
) -> Result<&'u Arc<Upstream>, Status> {
    upstreams.get(id).ok_or_else(|| {
        let known: Vec<_> = upstreams.keys().map(ProviderId::as_str).collect();
        Refusal::new(
            Code::NotFound,
            "PROVIDER_NOT_FOUND",
            format!("no provider `{id}`"),
        )
        .with("provider", id.to_string())
        .hint(format!("Configured: {}.", known.join(", ")))
        .into()
    })
}
