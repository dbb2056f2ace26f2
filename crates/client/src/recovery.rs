//! The calls of the `Recovery` service.

use stateway_proto::v1;
use tonic::Streaming;

use crate::{Client, Error, ExportHistory, ListBranches, Recover, Replay, Verify, VerifyAll};

/// A read or a write: the generated method.
macro_rules! make {
    ($self:ident.$how:ident($call:ident), $method:ident) => {
        $self
            .$how($call, |request| {
                let mut service = $self.recovery();
                async move { service.$method(request).await }
            })
            .await
    };
}

/// The progress of a verification of all executions.
#[derive(Debug)]
pub struct VerifyProgress {
    stream: Streaming<v1::VerifyExecutionsResponse>,
}

impl VerifyProgress {
    /// The next message; none after the last.
    ///
    /// # Errors
    /// The gateway refused, or the connection broke.
    pub async fn next(&mut self) -> Result<Option<v1::VerifyExecutionsResponse>, Error> {
        let next = self.stream.message().await;
        next.map_err(|status| Error::from_status(&status))
    }
}

/// Every method answers the [`Error`] that the gateway gave, or one about the way there.
#[allow(clippy::missing_errors_doc)]
impl Client {
    /// Compares what is kept of an execution with its log.
    pub async fn verify(&self, call: Verify) -> Result<v1::VerifyExecutionResponse, Error> {
        make!(self.read(call), verify_execution)
    }

    /// The same for every execution. It may take long: only a timeout that the call has ends it.
    pub async fn verify_all(&self, call: VerifyAll) -> Result<VerifyProgress, Error> {
        let mut request = self.request(call.message);
        if let Some(timeout) = call.timeout {
            request.set_timeout(timeout);
        }
        let opened = self.recovery().verify_executions(request).await;
        let stream = opened.map_err(|status| Error::from_status(&status))?;
        Ok(VerifyProgress {
            stream: stream.into_inner(),
        })
    }

    /// Repairs an execution.
    pub async fn recover(&self, call: Recover) -> Result<v1::RecoverExecutionResponse, Error> {
        make!(self.write(call), recover_execution)
    }

    /// Replays an execution, to an event or under another definition.
    pub async fn replay(&self, call: Replay) -> Result<v1::ReplayExecutionResponse, Error> {
        make!(self.read(call), replay_execution)
    }

    /// Reads one page of an execution's branches.
    pub async fn branches_page(
        &self,
        call: ListBranches,
    ) -> Result<v1::ListBranchesResponse, Error> {
        make!(self.read(call), list_branches)
    }

    /// Reads an execution's history as a file.
    pub async fn export_history(&self, call: ExportHistory) -> Result<Vec<u8>, Error> {
        let told = |status| Error::from_status(&status);
        let mut stream = make!(self.read(call), export_history)?;
        let mut file = Vec::new();
        while let Some(piece) = stream.message().await.map_err(told)? {
            file.extend_from_slice(&piece.data);
        }
        Ok(file)
    }
}
