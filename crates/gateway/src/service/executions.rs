//! `stateway.v1.Executions`.

mod adopt;
mod count;
mod handlers;
mod lineage;
mod newest;
mod payload;
mod project;
mod read;
mod step;
mod write;

pub(crate) use read::page_token_refused;
pub(crate) use step::attempt;

use std::sync::Arc;

use stateway_access::Permission;
use stateway_model::{Execution, ExecutionName, ProviderId, SubState};
use stateway_provider_api::{Error, ErrorKind, Observation, Precondition, Verb, View};
use tonic::{Code, Status};

use super::Shell;
use crate::access::ApiCall;
use crate::status::{self, Refusal};
use crate::streams::StreamPool;
use crate::token::Sealer;
use crate::upstream::{Directory, Upstream, Upstreams, named};
use crate::watch::Hub;

/// The service over every configured provider.
pub(crate) struct Executions {
    pub(crate) shell: Arc<Shell>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) watches: Arc<StreamPool>,
    pub(crate) waits: Arc<StreamPool>,
}

impl Executions {
    fn upstream(&self, call: &ApiCall, id: &ProviderId) -> Result<&Arc<Upstream>, Status> {
        named(&call.access, &self.upstreams, id)
    }

    /// Refuses a caller without a permission for an execution. Nothing is read where the rules allow it
    /// whatever the execution is; otherwise the same is read for an execution that does not exist and
    /// for one that the caller may not know of.
    pub(crate) async fn authorize(
        &self,
        call: &ApiCall,
        name: &ExecutionName,
        permission: Permission,
    ) -> Result<(), Status> {
        self.upstream(call, &name.provider)?;
        if call.has_all(permission, &name.provider) {
            return Ok(());
        }
        let found = self.read(call, name, View::Basic).await?;
        call.require_execution(permission, &found)
    }

    /// Refuses a caller that may not read an execution; otherwise, whether its payloads may be read.
    pub(crate) async fn authorize_read(
        &self,
        call: &ApiCall,
        name: &ExecutionName,
    ) -> Result<bool, Status> {
        self.upstream(call, &name.provider)?;
        if call
            .access
            .has_all(Permission::ReadPayloads, &name.provider)
        {
            return Ok(true);
        }
        let found = self.read(call, name, View::Basic).await?;
        call.require_execution(Permission::Read, &found)?;
        Ok(call.access.reads_payloads(&found))
    }

    /// One execution as its provider shows it now.
    pub(crate) async fn read(
        &self,
        call: &ApiCall,
        name: &ExecutionName,
        view: View,
    ) -> Result<Execution, Status> {
        let (upstream, observation) = self.observe(call, name, view).await?;
        Ok(upstream.execution(*observation))
    }

    /// One execution as its engine shows it now, and its provider.
    async fn observe(
        &self,
        call: &ApiCall,
        name: &ExecutionName,
        view: View,
    ) -> Result<(&Upstream, Box<Observation>), Status> {
        let upstream = self.upstream(call, &name.provider)?;
        let guarded = upstream.within(call);
        let observation = guarded.call_boxed(Verb::Get, |provider, call| {
            provider.get(call, &name.id, view)
        });
        match observation.await {
            Ok(observation) => Ok((upstream, observation)),
            Err(failed) if failed.error.kind == ErrorKind::NotFound => {
                Err(call.absent(name).unwrap_or_else(|| failed.into()))
            }
            Err(failed) => Err(failed.into()),
        }
    }

    /// Compares an etag with the execution's. The provider refuses a request whose etag is not current,
    /// unless it is a repetition.
    pub(crate) async fn precondition(
        &self,
        call: &ApiCall,
        name: &ExecutionName,
        etag: &str,
    ) -> Result<Precondition, Status> {
        if etag.is_empty() {
            return Ok(Precondition::None);
        }
        let current = self.current_etag(call, name).await?.0;
        Ok(if current == etag {
            Precondition::Holds
        } else {
            Precondition::Broken
        })
    }

    /// Refuses a write whose etag is not the execution's any more. Not atomic with the write: it
    /// detects decisions on stale data, not two simultaneous decisions.
    async fn check_etag(
        &self,
        call: &ApiCall,
        name: &ExecutionName,
        etag: &str,
        verb: Verb,
    ) -> Result<(), Status> {
        if etag.is_empty() {
            return Ok(());
        }
        let (current, sub_state) = self.current_etag(call, name).await?;
        if current == etag {
            return Ok(());
        }
        let message = match sub_state {
            Some(sub_state) => format!("the execution has changed and is now {sub_state}"),
            None => "the execution has changed".to_owned(),
        };
        let error = Error::new(ErrorKind::Conflict, verb, message)
            .with_hint("Read the execution again, then decide.");
        Err(status::of_provider(&name.provider, &error))
    }

    /// The etag of an execution now, and its sub-state if the caller may read the execution. An execution of which
    /// the provider has read only a part has no etag, so whether it has changed is not known.
    async fn current_etag(
        &self,
        call: &ApiCall,
        name: &ExecutionName,
    ) -> Result<(String, Option<SubState>), Status> {
        let current = self.read(call, name, View::Basic).await?;
        match current.etag() {
            etag if etag.is_empty() => Err(no_etag(name)),
            etag => {
                let is_readable = call.access.reads(&current);
                Ok((etag, is_readable.then_some(current.sub_state)))
            }
        }
    }
}

fn no_etag(name: &ExecutionName) -> Status {
    let message = format!(
        "`{name}` has no etag now: the provider has read only a part of its history, so it is unknown whether the execution has changed"
    );
    Refusal::new(Code::Aborted, "ETAG_NOT_AVAILABLE", message)
        .with("provider", name.provider.to_string())
        .hint("Read the execution, then write again; without an etag if it still has none.")
        .into()
}
