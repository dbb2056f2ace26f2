//! `stateway.v1.Approvals`: what waits for a person.

mod decide;
mod filter;
mod list;
mod name;
mod shown;
mod watch;

pub(crate) use watch::ApprovalHub;

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use stateway_proto::v1;
use stateway_proto::v1::approvals_server::Approvals as Service;
use tonic::{Request, Response, Status};

use self::watch::Reader;
use super::Shell;
use crate::access::{Access, until_changed};
use crate::front::Peer;
use crate::streams::StreamPool;
use crate::token::Sealer;
use crate::upstream::Directory;

/// The service over every provider with approvals.
pub(crate) struct Approvals {
    pub(crate) shell: Arc<Shell>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) hub: Arc<ApprovalHub>,
    pub(crate) watches: Arc<StreamPool>,
}

#[tonic::async_trait]
impl Service for Approvals {
    async fn list_approvals(
        &self,
        request: Request<v1::ListApprovalsRequest>,
    ) -> Result<Response<v1::ListApprovalsResponse>, Status> {
        self.shell
            .run("ListApprovals", request, |call, message| {
                self.list(call, message)
            })
            .await
    }

    type WatchApprovalsStream = BoxStream<'static, Result<v1::WatchApprovalsResponse, Status>>;

    async fn watch_approvals(
        &self,
        request: Request<v1::WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        let peer = Peer::of(request.extensions());
        let opened = self
            .shell
            .open("WatchApprovals", request, async |call, message| {
                let access = call.access.clone();
                Ok((access, self.watch(call, peer, message).await?))
            });
        let messages = |(access, reader): (Access, Reader)| {
            let messages = self.shell.stream("WatchApprovals", reader.into_stream());
            until_changed(&access, messages.boxed())
        };
        Ok(opened.await?.map(messages))
    }

    async fn get_approval(
        &self,
        request: Request<v1::GetApprovalRequest>,
    ) -> Result<Response<v1::Approval>, Status> {
        self.shell
            .run("GetApproval", request, |call, message| {
                self.get(call, message)
            })
            .await
    }

    async fn decide_approval(
        &self,
        request: Request<v1::DecideApprovalRequest>,
    ) -> Result<Response<v1::Approval>, Status> {
        self.shell
            .run("DecideApproval", request, |call, message| {
                self.decide(call, message)
            })
            .await
    }

    async fn list_escalations(
        &self,
        request: Request<v1::ListEscalationsRequest>,
    ) -> Result<Response<v1::ListEscalationsResponse>, Status> {
        self.shell
            .run("ListEscalations", request, |call, message| {
                self.escalations(call, message)
            })
            .await
    }

    async fn get_escalation(
        &self,
        request: Request<v1::GetEscalationRequest>,
    ) -> Result<Response<v1::Escalation>, Status> {
        self.shell
            .run("GetEscalation", request, |call, message| {
                self.get_escalated(call, message)
            })
            .await
    }

    async fn resolve_escalation(
        &self,
        request: Request<v1::ResolveEscalationRequest>,
    ) -> Result<Response<v1::Escalation>, Status> {
        self.shell
            .run("ResolveEscalation", request, |call, message| {
                self.resolve(call, message)
            })
            .await
    }
}
