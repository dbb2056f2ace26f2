//! `stateway.v1.Recovery`: verifying and repairing executions, their branches, exports and replays.

mod branches;
mod export;
mod recover;
mod replay;
mod verify;

use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use stateway_proto::v1;
use stateway_proto::v1::recovery_server::Recovery as Service;
use tonic::{Request, Response, Status};

use super::Shell;
use super::executions::Executions;
use crate::access::{Access, until_changed};
use crate::token::Sealer;
use crate::upstream::Directory;

/// The service over every provider with an event log or recovery.
pub(crate) struct Recovery {
    pub(crate) shell: Arc<Shell>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) executions: Arc<Executions>,
    pub(crate) sealer: Arc<Sealer>,
}

#[tonic::async_trait]
impl Service for Recovery {
    async fn verify_execution(
        &self,
        request: Request<v1::VerifyExecutionRequest>,
    ) -> Result<Response<v1::VerifyExecutionResponse>, Status> {
        self.shell
            .run("VerifyExecution", request, |call, message| {
                self.verify(call, message)
            })
            .await
    }

    type VerifyExecutionsStream = BoxStream<'static, Result<v1::VerifyExecutionsResponse, Status>>;

    async fn verify_executions(
        &self,
        request: Request<v1::VerifyExecutionsRequest>,
    ) -> Result<Response<Self::VerifyExecutionsStream>, Status> {
        let opened = self
            .shell
            .open("VerifyExecutions", request, async |call, message| {
                let access = call.access.clone();
                Ok((access, self.verify_all(call, message).await?))
            });
        let messages = |(access, scan): (Access, verify::Scan)| {
            let messages = self.shell.stream("VerifyExecutions", scan.into_stream());
            until_changed(&access, messages.boxed())
        };
        Ok(opened.await?.map(messages))
    }

    async fn recover_execution(
        &self,
        request: Request<v1::RecoverExecutionRequest>,
    ) -> Result<Response<v1::RecoverExecutionResponse>, Status> {
        self.shell
            .run("RecoverExecution", request, |call, message| {
                self.recover(call, message)
            })
            .await
    }

    async fn replay_execution(
        &self,
        request: Request<v1::ReplayExecutionRequest>,
    ) -> Result<Response<v1::ReplayExecutionResponse>, Status> {
        self.shell
            .run("ReplayExecution", request, |call, message| {
                self.replay(call, message)
            })
            .await
    }

    async fn list_branches(
        &self,
        request: Request<v1::ListBranchesRequest>,
    ) -> Result<Response<v1::ListBranchesResponse>, Status> {
        self.shell
            .run("ListBranches", request, |call, message| {
                self.branches(call, message)
            })
            .await
    }

    type ExportHistoryStream = BoxStream<'static, Result<v1::ExportHistoryResponse, Status>>;

    async fn export_history(
        &self,
        request: Request<v1::ExportHistoryRequest>,
    ) -> Result<Response<Self::ExportHistoryStream>, Status> {
        let opened = self.shell.open("ExportHistory", request, |call, message| {
            self.export(call, message)
        });
        Ok(opened
            .await?
            .map(|file| stream::iter(export::pieces(&file)).map(Ok).boxed()))
    }
}
