//! Traces arrive at a collector when, and only when, the configuration says so.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::binary::Gateway;

struct Collector(UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).unwrap();
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A collector that lives as long as the runtime.
fn collector(runtime: &Runtime) -> (SocketAddr, UnboundedReceiver<ExportTraceServiceRequest>) {
    let (sender, receiver) = unbounded_channel();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let server =
        tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector(sender)));
    runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, receiver)
}

fn spans(requests: &mut UnboundedReceiver<ExportTraceServiceRequest>) -> Vec<String> {
    let mut names = Vec::new();
    while let Ok(request) = requests.try_recv() {
        let scopes = request
            .resource_spans
            .into_iter()
            .flat_map(|resource| resource.scope_spans);
        names.extend(scopes.flat_map(|scope| scope.spans).map(|span| span.name));
    }
    names
}

#[test]
fn a_call_arrives_as_a_span() {
    let runtime = Runtime::new().unwrap();
    let (address, mut requests) = collector(&runtime);
    let config = format!("[otlp]\nenabled = true\nendpoint = \"http://{address}\"\n");
    let mut gateway = Gateway::with(&config, &[]);
    gateway.run(&["providers", "list"]).exits(0);
    // What is held back is sent at the end.
    gateway.process.signal("-TERM");
    assert_eq!(gateway.process.code(), 0);
    let spans = spans(&mut requests);
    assert!(spans.iter().any(|name| name == "rpc"), "{spans:?}");
}

#[test]
fn nothing_is_exported_unless_asked_for() {
    let runtime = Runtime::new().unwrap();
    let (address, mut requests) = collector(&runtime);
    let mut gateway = Gateway::with(&format!("[otlp]\nendpoint = \"http://{address}\"\n"), &[]);
    gateway.run(&["providers", "list"]).exits(0);
    gateway.process.signal("-TERM");
    assert_eq!(gateway.process.code(), 0);
    assert!(spans(&mut requests).is_empty());
}

#[test]
fn a_collector_that_is_not_there_does_not_hold_the_gateway_up() {
    let mut gateway = Gateway::with("", &["--otlp-endpoint", "http://127.0.0.1:1"]);
    gateway.run(&["providers", "list"]).exits(0);
    gateway.process.signal("-TERM");
    assert_eq!(gateway.process.code(), 0);
}
