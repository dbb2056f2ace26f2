//! A gRPC service that does nothing: what tonic alone costs.

use stateway_proto::v1;
use stateway_proto::v1::triggers_server::{Triggers, TriggersServer};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::Outcome;

struct Empty;

#[tonic::async_trait]
impl Triggers for Empty {
    async fn publish_event(
        &self,
        _: Request<v1::PublishEventRequest>,
    ) -> Result<Response<v1::PublishEventResponse>, Status> {
        Ok(Response::new(v1::PublishEventResponse::default()))
    }

    async fn disable_trigger(
        &self,
        _: Request<v1::DisableTriggerRequest>,
    ) -> Result<Response<v1::Trigger>, Status> {
        Ok(Response::new(v1::Trigger::default()))
    }

    async fn enable_trigger(
        &self,
        _: Request<v1::EnableTriggerRequest>,
    ) -> Result<Response<v1::Trigger>, Status> {
        Ok(Response::new(v1::Trigger::default()))
    }
}

/// The service.
pub(crate) fn empty() -> TriggersServer<impl Triggers> {
    TriggersServer::new(Empty)
}

/// Serves until it is ended.
pub(crate) async fn serve() -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(empty())
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}
