//! The generated trait, each method in the shell.

use futures::StreamExt;
use futures::stream::BoxStream;
use stateway_proto::v1;
use stateway_proto::v1::executions_server::Executions as Service;
use tonic::{Request, Response, Status};

use super::write::WaitingCaller;
use super::{Executions, payload};
use crate::access::{Access, until_changed};
use crate::audit::Note;
use crate::front::{Peer, ProvenWait};
use crate::watch::Reader;

/// One method of the trait: the shell around a function of the same service.
macro_rules! in_shell {
    ($self:ident, $method:literal, $request:ident, $work:ident) => {
        $self
            .shell
            .run($method, $request, |call, message| {
                $self.$work(call, message)
            })
            .await
    };
}

#[tonic::async_trait]
impl Service for Executions {
    async fn start_execution(
        &self,
        mut request: Request<v1::StartExecutionRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        let extensions = request.extensions_mut();
        let (peer, note) = (Peer::of(extensions), Note::of(extensions));
        let proof = extensions.remove::<ProvenWait>();
        let caller = WaitingCaller {
            peer,
            quota: extensions.get().cloned(),
        };
        let mut wait = None;
        let started = self.shell.run("StartExecution", request, |call, message| {
            self.start(call, caller, message, &mut wait)
        });
        let mut started = started.await?;
        if let Some(wait) = wait {
            if let Some(note) = note {
                note.took_effect();
            }
            let finished = self.finished(wait, proof).await;
            *started.get_mut() = self.shell.fitting_execution("StartExecution", finished)?;
        }
        Ok(started)
    }

    async fn get_execution(
        &self,
        request: Request<v1::GetExecutionRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        in_shell!(self, "GetExecution", request, get)
    }

    async fn list_executions(
        &self,
        request: Request<v1::ListExecutionsRequest>,
    ) -> Result<Response<v1::ListExecutionsResponse>, Status> {
        in_shell!(self, "ListExecutions", request, list)
    }

    async fn count_executions(
        &self,
        request: Request<v1::CountExecutionsRequest>,
    ) -> Result<Response<v1::CountExecutionsResponse>, Status> {
        in_shell!(self, "CountExecutions", request, count)
    }

    type WatchExecutionsStream = BoxStream<'static, Result<v1::WatchExecutionsResponse, Status>>;

    async fn watch_executions(
        &self,
        request: Request<v1::WatchExecutionsRequest>,
    ) -> Result<Response<Self::WatchExecutionsStream>, Status> {
        let peer = Peer::of(request.extensions());
        let opened = self
            .shell
            .open("WatchExecutions", request, async |call, message| {
                let access = call.access.clone();
                Ok((access, self.watch(call, peer, message).await?))
            });
        let messages = |(access, reader): (Access, Reader)| {
            let messages = self.shell.stream("WatchExecutions", reader.into_stream());
            until_changed(&access, messages.boxed())
        };
        Ok(opened.await?.map(messages))
    }

    async fn wait_execution(
        &self,
        request: Request<v1::WaitExecutionRequest>,
    ) -> Result<Response<v1::WaitExecutionResponse>, Status> {
        let peer = Peer::of(request.extensions());
        let waited = self.shell.run("WaitExecution", request, |call, message| {
            self.wait(call, peer, message)
        });
        waited.await
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        in_shell!(self, "ListEvents", request, history)
    }

    async fn get_step(
        &self,
        request: Request<v1::GetStepRequest>,
    ) -> Result<Response<v1::StepDetail>, Status> {
        in_shell!(self, "GetStep", request, step)
    }

    type ReadPayloadStream = BoxStream<'static, Result<v1::ReadPayloadResponse, Status>>;

    async fn read_payload(
        &self,
        request: Request<v1::ReadPayloadRequest>,
    ) -> Result<Response<Self::ReadPayloadStream>, Status> {
        let opened = self.shell.open("ReadPayload", request, |call, message| {
            self.payload(call, message)
        });
        Ok(opened.await?.map(|payload| payload::parts(payload).boxed()))
    }

    async fn explain_execution(
        &self,
        request: Request<v1::ExplainExecutionRequest>,
    ) -> Result<Response<v1::ExplainExecutionResponse>, Status> {
        in_shell!(self, "ExplainExecution", request, explain)
    }

    async fn signal_execution(
        &self,
        request: Request<v1::SignalExecutionRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        in_shell!(self, "SignalExecution", request, signal)
    }

    async fn cancel_execution(
        &self,
        request: Request<v1::CancelExecutionRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        in_shell!(self, "CancelExecution", request, cancel)
    }

    async fn pause_execution(
        &self,
        request: Request<v1::PauseExecutionRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        in_shell!(self, "PauseExecution", request, pause)
    }

    async fn resume_execution(
        &self,
        request: Request<v1::ResumeExecutionRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        in_shell!(self, "ResumeExecution", request, resume)
    }

    async fn retry_now(
        &self,
        request: Request<v1::RetryNowRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        in_shell!(self, "RetryNow", request, retry_now)
    }

    async fn retry_from(
        &self,
        request: Request<v1::RetryFromRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        in_shell!(self, "RetryFrom", request, retry_from)
    }

    async fn adopt_definition(
        &self,
        request: Request<v1::AdoptDefinitionRequest>,
    ) -> Result<Response<v1::Execution>, Status> {
        in_shell!(self, "AdoptDefinition", request, adopt)
    }

    async fn project_execution(
        &self,
        request: Request<v1::ProjectExecutionRequest>,
    ) -> Result<Response<v1::ProjectedExecution>, Status> {
        in_shell!(self, "ProjectExecution", request, project)
    }

    async fn purge_execution(
        &self,
        request: Request<v1::PurgeExecutionRequest>,
    ) -> Result<Response<()>, Status> {
        in_shell!(self, "PurgeExecution", request, purge)
    }
}
