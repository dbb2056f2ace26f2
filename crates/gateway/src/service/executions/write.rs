//! Start, signal, cancel, pause, resume, retry now, retry from, purge.

use std::sync::Arc;

use futures::future::BoxFuture;
use stateway_access::{KnownLabels, Object, Permission};
use stateway_model::{DefinitionName, Execution, ExecutionId, ExecutionName, ProviderId};
use stateway_proto::v1;
use stateway_proto::v1::retry_from_request::Origin;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Error, Observation, PauseRequest,
    Provider, PurgeRequest, Result as ProviderResult, ResumeRequest, RetryFromRequest,
    RetryNowRequest, SignalRequest, StartDefinition, StartRequest, Verb,
};
use tonic::{Code, Status};

use super::super::{home, validate};
use super::Executions;
use crate::access::{self, ApiCall};
use crate::convert;
use crate::front::{Peer, ProvenWait};
use crate::parent::Parent;
use crate::quota::{CallerQuota, StreamQuota};
use crate::similar::{self, DEFINITION_NOT_FOUND};
use crate::status::{self, Refusal};
use crate::streams::StreamPermit;
use crate::upstream::{Topic, Upstream};
use crate::watch::Asked;

/// A call of a provider that changes an execution.
type ProviderCall<R> =
    for<'c> fn(&'c dyn Provider, &'c Call, R) -> BoxFuture<'c, ProviderResult<Observation>>;

/// A wait for the end of an execution that was started.
pub(super) struct StartedWait {
    call: ApiCall,
    upstream: Arc<Upstream>,
    started: Execution,
    _permit: WaitPermit,
}

/// The caller of a start that waits for the end of the execution.
pub(super) struct WaitingCaller {
    pub(super) peer: Option<Peer>,
    /// None if callers have no identity.
    pub(super) quota: Option<CallerQuota>,
}

/// The right to wait, among all callers and within the quota of the caller.
struct WaitPermit {
    _permit: StreamPermit,
    _quota: Option<StreamQuota>,
}

impl Executions {
    pub(super) async fn start(
        &self,
        call: ApiCall,
        caller: WaitingCaller,
        request: v1::StartExecutionRequest,
        wait: &mut Option<StartedWait>,
    ) -> Result<v1::Execution, Status> {
        let definition: DefinitionName = request
            .definition
            .parse()
            .map_err(|error| Refusal::invalid("definition", format!("{error}")))?;
        let provider = self.runs(&call, &request.parent, &definition).await?;
        let upstream = self.upstream(&call, &provider)?;
        let labels = validate::labels(request.labels)?;
        let name = definition.to_string();
        let object = Object {
            provider: Some(provider.as_str()),
            definition: Some(&name),
            labels: KnownLabels::All(&labels),
            role: None,
        };
        let what = format!("`{name}` on provider `{provider}` with these labels");
        call.require(Permission::Start, &object, &what)?;
        let start = StartRequest {
            definition: start_definition(&definition),
            options: validate::options(request.options)?,
            execution_id: validate::execution_id(&request.execution_id)?,
            input: request.input.map(convert::payload_from),
            labels,
            delay: validate::delay(request.delay)?,
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        upstream.described(&call).await?;
        if start.delay.is_some() && !upstream.capabilities().start_delayed {
            return Err(without(upstream, "a delayed start"));
        }
        if !start.labels.is_empty() && !upstream.capabilities().labels {
            return Err(without(upstream, "labels"));
        }
        // Before the start: a wait that is refused starts nothing.
        let permit = if request.wait {
            Some(self.wait_permit(&call, &caller)?)
        } else {
            None
        };
        let asked = upstream.asked();
        let guarded = upstream.within(&call);
        let started = guarded.call(Verb::Start, |provider, call| provider.start(call, start));
        match started.await {
            Ok(observation) => {
                let started = self.saw(upstream, observation, asked);
                let shown = call.show_written(started.clone());
                let is_shown = !started.sub_state.is_terminal() && call.access.reads(&started);
                *wait = permit.filter(|_| is_shown).map(|permit| StartedWait {
                    call: call.clone(),
                    upstream: Arc::clone(upstream),
                    started,
                    _permit: permit,
                });
                Ok(shown)
            }
            Err(failed) if failed.error.reason() == DEFINITION_NOT_FOUND => {
                let refused = self.no_definition(upstream, &call, &definition, failed.error);
                Err(refused.await)
            }
            Err(failed) => Err(failed.into()),
        }
    }

    fn wait_permit(&self, call: &ApiCall, caller: &WaitingCaller) -> Result<WaitPermit, Status> {
        let quota = caller.quota.as_ref().map(CallerQuota::open_stream);
        let quota = quota.transpose().map_err(|exceeded| exceeded.status())?;
        Ok(WaitPermit {
            _permit: self.waits.open(caller.peer, call)?,
            _quota: quota,
        })
    }

    /// Waits for the end of an execution that was started. If that fails, the execution is shown as it was
    /// started: the start itself has succeeded. If the access rules change meanwhile, or the proof of the caller
    /// ends, only the name is shown.
    pub(super) async fn finished(
        &self,
        wait: StartedWait,
        proof: Option<ProvenWait>,
    ) -> v1::Execution {
        let StartedWait {
            call,
            upstream,
            started,
            _permit,
        } = wait;
        let waited = self.hub.wait(&upstream, &started.name, &[], call.deadline);
        let waited = tokio::select! {
            biased;
            () = call.access.clone().changed() => return access::name_only(&started.name),
            () = proof_end(proof) => return access::name_only(&started.name),
            waited = waited => waited,
        };
        call.show_written(waited.map_or(started, |waited| waited.execution))
    }

    /// The refusal of a definition that the chosen provider does not have.
    async fn no_definition(
        &self,
        upstream: &Upstream,
        call: &ApiCall,
        definition: &DefinitionName,
        error: Error,
    ) -> Status {
        let Ok(upstream) =
            self.directory
                .of(&call.access, &upstream.id, Topic::PORTABLE_DEFINITIONS)
        else {
            let error = similar::no_native_definition(upstream, call, &definition.id, error).await;
            return status::of_provider(&upstream.id, &error);
        };
        let guarded = upstream.within(call);
        let known = guarded.portable_definitions(Verb::PortableDefinitions, |definitions, call| {
            definitions.portable_revisions(call, &definition.id)
        });
        // A deleted definition is not a misspelt one.
        if !known.await.unwrap_or_default().is_empty() {
            return status::of_provider(&upstream.id, &error);
        }
        similar::no_portable_definition(call, &[upstream], &definition.id)
            .await
            .into()
    }

    pub(super) async fn signal(
        &self,
        call: ApiCall,
        request: v1::SignalExecutionRequest,
    ) -> Result<v1::Execution, Status> {
        let name = self
            .target(
                &call,
                &request.name,
                &request.etag,
                (Permission::Signal, Verb::Signal),
            )
            .await?;
        let signal = SignalRequest {
            id: name.id,
            signal: validate::signal(request.signal)?,
            payload: request.payload.map(convert::payload_from),
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        self.write(&call, &name.provider, Verb::Signal, |provider, call| {
            provider.signal(call, signal)
        })
        .await
    }

    pub(super) async fn cancel(
        &self,
        call: ApiCall,
        request: v1::CancelExecutionRequest,
    ) -> Result<v1::Execution, Status> {
        use v1::Compensation as Choice;
        use v1::cancel_execution_request::Mode;
        let (mode, verb) = match request.mode() {
            Mode::Unspecified | Mode::Graceful => (CancelMode::Graceful, Verb::Cancel),
            Mode::Kill => (CancelMode::Kill, Verb::Kill),
        };
        let compensation = match request.compensation() {
            Choice::Unspecified => CompensationChoice::AsDefined,
            Choice::Compensate => CompensationChoice::Compensate,
            Choice::Skip => CompensationChoice::Skip,
        };
        let chosen = compensation != CompensationChoice::AsDefined;
        if chosen && mode == CancelMode::Kill {
            let message =
                "`compensation` is only allowed with GRACEFUL: a kill compensates nothing";
            return Err(Refusal::invalid("compensation", message).into());
        }
        let name = self
            .target(
                &call,
                &request.name,
                &request.etag,
                (Permission::Stop, verb),
            )
            .await?;
        if chosen {
            let upstream = self.upstream(&call, &name.provider)?;
            upstream.described(&call).await?;
            if !upstream.capabilities().cancel_compensation {
                return Err(without(upstream, "a choice about compensation"));
            }
        }
        let cancel = CancelRequest {
            id: name.id,
            mode,
            compensation,
            comment: validate::text("comment", request.comment)?,
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        self.write(&call, &name.provider, verb, |provider, call| {
            provider.cancel(call, cancel)
        })
        .await
    }

    pub(super) async fn pause(
        &self,
        call: ApiCall,
        request: v1::PauseExecutionRequest,
    ) -> Result<v1::Execution, Status> {
        let target = (&*request.name, &*request.etag, Verb::Pause);
        let pause = |id| {
            Ok(PauseRequest {
                id,
                comment: validate::text("comment", request.comment)?,
                request_id: validate::request_id(&call, &request.request_id)?,
            })
        };
        let send: ProviderCall<_> = |provider, call, pause| provider.pause(call, pause);
        self.steer(&call, target, pause, send).await
    }

    pub(super) async fn resume(
        &self,
        call: ApiCall,
        request: v1::ResumeExecutionRequest,
    ) -> Result<v1::Execution, Status> {
        let target = (&*request.name, &*request.etag, Verb::Resume);
        let resume = |id| {
            let request_id = validate::request_id(&call, &request.request_id)?;
            Ok(ResumeRequest { id, request_id })
        };
        let send: ProviderCall<_> = |provider, call, resume| provider.resume(call, resume);
        self.steer(&call, target, resume, send).await
    }

    pub(super) async fn retry_now(
        &self,
        call: ApiCall,
        request: v1::RetryNowRequest,
    ) -> Result<v1::Execution, Status> {
        let target = (&*request.name, &*request.etag, Verb::RetryNow);
        let retry = |id| {
            Ok(RetryNowRequest {
                id,
                step: validate::text("step", request.step)?,
                request_id: validate::request_id(&call, &request.request_id)?,
            })
        };
        let send: ProviderCall<_> = |provider, call, retry| provider.retry_now(call, retry);
        self.steer(&call, target, retry, send).await
    }

    pub(super) async fn retry_from(
        &self,
        call: ApiCall,
        request: v1::RetryFromRequest,
    ) -> Result<v1::Execution, Status> {
        let target = (&*request.name, &*request.etag, Verb::RetryFrom);
        let retry = |id| {
            let (step, from_start) = match request.origin {
                None => (String::new(), false),
                Some(Origin::Step(step)) => (validate::text("step", step)?, false),
                Some(Origin::Start(())) => (String::new(), true),
            };
            Ok(RetryFromRequest {
                id,
                step,
                input: request.input.map(convert::payload_from),
                feedback: validate::text("feedback", request.feedback)?,
                from_start,
                request_id: validate::request_id(&call, &request.request_id)?,
                execution_id: validate::execution_id(&request.execution_id)?,
            })
        };
        let send: ProviderCall<_> = |provider, call, retry| provider.retry_from(call, retry);
        self.steer(&call, target, retry, send).await
    }

    /// Who is to run a definition. A portable one without a parent runs on its default provider.
    async fn runs(
        &self,
        call: &ApiCall,
        parent: &str,
        definition: &DefinitionName,
    ) -> Result<ProviderId, Status> {
        if !parent.is_empty() || definition.provider.is_some() {
            return provider_of(parent, definition);
        }
        let upstreams = self
            .directory
            .in_order(&call.access, Topic::PORTABLE_DEFINITIONS)?;
        if let [only] = upstreams[..] {
            return Ok(only.id.clone());
        }
        let full = definition.to_string();
        let mut all = upstreams.iter();
        if !all.all(|upstream| call.access.reads_definition(&upstream.id, &full)) {
            // The default provider of a definition that may not be read is not to be learned from a start.
            let named = self
                .directory
                .one(&call.access, "parent", "", Topic::PORTABLE_DEFINITIONS);
            return named.map(|only| only.id.clone());
        }
        let places = home::places(call, &upstreams, &definition.id).await?;
        match places.home {
            Some(home) => Ok(home.upstream.id.clone()),
            None => Err(
                similar::no_portable_definition(call, &upstreams, &definition.id)
                    .await
                    .into(),
            ),
        }
    }

    pub(super) async fn purge(
        &self,
        call: ApiCall,
        request: v1::PurgeExecutionRequest,
    ) -> Result<(), Status> {
        let name = self
            .target(
                &call,
                &request.name,
                &request.etag,
                (Permission::Operate, Verb::Purge),
            )
            .await?;
        let purge = PurgeRequest {
            id: name.id.clone(),
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        let upstream = self.upstream(&call, &name.provider)?;
        let guarded = upstream.within(&call);
        let purged = guarded.call(Verb::Purge, |provider, call| provider.purge(call, purge));
        purged.await?;
        self.hub.lost(&name);
        Ok(())
    }

    /// The execution a write is for, once its caller and its etag have been checked.
    async fn target(
        &self,
        call: &ApiCall,
        name: &str,
        etag: &str,
        (permission, verb): (Permission, Verb),
    ) -> Result<ExecutionName, Status> {
        let name = validate::execution_name("name", name)?;
        self.authorize(call, &name, permission).await?;
        self.check_etag(call, &name, etag, verb).await?;
        Ok(name)
    }

    /// Changes an execution that exists: checks the caller and the etag, makes the request for the provider, and
    /// sends it. `target` is the name, the etag and the verb.
    async fn steer<R: Send>(
        &self,
        call: &ApiCall,
        (name, etag, verb): (&str, &str, Verb),
        request: impl FnOnce(ExecutionId) -> Result<R, Status>,
        send: ProviderCall<R>,
    ) -> Result<v1::Execution, Status> {
        let name = self
            .target(call, name, etag, (Permission::Steer, verb))
            .await?;
        let request = request(name.id)?;
        self.write(call, &name.provider, verb, |provider, call| {
            send(provider, call, request)
        })
        .await
    }

    /// Writes to an execution and shows the change to watchers.
    async fn write<F>(
        &self,
        call: &ApiCall,
        provider: &ProviderId,
        verb: Verb,
        work: F,
    ) -> Result<v1::Execution, Status>
    where
        F: for<'c> FnOnce(&'c dyn Provider, &'c Call) -> BoxFuture<'c, ProviderResult<Observation>>
            + Send,
    {
        let upstream = self.upstream(call, provider)?;
        let asked = upstream.asked();
        let guarded = upstream.within(call);
        let observation = guarded.call(verb, work).await?;
        Ok(self.shown(call, upstream, observation, asked))
    }

    /// The execution after a write that was asked for at `asked`. Watchers get the change
    /// immediately.
    fn shown(
        &self,
        call: &ApiCall,
        upstream: &Upstream,
        observation: Observation,
        asked: Asked,
    ) -> v1::Execution {
        call.show_written(self.saw(upstream, observation, asked))
    }

    /// The execution that an answer shows. Its watchers learn of it.
    fn saw(&self, upstream: &Upstream, observation: Observation, asked: Asked) -> Execution {
        let answer = upstream.sighting(observation);
        self.hub.saw(&answer, asked);
        answer.execution
    }
}

/// Resolves when the proof of a caller ends. Callers that prove nothing have none.
async fn proof_end(proof: Option<ProvenWait>) {
    match proof {
        Some(proof) => proof.ended().await,
        None => std::future::pending().await,
    }
}

/// Who is to run a definition: the parent, or the provider the definition belongs to.
fn provider_of(parent: &str, definition: &DefinitionName) -> Result<ProviderId, Status> {
    let from_parent = match parent {
        "" => None,
        parent => match validate::parent(parent)? {
            Parent::One(id) => Some(id),
            Parent::All => {
                let message = "an execution is started on one provider, not on all of them";
                return Err(Refusal::invalid("parent", message).into());
            }
        },
    };
    match (from_parent, definition.provider.clone()) {
        (Some(parent), Some(native)) if parent != native => {
            let message = format!("a definition of provider `{native}` cannot run on `{parent}`");
            Err(Refusal::invalid("definition", message).into())
        }
        (Some(id), _) | (None, Some(id)) => Ok(id),
        (None, None) => {
            let message = "a portable definition needs a `parent` to run on";
            Err(Refusal::invalid("parent", message).into())
        }
    }
}

fn without(upstream: &Upstream, what: &str) -> Status {
    let message = format!("provider {} does not support {what}", upstream.id);
    Refusal::new(Code::Unimplemented, "CAPABILITY_NOT_SUPPORTED", message)
        .with("provider", upstream.id.to_string())
        .hint("{GetProvider} lists the capabilities of each provider.")
        .into()
}

/// What a start runs. A provider that stores portable definitions itself needs no source.
fn start_definition(name: &DefinitionName) -> StartDefinition {
    let id = name.id.to_string();
    match name.provider {
        Some(_) => StartDefinition::Native(id),
        None => StartDefinition::Portable { id, source: None },
    }
}
