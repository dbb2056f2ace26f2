//! A provider that does what a test tells it, right or wrong.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use stateway_provider_api::table::MEMORY;
use stateway_wire::v1::identity_server::{Identity, IdentityServer};
use stateway_wire::v1::provider_server::{Provider, ProviderServer};
use stateway_wire::v1::{self, watch_executions_response::Item};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

pub(super) type Answer<T> = Result<Response<T>, Status>;

/// What the provider reports and answers.
#[derive(Clone)]
pub(super) struct Script {
    pub(super) description: v1::DescribeResponse,
    pub(super) observation: v1::Observation,
    /// Sent by every watch, one after the other; then the stream is silent.
    pub(super) watch: Vec<Item>,
    /// The watch repeats its items without end.
    pub(super) floods: bool,
}

/// The provider.
#[derive(Clone)]
pub(super) struct Bad(pub(super) Arc<Mutex<Script>>);

/// A description that is right.
pub(super) fn description() -> v1::DescribeResponse {
    v1::DescribeResponse {
        name: "bad".into(),
        version: "1".into(),
        min_contract_version: 1,
        max_contract_version: 1,
        capabilities: ["start", "watch_one", "watch_all", "list"]
            .map(str::to_owned)
            .into(),
        instance_id: "one".into(),
        start_time: None,
        state_table: MEMORY.to_owned(),
    }
}

/// An observation that is right.
pub(super) fn observation(id: &str) -> v1::Observation {
    v1::Observation {
        id: id.into(),
        native_state: Some(v1::NativeState {
            state: "ACTIVE".into(),
            ..v1::NativeState::default()
        }),
        ..v1::Observation::default()
    }
}

impl Bad {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Script {
            description: description(),
            observation: observation("a"),
            watch: vec![Item::InSync(v1::InSync {})],
            floods: false,
        })))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.lock().unwrap());
    }

    fn script(&self) -> Script {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn routes(&self) -> Routes {
        Routes::new(IdentityServer::new(self.clone()))
            .add_service(ProviderServer::new(self.clone()))
    }
}

#[tonic::async_trait]
impl Identity for Bad {
    async fn describe(&self, _: Request<v1::DescribeRequest>) -> Answer<v1::DescribeResponse> {
        Ok(Response::new(self.script().description))
    }
}

/// Methods that answer the observation of the script.
macro_rules! observed {
    ($( $method:ident($Request:ident); )+) => { $(
        fn $method<'s, 'f>(
            &'s self,
            _: Request<v1::$Request>,
        ) -> BoxFuture<'f, Answer<v1::Observation>>
        where
            's: 'f,
            Self: 'f,
        {
            Box::pin(async { Ok(Response::new(self.script().observation)) })
        }
    )+ };
}

/// Methods that the provider does not have, whatever it reports.
macro_rules! missing {
    ($( $method:ident($Request:ident) -> $Response:ident; )+) => { $(
        fn $method<'s, 'f>(
            &'s self,
            _: Request<v1::$Request>,
        ) -> BoxFuture<'f, Answer<v1::$Response>>
        where
            's: 'f,
            Self: 'f,
        {
            Box::pin(async { Err(Status::unimplemented("not here")) })
        }
    )+ };
}

#[tonic::async_trait]
impl Provider for Bad {
    type WatchExecutionsStream = BoxStream<'static, Result<v1::WatchExecutionsResponse, Status>>;

    observed! {
        start_execution(StartExecutionRequest);
        get_execution(GetExecutionRequest);
        signal_execution(SignalExecutionRequest);
        cancel_execution(CancelExecutionRequest);
        pause_execution(PauseExecutionRequest);
        resume_execution(ResumeExecutionRequest);
        retry_now(RetryNowRequest);
        retry_from(RetryFromRequest);
    }

    missing! {
        count_executions(CountExecutionsRequest) -> CountExecutionsResponse;
        list_events(ListEventsRequest) -> ListEventsResponse;
        purge_execution(PurgeExecutionRequest) -> PurgeExecutionResponse;
        list_definitions(ListDefinitionsRequest) -> ListDefinitionsResponse;
        get_definition(GetDefinitionRequest) -> Definition;
        apply_definition(ApplyDefinitionRequest) -> Definition;
        validate_definition(ValidateDefinitionRequest) -> ValidateDefinitionResponse;
    }

    async fn check_health(
        &self,
        _: Request<v1::CheckHealthRequest>,
    ) -> Answer<v1::CheckHealthResponse> {
        Ok(Response::new(v1::CheckHealthResponse::default()))
    }

    async fn observe_executions(
        &self,
        request: Request<v1::ObserveExecutionsRequest>,
    ) -> Answer<v1::ObserveExecutionsResponse> {
        let ids = request.into_inner().ids;
        let results = ids.iter().map(|_| v1::ObservedExecution {
            result: Some(v1::observed_execution::Result::Observation(
                self.script().observation,
            )),
        });
        Ok(Response::new(v1::ObserveExecutionsResponse {
            results: results.collect(),
        }))
    }

    async fn list_executions(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Answer<v1::ListExecutionsResponse> {
        // One more than asked for.
        let rows = request.into_inner().page_size as usize + 1;
        Ok(Response::new(v1::ListExecutionsResponse {
            observations: vec![self.script().observation; rows],
            next_cursor: String::new(),
        }))
    }

    async fn watch_executions(
        &self,
        _: Request<v1::WatchExecutionsRequest>,
    ) -> Answer<Self::WatchExecutionsStream> {
        let script = self.script();
        let message = |item| Ok(v1::WatchExecutionsResponse { item: Some(item) });
        let items = stream::iter(script.watch.clone()).map(message);
        let stream = if script.floods {
            stream::iter(script.watch.into_iter().cycle())
                .map(message)
                .boxed()
        } else {
            items.chain(stream::pending()).boxed()
        };
        Ok(Response::new(stream))
    }
}
