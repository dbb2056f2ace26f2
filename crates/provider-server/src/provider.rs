//! `stateway.provider.v1.Provider`: each method is translate, call, translate.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use stateway_provider_api::{
    Call, DefinitionsRequest, Error, ListRequest, Provider, Verb, WatchScope,
};
use stateway_wire::v1::provider_server::Provider as Service;
use stateway_wire::v1::watch_executions_request::Scope;
use stateway_wire::{MAX_OBSERVED, Misfit, convert, deadline, status_of, v1};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::Source;
use crate::stop::Stop;
use crate::watch::{Responses, responses};

/// How long a call without a deadline may take.
const BUDGET: Duration = Duration::from_secs(30);
/// The longest that any call may take.
const LONGEST: Duration = Duration::from_secs(600);

pub(crate) struct ProviderService {
    pub(crate) source: Arc<dyn Source>,
}

type Answer<T> = Result<Response<T>, Status>;

fn call(metadata: &MetadataMap, context: Option<v1::CallContext>) -> Call {
    let budget = deadline(metadata).unwrap_or(BUDGET).min(LONGEST);
    convert::read_call(context, budget)
}

fn misfit(misfit: &Misfit) -> Status {
    Status::invalid_argument(misfit.to_string())
}

#[allow(clippy::needless_pass_by_value)] // The form that `map_err` asks for.
fn failed(error: Error) -> Status {
    status_of(&error)
}

/// A method that asks for one verb: its request and its answer are converted by these functions. Written
/// out, because the attribute of the trait does not see into macros.
macro_rules! verbs {
    ($( $method:ident($Request:ident) -> $Response:ident:
        $read:expr, $verb:ident, $write:expr; )+) => { $(
        fn $method<'s, 'f>(
            &'s self,
            request: Request<v1::$Request>,
        ) -> BoxFuture<'f, Answer<v1::$Response>>
        where
            's: 'f,
            Self: 'f,
        {
            Box::pin(async move {
                let (metadata, _, mut message) = request.into_parts();
                let call = call(&metadata, message.context.take());
                let asked = ($read)(message).map_err(|wrong| misfit(&wrong))?;
                let answer = self.provider().$verb(&call, asked).await.map_err(failed)?;
                Ok(Response::new(($write)(&answer)))
            })
        }
    )+ };
}

impl ProviderService {
    fn provider(&self) -> Arc<dyn Provider> {
        self.source.provider()
    }
}

#[tonic::async_trait]
impl Service for ProviderService {
    type WatchExecutionsStream = Responses;

    verbs! {
        start_execution(StartExecutionRequest) -> Observation:
            convert::read_start_request, start, convert::observation;
        list_events(ListEventsRequest) -> ListEventsResponse:
            convert::read_history_request, history, convert::history_page;
        signal_execution(SignalExecutionRequest) -> Observation:
            convert::read_signal_request, signal, convert::observation;
        cancel_execution(CancelExecutionRequest) -> Observation:
            convert::read_cancel_request, cancel, convert::observation;
        pause_execution(PauseExecutionRequest) -> Observation:
            convert::read_pause_request, pause, convert::observation;
        resume_execution(ResumeExecutionRequest) -> Observation:
            |message| convert::read_resume_request(&message), resume, convert::observation;
        retry_now(RetryNowRequest) -> Observation:
            convert::read_retry_now_request, retry_now, convert::observation;
        retry_from(RetryFromRequest) -> Observation:
            convert::read_retry_from_request, retry_from, convert::observation;
        purge_execution(PurgeExecutionRequest) -> PurgeExecutionResponse:
            |message| convert::read_purge_request(&message), purge,
            |(): &()| v1::PurgeExecutionResponse {};
        list_definitions(ListDefinitionsRequest) -> ListDefinitionsResponse:
            read_definitions_request, definitions, convert::definitions_page;
        apply_definition(ApplyDefinitionRequest) -> Definition:
            convert::read_apply_request, apply_definition, convert::definition;
    }

    async fn check_health(
        &self,
        request: Request<v1::CheckHealthRequest>,
    ) -> Answer<v1::CheckHealthResponse> {
        let (metadata, _, message) = request.into_parts();
        let call = call(&metadata, message.context);
        let health = self.provider().health(&call).await.map_err(failed)?;
        Ok(Response::new(v1::CheckHealthResponse {
            engine_version: health.engine_version,
            detail: health.detail,
        }))
    }

    async fn get_execution(
        &self,
        request: Request<v1::GetExecutionRequest>,
    ) -> Answer<v1::Observation> {
        let (metadata, _, message) = request.into_parts();
        let call = call(&metadata, message.context);
        let id = convert::read_id("id", &message.id).map_err(|wrong| misfit(&wrong))?;
        let view = convert::read_view(message.view);
        let seen = self.provider().get(&call, &id, view).await;
        Ok(Response::new(convert::observation(&seen.map_err(failed)?)))
    }

    async fn observe_executions(
        &self,
        request: Request<v1::ObserveExecutionsRequest>,
    ) -> Answer<v1::ObserveExecutionsResponse> {
        use v1::observed_execution::Result as Observed;
        let (metadata, _, message) = request.into_parts();
        let call = call(&metadata, message.context);
        if message.ids.len() > MAX_OBSERVED {
            return Err(misfit(&Misfit::new("ids", "has more than 1000 ids")));
        }
        let ids = message.ids.iter().map(|id| convert::read_id("ids", id));
        let ids: Result<Vec<_>, _> = ids.collect();
        let ids = ids.map_err(|wrong| misfit(&wrong))?;
        let seen = self.provider().observe(&call, &ids).await;
        let results = seen.into_iter().map(|seen| v1::ObservedExecution {
            result: Some(match seen {
                Ok(seen) => Observed::Observation(convert::observation(&seen)),
                Err(error) => Observed::Error(convert::detail(&error)),
            }),
        });
        Ok(Response::new(v1::ObserveExecutionsResponse {
            results: results.collect(),
        }))
    }

    async fn list_executions(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Answer<v1::ListExecutionsResponse> {
        let (metadata, _, message) = request.into_parts();
        let call = call(&metadata, message.context);
        let provider = self.provider();
        let hints = message.hints.unwrap_or_default();
        let read = || {
            Ok(ListRequest {
                hints: convert::read_hints(&hints, &provider.describe().table)?,
                page_size: convert::read_page_size(message.page_size)?,
                cursor: convert::read_cursor(message.cursor),
            })
        };
        let asked = read().map_err(|wrong: Misfit| misfit(&wrong))?;
        let page = provider.list(&call, asked).await.map_err(failed)?;
        Ok(Response::new(convert::list_page(&page)))
    }

    async fn count_executions(
        &self,
        request: Request<v1::CountExecutionsRequest>,
    ) -> Answer<v1::CountExecutionsResponse> {
        let (metadata, _, message) = request.into_parts();
        let call = call(&metadata, message.context);
        let counts = self.provider().count(&call).await.map_err(failed)?;
        Ok(Response::new(convert::counts(&counts)))
    }

    async fn watch_executions(
        &self,
        request: Request<v1::WatchExecutionsRequest>,
    ) -> Answer<Responses> {
        let (_, extensions, message) = request.into_parts();
        let stop = extensions.get::<Stop>().cloned();
        let read = || {
            let span = |field, span: Option<_>| {
                span.map(|span| convert::read_duration(field, span))
                    .transpose()
            };
            let id = || convert::read_id("id", &message.id);
            let scope = match Scope::try_from(message.scope) {
                Ok(Scope::All) => WatchScope::All,
                Ok(Scope::One) => WatchScope::One(id()?),
                Ok(Scope::End) => WatchScope::End(id()?),
                Ok(Scope::Unspecified) | Err(_) => {
                    return Err(Misfit::new("scope", "is not known"));
                }
            };
            let open = span("open_timeout", message.open_timeout)?;
            let heartbeat = span("heartbeat_interval", message.heartbeat_interval)?;
            Ok((scope, open, heartbeat))
        };
        let (scope, open, heartbeat) = read().map_err(|wrong| misfit(&wrong))?;
        let budget = open.unwrap_or(BUDGET).min(LONGEST);
        let call = convert::read_call(message.context, budget);
        let verb = scope.verb();
        let provider = self.provider();
        let opened = tokio::time::timeout_at(call.deadline.into(), provider.watch(&call, scope));
        let Ok(opened) = opened.await else {
            return Err(failed(timed_out(verb)));
        };
        let opened = opened.map_err(failed)?;
        Ok(Response::new(responses(opened, heartbeat, stop)))
    }

    async fn get_definition(
        &self,
        request: Request<v1::GetDefinitionRequest>,
    ) -> Answer<v1::Definition> {
        let (metadata, _, message) = request.into_parts();
        let call = call(&metadata, message.context);
        let revision = Some(message.revision.as_str()).filter(|revision| !revision.is_empty());
        let provider = self.provider();
        let read = provider.definition(&call, &message.name, revision).await;
        Ok(Response::new(convert::definition(&read.map_err(failed)?)))
    }

    async fn validate_definition(
        &self,
        request: Request<v1::ValidateDefinitionRequest>,
    ) -> Answer<v1::ValidateDefinitionResponse> {
        let (metadata, _, message) = request.into_parts();
        let call = call(&metadata, message.context);
        let provider = self.provider();
        let problems = provider.validate_definition(&call, &message.source).await;
        Ok(Response::new(convert::problems(problems.map_err(failed)?)))
    }
}

fn timed_out(verb: Verb) -> Error {
    let kind = stateway_provider_api::ErrorKind::Timeout;
    Error::new(kind, verb, "the watch was not opened in time")
}

fn read_definitions_request(
    request: v1::ListDefinitionsRequest,
) -> Result<DefinitionsRequest, Misfit> {
    Ok(DefinitionsRequest {
        page_size: convert::read_page_size(request.page_size)?,
        cursor: convert::read_cursor(request.cursor),
    })
}
