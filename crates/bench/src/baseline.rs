//! A gRPC service that does nothing: what tonic alone costs.

use stateway_proto::v1;
use stateway_proto::v1::recovery_server::{Recovery, RecoveryServer};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::Outcome;

struct Empty;

#[tonic::async_trait]
impl Recovery for Empty {
    type VerifyExecutionsStream =
        futures::stream::Empty<Result<v1::VerifyExecutionsResponse, Status>>;
    type ExportHistoryStream = futures::stream::Empty<Result<v1::ExportHistoryResponse, Status>>;

    async fn verify_execution(
        &self,
        _: Request<v1::VerifyExecutionRequest>,
    ) -> Result<Response<v1::VerifyExecutionResponse>, Status> {
        Ok(Response::new(v1::VerifyExecutionResponse::default()))
    }

    async fn verify_executions(
        &self,
        _: Request<v1::VerifyExecutionsRequest>,
    ) -> Result<Response<Self::VerifyExecutionsStream>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn export_history(
        &self,
        _: Request<v1::ExportHistoryRequest>,
    ) -> Result<Response<Self::ExportHistoryStream>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn recover_execution(
        &self,
        _: Request<v1::RecoverExecutionRequest>,
    ) -> Result<Response<v1::RecoverExecutionResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn replay_execution(
        &self,
        _: Request<v1::ReplayExecutionRequest>,
    ) -> Result<Response<v1::ReplayExecutionResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn list_branches(
        &self,
        _: Request<v1::ListBranchesRequest>,
    ) -> Result<Response<v1::ListBranchesResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }
}

/// Serves until it is ended.
pub(crate) async fn serve() -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(RecoveryServer::new(Empty))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}
