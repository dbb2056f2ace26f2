//! A gateway with a built-in engine of its own, in a directory that goes with the test.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use stateway_client::v1;
use stateway_client::v1::admin_client::AdminClient;
use stateway_client::v1::approvals_client::ApprovalsClient;
use stateway_client::v1::definitions_client::DefinitionsClient;
use stateway_client::v1::recovery_client::RecoveryClient;
use stateway_client::v1::stream_tasks_request::Message as Said;
use stateway_client::v1::stream_tasks_response::Message as Told;
use stateway_client::v1::workers_client::WorkersClient;
use stateway_engine::{Config, Engine};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use super::gateway::BuiltIn;
use super::{Running, TestGateway};

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway in front of one built-in engine, `b`.
pub(crate) struct BuiltInRig {
    pub(crate) gateway: Running,
    /// For a second gateway; stories read executions over the API only.
    engine: Engine,
    pub(crate) directory: tempfile::TempDir,
}

impl BuiltInRig {
    pub(crate) async fn start() -> Self {
        Self::made(|_| {}, |gateway| gateway).await
    }

    /// The same, with further providers.
    pub(crate) async fn start_beside(more: impl FnOnce(TestGateway) -> TestGateway) -> Self {
        Self::made(|_| {}, more).await
    }

    /// With a configuration of the provider as an operator writes it, HTTP steps included.
    pub(crate) async fn configured(text: &str, change: impl FnOnce(&mut Config)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut provider: stateway_provider_builtin::Config =
            toml::from_str(text).expect("a configuration");
        provider.path = directory.path().join("store.db");
        let mut config = provider.engine().expect("usable limits");
        change(&mut config);
        let engine = Engine::open(&config).expect("the engine opens");
        let built_in = BuiltIn {
            engine: engine.clone(),
            backups: None,
        };
        let gateway = TestGateway::new().with_configured_engine("b", built_in, &provider);
        Self {
            gateway: gateway.start().await,
            engine,
            directory,
        }
    }

    /// Over the file of another store, for example a backup.
    pub(crate) async fn of_file(path: std::path::PathBuf) -> Self {
        Self::with(|config| config.path = path).await
    }

    /// With another configuration of the engine.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::made(change, |gateway| gateway).await
    }

    async fn made(
        change: impl FnOnce(&mut Config),
        more: impl FnOnce(TestGateway) -> TestGateway,
    ) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let backups = directory.path().join("backups");
        std::fs::create_dir(&backups).expect("a directory");
        let mut config = Config::new(directory.path().join("store.db"));
        config.reconnect = Duration::from_millis(50);
        change(&mut config);
        let engine = Engine::open(&config).expect("the engine opens");
        let built_in = BuiltIn {
            engine: engine.clone(),
            backups: Some(backups),
        };
        let gateway = more(TestGateway::new().with_engine("b", built_in));
        let gateway = gateway.start().await;
        Self {
            gateway,
            engine,
            directory,
        }
    }

    /// The engine for a second gateway.
    pub(crate) fn built_in(&self) -> BuiltIn {
        BuiltIn {
            engine: self.engine.clone(),
            backups: None,
        }
    }

    pub(crate) async fn definitions(&self) -> DefinitionsClient<Channel> {
        DefinitionsClient::new(self.gateway.channel().await)
    }

    pub(crate) async fn approvals(&self) -> ApprovalsClient<Channel> {
        ApprovalsClient::new(self.gateway.channel().await)
    }

    pub(crate) async fn workers(&self) -> WorkersClient<Channel> {
        WorkersClient::new(self.gateway.channel().await)
    }

    pub(crate) async fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.gateway.channel().await)
    }

    pub(crate) async fn recovery(&self) -> RecoveryClient<Channel> {
        RecoveryClient::new(self.gateway.channel().await)
    }

    /// Applies a definition.
    pub(crate) async fn apply(&self, source: &str) -> v1::Definition {
        let request = v1::ApplyDefinitionRequest {
            source: source.into(),
            ..v1::ApplyDefinitionRequest::default()
        };
        let applied = self.definitions().await.apply_definition(request).await;
        let applied = applied.expect("it is valid").into_inner();
        applied.definition.expect("a definition")
    }

    /// Starts an execution in someone's name.
    pub(crate) async fn begin(&self, definition: &str, id: &str, by: &str, input: Value) {
        let request = v1::StartExecutionRequest {
            definition: format!("definitions/{definition}"),
            execution_id: id.into(),
            input: Some(v1::Payload {
                data: input.to_string().into(),
                content_type: String::new(),
            }),
            labels: [("team".to_owned(), "shop".to_owned())].into(),
            ..v1::StartExecutionRequest::default()
        };
        let mut client = self.gateway.executions().await;
        let started = client.start_execution(self::by(by, "", request)).await;
        started.expect("it starts");
    }

    /// An execution as the API shows it, in full.
    pub(crate) async fn get(&self, id: &str) -> v1::Execution {
        let request = v1::GetExecutionRequest {
            name: format!("providers/b/executions/{}", stateway_model::encoded(id)),
            view: v1::ExecutionView::Full.into(),
        };
        let mut client = self.gateway.executions().await;
        let found = client.get_execution(request).await;
        found.expect("it is there").into_inner()
    }

    /// Waits until an execution shows something.
    pub(crate) async fn until(
        &self,
        id: &str,
        shows: impl Fn(&v1::Execution) -> bool,
    ) -> v1::Execution {
        let begin = Instant::now();
        loop {
            let execution = self.get(id).await;
            if shows(&execution) {
                return execution;
            }
            assert!(begin.elapsed() < PATIENCE, "{id} shows {execution:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// One step of an execution with everything that happened to it.
    pub(crate) async fn step(&self, id: &str, step: &str) -> v1::StepDetail {
        let request = v1::GetStepRequest {
            name: format!("providers/b/executions/{id}/steps/{step}"),
        };
        let mut client = self.gateway.executions().await;
        let found = client.get_step(request).await;
        found.expect("it is there").into_inner()
    }

    /// Runs an execution again from a step on.
    pub(crate) async fn retry_from(&self, id: &str, step: &str, by: &str) -> v1::Execution {
        let request = v1::RetryFromRequest {
            name: format!("providers/b/executions/{id}"),
            origin: Some(v1::retry_from_request::Origin::Step(step.into())),
            ..v1::RetryFromRequest::default()
        };
        let mut client = self.gateway.executions().await;
        let answer = client.retry_from(self::by(by, "", request)).await;
        answer.expect("it runs again").into_inner()
    }

    /// An execution, unless there is none of this id.
    pub(crate) async fn find(&self, id: &str) -> Option<v1::Execution> {
        let request = v1::GetExecutionRequest {
            name: format!("providers/b/executions/{id}"),
            view: v1::ExecutionView::Full.into(),
        };
        let mut client = self.gateway.executions().await;
        match client.get_execution(request).await {
            Ok(found) => Some(found.into_inner()),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => panic!("{status}"),
        }
    }

    /// The person who started an execution, as its history says.
    pub(crate) async fn initiator(&self, id: &str) -> String {
        let request = v1::ListEventsRequest {
            parent: format!("providers/b/executions/{id}"),
            page_size: 1,
            view: v1::ExecutionView::Full.into(),
            ..v1::ListEventsRequest::default()
        };
        let mut client = self.gateway.executions().await;
        let events = client.list_events(request).await.expect("it has a history");
        let first = events.into_inner().events.into_iter().next();
        first.expect("it was created").actor
    }

    /// The whole history of an execution as a file.
    pub(crate) async fn export(&self, id: &str) -> Vec<u8> {
        let request = v1::ExportHistoryRequest {
            name: format!("providers/b/executions/{id}"),
            redact: false,
        };
        let stream = self.recovery().await.export_history(request).await;
        let mut stream = stream.expect("it has a history").into_inner();
        let mut file = Vec::new();
        while let Some(piece) = stream.message().await.expect("the stream is whole") {
            file.extend_from_slice(&piece.data);
        }
        file
    }

    /// Connects a worker.
    pub(crate) async fn work(&self, offer: v1::Offer) -> Result<TestWorker, Status> {
        self.connect(offer, Request::new).await
    }

    /// Connects a worker in someone's name.
    pub(crate) async fn work_as(
        &self,
        actor: &str,
        offer: v1::Offer,
    ) -> Result<TestWorker, Status> {
        self.connect(offer, |said| by(actor, "", said)).await
    }

    async fn connect(
        &self,
        offer: v1::Offer,
        request_of: impl FnOnce(
            UnboundedReceiverStream<v1::StreamTasksRequest>,
        ) -> Request<UnboundedReceiverStream<v1::StreamTasksRequest>>,
    ) -> Result<TestWorker, Status> {
        let (say, said) = mpsc::unbounded_channel();
        say.send(request(Said::Offer(offer))).expect("it is open");
        let mut client = self.workers().await;
        let told = client
            .stream_tasks(request_of(UnboundedReceiverStream::new(said)))
            .await?;
        Ok(TestWorker {
            say,
            told: told.into_inner(),
        })
    }
}

/// A worker that the test speaks for.
pub(crate) struct TestWorker {
    pub(crate) say: mpsc::UnboundedSender<v1::StreamTasksRequest>,
    told: Streaming<v1::StreamTasksResponse>,
}

impl TestWorker {
    pub(crate) fn say(&self, said: Said) {
        self.say.send(request(said)).expect("it is open");
    }

    /// What comes next; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        let told = tokio::time::timeout(PATIENCE, self.told.message()).await;
        let told = told.expect("something comes").expect("no error");
        told.map(|told| told.message.expect("it says something"))
    }

    /// How the stream ends, when it ends with an error.
    pub(crate) async fn error(&mut self) -> Status {
        loop {
            let told = tokio::time::timeout(PATIENCE, self.told.message()).await;
            match told.expect("something comes") {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended well"),
                Err(status) => return status,
            }
        }
    }

    /// The next task; anything else on the way is left.
    pub(crate) async fn task(&mut self) -> v1::Task {
        loop {
            if let Told::Task(task) = self.next().await.expect("a task") {
                return task;
            }
        }
    }

    pub(crate) fn complete(&self, task: &v1::Task, output: &Value) {
        self.say(Said::Completed(v1::TaskCompleted {
            task_token: task.task_token.clone(),
            output: Some(v1::Payload {
                data: output.to_string().into(),
                content_type: String::new(),
            }),
            usage: None,
        }));
    }

    /// Completes a task and reports what it cost.
    pub(crate) fn complete_for(&self, task: &v1::Task, output: &Value, tokens: i64) {
        self.say(Said::Completed(v1::TaskCompleted {
            task_token: task.task_token.clone(),
            output: Some(v1::Payload {
                data: output.to_string().into(),
                content_type: String::new(),
            }),
            usage: Some(v1::Usage {
                input_token_count: tokens,
                ..v1::Usage::default()
            }),
        }));
    }

    pub(crate) fn fail(&self, task: &v1::Task, category: v1::ErrorCategory) {
        self.say(Said::Failed(v1::TaskFailed {
            task_token: task.task_token.clone(),
            category: category.into(),
            message: "it did not work".into(),
            ..v1::TaskFailed::default()
        }));
    }
}

fn request(said: Said) -> v1::StreamTasksRequest {
    v1::StreamTasksRequest {
        message: Some(said),
    }
}

/// A request in someone's name.
pub(crate) fn by<M>(actor: &str, roles: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("x-stateway-actor", actor.parse().expect("plain"));
    if !roles.is_empty() {
        metadata.insert("x-stateway-roles", roles.parse().expect("plain"));
    }
    request
}

/// A payload as JSON.
pub(crate) fn json_of(payload: Option<&v1::Payload>) -> Value {
    payload.map_or(json!(null), |payload| {
        serde_json::from_slice(&payload.data).expect("JSON")
    })
}

/// A time of the wire.
pub(crate) fn time_of(time: Option<&prost_types::Timestamp>) -> Timestamp {
    let time = time.expect("a time");
    Timestamp::new(time.seconds, time.nanos).expect("a time of the calendar")
}
