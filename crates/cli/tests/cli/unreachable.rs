//! Lists over all providers while a provider does not answer: the gateway here is a fake that says so.

use std::process::Command;

use stateway_client::v1;
use stateway_client::v1::approvals_server::{Approvals, ApprovalsServer};
use stateway_client::v1::workers_server::{Workers, WorkersServer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use crate::binary::{Answer, command, finish};

/// Answers every list with nothing, and names `providers/shop` as unreachable.
struct Fake;

fn shop() -> Vec<String> {
    vec!["providers/shop".to_owned()]
}

#[tonic::async_trait]
impl Approvals for Fake {
    async fn list_approvals(
        &self,
        _: Request<v1::ListApprovalsRequest>,
    ) -> Result<Response<v1::ListApprovalsResponse>, Status> {
        Ok(Response::new(v1::ListApprovalsResponse {
            unreachable: shop(),
            ..v1::ListApprovalsResponse::default()
        }))
    }

    type WatchApprovalsStream = tokio_stream::Empty<Result<v1::WatchApprovalsResponse, Status>>;

    async fn watch_approvals(
        &self,
        _: Request<v1::WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        Err(Status::unimplemented("a fake"))
    }

    async fn get_approval(
        &self,
        _: Request<v1::GetApprovalRequest>,
    ) -> Result<Response<v1::Approval>, Status> {
        Err(Status::unimplemented("a fake"))
    }

    async fn decide_approval(
        &self,
        _: Request<v1::DecideApprovalRequest>,
    ) -> Result<Response<v1::Approval>, Status> {
        Err(Status::unimplemented("a fake"))
    }

    async fn list_escalations(
        &self,
        _: Request<v1::ListEscalationsRequest>,
    ) -> Result<Response<v1::ListEscalationsResponse>, Status> {
        Ok(Response::new(v1::ListEscalationsResponse {
            unreachable: shop(),
            ..v1::ListEscalationsResponse::default()
        }))
    }

    async fn get_escalation(
        &self,
        _: Request<v1::GetEscalationRequest>,
    ) -> Result<Response<v1::Escalation>, Status> {
        Err(Status::unimplemented("a fake"))
    }

    async fn resolve_escalation(
        &self,
        _: Request<v1::ResolveEscalationRequest>,
    ) -> Result<Response<v1::Escalation>, Status> {
        Err(Status::unimplemented("a fake"))
    }
}

#[tonic::async_trait]
impl Workers for Fake {
    type StreamTasksStream = tokio_stream::Empty<Result<v1::StreamTasksResponse, Status>>;

    async fn stream_tasks(
        &self,
        _: Request<Streaming<v1::StreamTasksRequest>>,
    ) -> Result<Response<Self::StreamTasksStream>, Status> {
        Err(Status::unimplemented("a fake"))
    }

    async fn list_workers(
        &self,
        _: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        Ok(Response::new(v1::ListWorkersResponse {
            unreachable: shop(),
            ..v1::ListWorkersResponse::default()
        }))
    }

    async fn get_queue(
        &self,
        _: Request<v1::GetQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        Err(Status::unimplemented("a fake"))
    }
}

#[test]
fn a_list_names_the_providers_that_did_not_answer() {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tonic::transport::Server::builder()
        .add_service(ApprovalsServer::new(Fake))
        .add_service(WorkersServer::new(Fake));
    runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| -> Answer {
        let mut command: Command = command(directory.path());
        command.env("STATEWAY_SERVER", &url).args(arguments);
        finish(&mut command, "")
    };
    for what in ["approvals", "escalations", "workers"] {
        let shown = run(&[what, "list"]).exits(0);
        let warning =
            format!("warning: providers/shop does not answer; its {what} are missing here");
        assert!(shown.err.contains(&warning), "{}", shown.err);
        let json = run(&[what, "list", "-o", "json"]).exits(0).json();
        assert_eq!(json["unreachable"], serde_json::json!(["providers/shop"]));
    }
}
