//! The calls of the `Executions` service.

use std::sync::atomic::{AtomicBool, Ordering};

use stateway_proto::v1;
use tonic::Code;

use crate::client::was_not_sent;
use crate::{
    AdoptDefinition, Cancel, Client, Count, Error, Events, Explain, Get, GetStep, List, Pause,
    Project, Purge, Resume, RetryFrom, RetryNow, Signal, Start, Wait,
};

/// A write: the generated method, under one request id.
macro_rules! write {
    ($self:ident, $call:ident, $method:ident) => {
        $self
            .write($call, |request| {
                let mut service = $self.executions();
                async move { service.$method(request).await }
            })
            .await
    };
}

/// A read: the generated method.
macro_rules! read {
    ($self:ident, $call:expr, $method:ident) => {
        $self
            .read($call, |request| {
                let mut service = $self.executions();
                async move { service.$method(request).await }
            })
            .await
    };
}

/// Every method answers the [`Error`] that the gateway gave, or one about the way there.
#[allow(clippy::missing_errors_doc)]
impl Client {
    /// Starts an execution.
    pub async fn start(&self, call: Start) -> Result<v1::Execution, Error> {
        write!(self, call, start_execution)
    }

    /// Reads an execution.
    pub async fn get(&self, call: Get) -> Result<v1::Execution, Error> {
        read!(self, call, get_execution)
    }

    /// Reads one page of executions. [`Client::list`] follows the pages.
    pub async fn list_page(&self, call: List) -> Result<v1::ListExecutionsResponse, Error> {
        read!(self, call, list_executions)
    }

    /// Counts executions by sub-state.
    pub async fn count(&self, call: Count) -> Result<v1::CountExecutionsResponse, Error> {
        read!(self, call, count_executions)
    }

    /// One `WaitExecution`. [`Client::wait`] waits for as long as the caller wants.
    pub(crate) async fn wait_once(&self, call: Wait) -> Result<v1::WaitExecutionResponse, Error> {
        read!(self, call, wait_execution)
    }

    /// Reads one page of an execution's history. [`Client::events`] follows the pages.
    pub async fn events_page(&self, call: Events) -> Result<v1::ListEventsResponse, Error> {
        read!(self, call, list_events)
    }

    /// Reads one step with its input, its output and every attempt.
    pub async fn step(&self, call: GetStep) -> Result<v1::StepDetail, Error> {
        read!(self, call, get_step)
    }

    /// Says why an execution shows what it shows.
    pub async fn explain(&self, call: Explain) -> Result<v1::ExplainExecutionResponse, Error> {
        read!(self, call, explain_execution)
    }

    /// Sends a signal.
    pub async fn signal(&self, call: Signal) -> Result<v1::Execution, Error> {
        write!(self, call, signal_execution)
    }

    /// Ends an execution.
    pub async fn cancel(&self, call: Cancel) -> Result<v1::Execution, Error> {
        write!(self, call, cancel_execution)
    }

    /// Pauses an execution.
    pub async fn pause(&self, call: Pause) -> Result<v1::Execution, Error> {
        write!(self, call, pause_execution)
    }

    /// Resumes a paused execution.
    pub async fn resume(&self, call: Resume) -> Result<v1::Execution, Error> {
        write!(self, call, resume_execution)
    }

    /// Makes the next attempt now.
    pub async fn retry_now(&self, call: RetryNow) -> Result<v1::Execution, Error> {
        write!(self, call, retry_now)
    }

    /// Projects an execution and its history into the vocabulary of another system.
    pub async fn project(&self, call: Project) -> Result<v1::ProjectedExecution, Error> {
        read!(self, call, project_execution)
    }

    /// Runs an execution again from a step on. A succeeded one is forked: the answer is the new
    /// execution.
    pub async fn retry_from(&self, call: RetryFrom) -> Result<v1::Execution, Error> {
        write!(self, call, retry_from)
    }

    /// Offers another revision of its definition to an execution: adopted if compatible, otherwise the
    /// execution pauses.
    pub async fn adopt_definition(&self, call: AdoptDefinition) -> Result<v1::Execution, Error> {
        write!(self, call, adopt_definition)
    }

    /// Removes the record of a finished execution. `NOT_FOUND` to a retry after a lost answer is a
    /// success: the first try may have removed the execution, and the execution is gone.
    pub async fn purge(&self, call: Purge) -> Result<(), Error> {
        let answer_lost = AtomicBool::new(false);
        let purged = self.write(call, |request| {
            let (mut service, answer_lost) = (self.executions(), &answer_lost);
            async move {
                let purged = service.purge_execution(request).await;
                if let Err(status) = &purged {
                    let may_be_done = status.code() == Code::Unavailable && !was_not_sent(status);
                    answer_lost.fetch_or(may_be_done, Ordering::Relaxed);
                }
                purged
            }
        });
        match purged.await {
            Err(error) if is_gone(&error) && answer_lost.load(Ordering::Relaxed) => Ok(()),
            purged => purged,
        }
    }
}

fn is_gone(error: &Error) -> bool {
    let reasons = ["EXECUTION_NOT_FOUND", "EXECUTION_FORGOTTEN"];
    error.code() == Code::NotFound && reasons.contains(&error.reason())
}
