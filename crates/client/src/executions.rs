//! The calls of the `Executions` service.

use std::time::Duration;

use stateway_proto::v1;
use tokio::time::Instant;

use crate::{
    Cancel, Client, Error, Events, Explain, Get, List, Pause, Resume, RetryFrom, RetryNow, Signal,
    Start, Wait,
};

/// One `WaitExecution` asks for no more than this; longer waits are several. So neither a
/// gateway's longest deadline nor a proxy's patience ends a wait early.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// What is left for an answer when the deadline of a wait has all but come.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

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

    /// Waits until the execution has finished or shows one of the wanted sub-states.
    ///
    /// Without a timeout of its own the call waits for as long as it takes. `reached` is false,
    /// and the execution is shown as it is, when the timeout came first.
    pub async fn wait(&self, call: Wait) -> Result<v1::WaitExecutionResponse, Error> {
        let deadline = call.timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let slice = left
                .unwrap_or(LONGEST_WAIT)
                .min(LONGEST_WAIT)
                .max(SHORTEST_WAIT);
            let is_last = left.is_some_and(|left| left <= slice);
            let answer = read!(self, call.clone().timeout(slice), wait_execution);
            match answer {
                Ok(v1::WaitExecutionResponse { reached: false, .. }) if !is_last => {}
                Err(error) if error.is_deadline() && !is_last => {}
                answer => return answer,
            }
        }
    }

    /// Reads one page of an execution's history. [`Client::events`] follows the pages.
    pub async fn events_page(&self, call: Events) -> Result<v1::ListEventsResponse, Error> {
        read!(self, call, list_events)
    }

    /// Says why an execution shows what it shows.
    pub async fn explain(&self, call: Explain) -> Result<v1::ExplainStateResponse, Error> {
        read!(self, call, explain_state)
    }

    /// Sends a signal.
    pub async fn signal(&self, call: Signal) -> Result<v1::Execution, Error> {
        write!(self, call, signal_execution)
    }

    /// Ends an execution.
    pub async fn cancel(&self, call: Cancel) -> Result<v1::Execution, Error> {
        write!(self, call, cancel_execution)
    }

    /// Holds an execution.
    pub async fn pause(&self, call: Pause) -> Result<v1::Execution, Error> {
        write!(self, call, pause_execution)
    }

    /// Lets a held execution go on.
    pub async fn resume(&self, call: Resume) -> Result<v1::Execution, Error> {
        write!(self, call, resume_execution)
    }

    /// Makes the next attempt now.
    pub async fn retry_now(&self, call: RetryNow) -> Result<v1::Execution, Error> {
        write!(self, call, retry_now)
    }

    /// Does the work again from a step on.
    pub async fn retry_from(&self, call: RetryFrom) -> Result<v1::Execution, Error> {
        write!(self, call, retry_from)
    }
}
