//! A provider that does what a test tells it, right or wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
    /// The pause before each of these items but the first.
    pub(super) watch_pause: Duration,
    /// The watch repeats its items without end.
    pub(super) floods: bool,
    /// The answer to lists; none for a page with one row more than asked for.
    pub(super) list: Option<v1::ListExecutionsResponse>,
    pub(super) counts: v1::CountExecutionsResponse,
    pub(super) events: v1::ListEventsResponse,
    pub(super) definitions: v1::ListDefinitionsResponse,
    pub(super) definition: v1::Definition,
    pub(super) problems: v1::ValidateDefinitionResponse,
    pub(super) health: v1::CheckHealthResponse,
    /// How long the provider takes to describe itself.
    pub(super) describe_delay: Duration,
    /// Methods that the provider does not have, whatever it reports.
    pub(super) missing: Vec<&'static str>,
    /// Ends every call of the service Provider.
    pub(super) failure: Option<Status>,
}

/// The provider.
#[derive(Clone)]
pub(super) struct Bad {
    script: Arc<Mutex<Script>>,
    /// How often each method was called.
    called: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

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

/// An observation of execution `a` in this state, with this version.
pub(super) fn versioned(state: &str, version: u64) -> v1::Observation {
    let mut seen = observation("a");
    seen.version = Some(v1::Version {
        parts: vec![version],
    });
    seen.native_state = Some(v1::NativeState {
        state: state.into(),
        ..v1::NativeState::default()
    });
    seen
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
        let script = Script {
            description: description(),
            observation: observation("a"),
            watch: vec![Item::InSync(v1::InSync {})],
            watch_pause: Duration::ZERO,
            floods: false,
            list: None,
            counts: v1::CountExecutionsResponse::default(),
            events: v1::ListEventsResponse::default(),
            definitions: v1::ListDefinitionsResponse::default(),
            definition: v1::Definition::default(),
            problems: v1::ValidateDefinitionResponse::default(),
            health: v1::CheckHealthResponse::default(),
            describe_delay: Duration::ZERO,
            missing: Vec::new(),
            failure: None,
        };
        Self {
            script: Arc::new(Mutex::new(script)),
            called: Arc::default(),
        }
    }

    /// How often each method was called.
    pub(super) fn called(&self) -> BTreeMap<&'static str, u64> {
        self.called.lock().unwrap().clone()
    }

    /// What to answer to a call of this method.
    fn answer<T>(&self, method: &'static str, pick: impl FnOnce(Script) -> T) -> Answer<T> {
        *self.called.lock().unwrap().entry(method).or_default() += 1;
        let mut script = self.script();
        if script.missing.contains(&method) {
            return Err(Status::unimplemented("not here"));
        }
        match script.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(Response::new(pick(script))),
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap());
    }

    fn script(&self) -> Script {
        self.script.lock().unwrap().clone()
    }

    pub(super) fn routes(&self) -> Routes {
        Routes::new(IdentityServer::new(self.clone()))
            .add_service(ProviderServer::new(self.clone()))
    }
}

#[tonic::async_trait]
impl Identity for Bad {
    async fn describe(&self, _: Request<v1::DescribeRequest>) -> Answer<v1::DescribeResponse> {
        *self.called.lock().unwrap().entry("describe").or_default() += 1;
        let script = self.script();
        tokio::time::sleep(script.describe_delay).await;
        Ok(Response::new(script.description))
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
            Box::pin(async { self.answer(stringify!($method), |script| script.observation) })
        }
    )+ };
}

/// Methods that answer a part of the script.
macro_rules! scripted {
    ($( $method:ident($Request:ident) -> $Response:ident: $pick:expr; )+) => { $(
        fn $method<'s, 'f>(
            &'s self,
            _: Request<v1::$Request>,
        ) -> BoxFuture<'f, Answer<v1::$Response>>
        where
            's: 'f,
            Self: 'f,
        {
            Box::pin(async { self.answer(stringify!($method), $pick) })
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

    scripted! {
        check_health(CheckHealthRequest) -> CheckHealthResponse: |script| script.health;
        count_executions(CountExecutionsRequest) -> CountExecutionsResponse: |script| script.counts;
        list_events(ListEventsRequest) -> ListEventsResponse: |script| script.events;
        purge_execution(PurgeExecutionRequest) -> PurgeExecutionResponse:
            |_| v1::PurgeExecutionResponse {};
        list_definitions(ListDefinitionsRequest) -> ListDefinitionsResponse:
            |script| script.definitions;
        get_definition(GetDefinitionRequest) -> Definition: |script| script.definition;
        apply_definition(ApplyDefinitionRequest) -> Definition: |script| script.definition;
        validate_definition(ValidateDefinitionRequest) -> ValidateDefinitionResponse:
            |script| script.problems;
    }

    async fn observe_executions(
        &self,
        request: Request<v1::ObserveExecutionsRequest>,
    ) -> Answer<v1::ObserveExecutionsResponse> {
        let ids = request.into_inner().ids;
        self.answer("observe_executions", |script| {
            let results = ids.iter().map(|_| v1::ObservedExecution {
                result: Some(v1::observed_execution::Result::Observation(
                    script.observation.clone(),
                )),
            });
            v1::ObserveExecutionsResponse {
                results: results.collect(),
            }
        })
    }

    async fn list_executions(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Answer<v1::ListExecutionsResponse> {
        self.answer("list_executions", |script| {
            let rows = request.into_inner().page_size as usize;
            let Some(mut page) = script.list else {
                return v1::ListExecutionsResponse {
                    observations: vec![script.observation; rows + 1],
                    next_cursor: String::new(),
                };
            };
            page.observations.truncate(rows);
            page
        })
    }

    async fn watch_executions(
        &self,
        _: Request<v1::WatchExecutionsRequest>,
    ) -> Answer<Self::WatchExecutionsStream> {
        let script = self
            .answer("watch_executions", |script| script)?
            .into_inner();
        let message = |item| Ok(v1::WatchExecutionsResponse { item: Some(item) });
        let pause = script.watch_pause;
        let items = stream::iter(script.watch.clone().into_iter().enumerate());
        let items = items.then(move |(number, item)| async move {
            if number > 0 {
                tokio::time::sleep(pause).await;
            }
            message(item)
        });
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
