//! A gateway that answers what a test tells it to, on a real socket, and a proxy that can be cut.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use stateway_client::v1;
use stateway_client::v1::executions_server::{Executions, ExecutionsServer};
use stateway_client::v1::providers_server::{Providers, ProvidersServer};
use stateway_client::v1::triggers_server::{Triggers, TriggersServer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// What the fake was told to answer, and what it was asked.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) executions: Mutex<VecDeque<Result<v1::Execution, Status>>>,
    pub(crate) waits: Mutex<VecDeque<Result<v1::WaitExecutionResponse, Status>>>,
    pub(crate) pages: Mutex<VecDeque<v1::ListExecutionsResponse>>,
    /// One list per stream. A list that ends without an error keeps its stream open.
    pub(crate) watches: Mutex<VecDeque<Vec<Result<v1::WatchExecutionsResponse, Status>>>>,
    /// Request ids, page tokens, cursors: in the order they came.
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) timeouts: Mutex<Vec<String>>,
    /// Whether the one provider recognises repeated starts, signals and retries.
    pub(crate) is_idempotent: AtomicBool,
    pub(crate) events: Mutex<VecDeque<Result<v1::PublishEventResponse, Status>>>,
}

impl Script {
    fn note(&self, what: &str) {
        self.asked.lock().unwrap().push(what.to_owned());
    }

    fn answer<T>(from: &Mutex<VecDeque<T>>) -> T {
        from.lock()
            .unwrap()
            .pop_front()
            .expect("the script has no further answer")
    }

    fn execution(&self) -> Result<Response<v1::Execution>, Status> {
        Self::answer(&self.executions).map(Response::new)
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Serves the script; the address to call. The server ends with the test's runtime.
pub(crate) async fn serve(script: &Arc<Script>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = Server::builder()
        .add_service(ExecutionsServer::new(Fake(Arc::clone(script))))
        .add_service(ProvidersServer::new(Fake(Arc::clone(script))))
        .add_service(TriggersServer::new(Fake(Arc::clone(script))));
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

struct Fake(Arc<Script>);

impl Fake {
    fn provider(&self) -> v1::Provider {
        let is_idempotent = self.0.is_idempotent.load(Ordering::Relaxed);
        let capabilities = v1::Capabilities {
            start_idempotent: is_idempotent,
            signal_idempotent: is_idempotent,
            retry_now_idempotent: is_idempotent,
            retry_from_idempotent: is_idempotent,
            ..v1::Capabilities::default()
        };
        v1::Provider {
            name: "providers/p".into(),
            capabilities: Some(capabilities),
            ..v1::Provider::default()
        }
    }
}

#[tonic::async_trait]
impl Providers for Fake {
    async fn list_providers(
        &self,
        _: Request<v1::ListProvidersRequest>,
    ) -> Result<Response<v1::ListProvidersResponse>, Status> {
        Ok(Response::new(v1::ListProvidersResponse {
            providers: vec![self.provider()],
            ..v1::ListProvidersResponse::default()
        }))
    }

    async fn get_provider(
        &self,
        _: Request<v1::GetProviderRequest>,
    ) -> Result<Response<v1::Provider>, Status> {
        Ok(Response::new(self.provider()))
    }
}

#[tonic::async_trait]
impl Triggers for Fake {
    async fn publish_event(
        &self,
        request: Request<v1::PublishEventRequest>,
    ) -> Result<Response<v1::PublishEventResponse>, Status> {
        self.0.note(&request.get_ref().request_id);
        Script::answer(&self.0.events).map(Response::new)
    }

    async fn disable_trigger(
        &self,
        _: Request<v1::DisableTriggerRequest>,
    ) -> Result<Response<v1::Trigger>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn enable_trigger(
        &self,
        _: Request<v1::EnableTriggerRequest>,
    ) -> Result<Response<v1::Trigger>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
}

macro_rules! writes {
    ($($method:ident($message:ident);)+) => { $(
        #[allow(clippy::manual_async_fn)]
        fn $method<'a, 'b>(
            &'a self,
            request: Request<v1::$message>,
        ) -> std::pin::Pin<
            Box<dyn Future<Output = Result<Response<v1::Execution>, Status>> + Send + 'b>,
        >
        where
            'a: 'b,
            Self: 'b,
        {
            Box::pin(async move {
                self.0.note(&request.get_ref().request_id);
                self.0.execution()
            })
        }
    )+ };
}

#[tonic::async_trait]
impl Executions for Fake {
    writes! {
        start_execution(StartExecutionRequest);
        signal_execution(SignalExecutionRequest);
        cancel_execution(CancelExecutionRequest);
        pause_execution(PauseExecutionRequest);
        resume_execution(ResumeExecutionRequest);
        retry_now(RetryNowRequest);
        retry_from(RetryFromRequest);
        adopt_definition(AdoptDefinitionRequest);
    }

    async fn purge_execution(
        &self,
        request: Request<v1::PurgeExecutionRequest>,
    ) -> Result<Response<()>, Status> {
        self.0.note(&request.get_ref().request_id);
        self.0.execution().map(|_| Response::new(()))
    }

    async fn get_execution(
        &self,
        request: Request<v1::GetExecutionRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        let timeout = request
            .metadata()
            .get("grpc-timeout")
            .map(|value| value.to_str().unwrap());
        self.0
            .timeouts
            .lock()
            .unwrap()
            .push(timeout.unwrap_or_default().to_owned());
        if request.get_ref().name == "hang" {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        self.0.note(&request.get_ref().name);
        self.0.execution()
    }

    async fn list_executions(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Result<Response<v1::ListExecutionsResponse>, Status> {
        self.0.note(&request.get_ref().page_token);
        Ok(Response::new(Script::answer(&self.0.pages)))
    }

    type WatchExecutionsStream = BoxStream<'static, Result<v1::WatchExecutionsResponse, Status>>;

    async fn watch_executions(
        &self,
        request: Request<v1::WatchExecutionsRequest>,
    ) -> Result<Response<Self::WatchExecutionsStream>, Status> {
        self.0.note(&request.get_ref().cursor);
        let items = Script::answer(&self.0.watches);
        // An error before anything else is answered at once, as the gateway does.
        if let Some(Err(status)) = items.first() {
            return Err(status.clone());
        }
        Ok(Response::new(
            stream::iter(items).chain(stream::pending()).boxed(),
        ))
    }

    async fn wait_execution(
        &self,
        request: Request<v1::WaitExecutionRequest>,
    ) -> Result<Response<v1::WaitExecutionResponse>, Status> {
        self.0.note(&request.get_ref().name);
        Script::answer(&self.0.waits).map(Response::new)
    }

    async fn list_events(
        &self,
        _: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn count_executions(
        &self,
        _: Request<v1::CountExecutionsRequest>,
    ) -> Result<Response<v1::CountExecutionsResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn get_step(
        &self,
        _: Request<v1::GetStepRequest>,
    ) -> Result<Response<v1::StepDetail>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    type ReadPayloadStream = BoxStream<'static, Result<v1::ReadPayloadResponse, Status>>;

    async fn read_payload(
        &self,
        _: Request<v1::ReadPayloadRequest>,
    ) -> Result<Response<Self::ReadPayloadStream>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn project_execution(
        &self,
        _: Request<v1::ProjectExecutionRequest>,
    ) -> Result<Response<v1::ProjectedExecution>, Status> {
        Err(Status::unimplemented("not scripted"))
    }

    async fn explain_execution(
        &self,
        _: Request<v1::ExplainExecutionRequest>,
    ) -> Result<Response<v1::ExplainExecutionResponse>, Status> {
        Err(Status::unimplemented("not scripted"))
    }
}

/// Passes bytes on until it is cut; new connections pass again.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cut: tokio::sync::watch::Sender<u32>,
    _task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, _) = tokio::sync::watch::channel(0);
        let cuts = cut.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut cut = cuts.subscribe();
                connections.spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            cut,
            _task: task,
        }
    }

    /// Breaks every connection there is.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}
