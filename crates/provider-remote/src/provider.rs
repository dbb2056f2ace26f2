//! The trait, over the wire: each verb is connect, translate, call, translate.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{
    ApplyDefinitionRequest, Call, CancelRequest, Count, DefinitionProblem, DefinitionsPage,
    DefinitionsRequest, Description, Error, Health, HistoryPage, HistoryRequest, ListPage,
    ListRequest, NativeDefinition, Observation, PauseRequest, Provider, PurgeRequest, Result,
    ResumeRequest, RetryFromRequest, RetryNowRequest, SignalRequest, StartRequest, Table, Verb,
    View, WatchScope, WatchStream,
};
use stateway_wire::v1::provider_client::ProviderClient;
use stateway_wire::{MAX_OBSERVED, Misfit, convert, v1};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::address::Dialer;
use crate::connection::Connection;
use crate::error::{TOO_LARGE, malformed, timed_out};
use crate::pace::Budget;
use crate::request::with_deadline;
use crate::watch::HEARTBEAT;
use crate::{Config, ConfigError, request, response, watch};

/// A provider in another process.
pub struct RemoteProvider {
    connection: Arc<Connection>,
    heartbeat: Duration,
}

impl RemoteProvider {
    /// The provider at this address. Nothing is called yet. The rows of `overlay` are laid over the table
    /// that the provider reports.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(
        id: ProviderId,
        config: &Config,
        overlay: Option<Arc<Table>>,
    ) -> std::result::Result<Self, ConfigError> {
        Ok(Self {
            connection: Arc::new(Connection::new(id, Dialer::new(config)?, overlay)),
            heartbeat: HEARTBEAT,
        })
    }

    /// The same, with another interval of heartbeats. For tests.
    #[must_use]
    pub const fn with_heartbeat(mut self, interval: Duration) -> Self {
        self.heartbeat = interval;
        self
    }

    /// The same, with another limit of messages over all watches. For tests.
    #[must_use]
    pub fn with_flood_limit(self, burst: u32, per_second: u32) -> Self {
        let budget = Budget::new(Instant::now()).with_messages(burst, per_second);
        *lock(&self.connection.budget) = budget;
        self
    }

    /// Connects now and lets the provider describe itself.
    ///
    /// # Errors
    /// The provider cannot be reached, or its description is refused.
    pub async fn connect(&self, call: &Call) -> Result<()> {
        self.connection.client(call, Verb::Health).await.map(drop)
    }

    /// One unary call.
    async fn ask<Q, A, F>(
        &self,
        call: &Call,
        verb: Verb,
        message: Q,
        method: impl FnOnce(ProviderClient<Channel>, Request<Q>) -> F + Send,
    ) -> Result<A>
    where
        Q: Send,
        F: Future<Output = std::result::Result<Response<A>, Status>> + Send,
    {
        let client = self.connection.client(call, verb).await?;
        let answer = method(client.provider(), with_deadline(call, message));
        let answer = tokio::time::timeout_at(call.deadline.into(), answer).await;
        let answer = answer.map_err(|_| timed_out(verb))?;
        let answer = answer.map_err(|status| client.failed(&status, verb));
        // A page that is too large is asked for again with fewer rows.
        let pages = [Verb::Observe, Verb::List, Verb::History, Verb::Definitions];
        let is_page = pages.contains(&verb);
        let answer = if is_page { answer } else { self.noted(answer) };
        answer.map(Response::into_inner)
    }

    /// Takes note if the provider broke the contract.
    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.connection.blame(error))
    }
}

/// One unary call of this method.
macro_rules! ask {
    ($self:ident, $call:ident, $verb:expr, $method:ident, $message:expr) => {
        $self.ask($call, $verb, $message, |mut client, request| async move {
            client.$method(request).await
        })
    };
}

/// One page and the most rows that it may have: as many as asked for, or half of them again and again while
/// the page is too large.
macro_rules! ask_page {
    ($self:ident, $call:ident, $verb:expr, $method:ident, $message:expr, $size:expr) => {{
        let (message, mut size) = ($message, $size);
        loop {
            let mut message = message.clone();
            message.page_size = request::page_size(size);
            let page = ask!($self, $call, $verb, $method, message).await;
            if !smaller(&page, &mut size) {
                break ($self.noted(page)?, size);
            }
        }
    }};
}

/// Whether a page was too large and can be asked for again with half of its rows.
fn smaller<T>(page: &Result<T>, size: &mut u32) -> bool {
    let is_too_large = page
        .as_ref()
        .is_err_and(|error| error.reason() == TOO_LARGE);
    let is_smaller = is_too_large && *size > 1;
    if is_smaller {
        *size /= 2;
    }
    is_smaller
}

fn read<T>(verb: Verb, read: std::result::Result<T, Misfit>) -> Result<T> {
    read.map_err(|misfit| malformed(verb, &misfit))
}

#[async_trait]
impl Provider for RemoteProvider {
    fn describe(&self) -> Arc<Description> {
        self.connection.description()
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let client = self.connection.client(call, Verb::Health).await?;
        self.connection.refresh(call, &client).await?;
        let message = v1::CheckHealthRequest {
            context: Some(convert::context(call)),
        };
        let health = ask!(self, call, Verb::Health, check_health, message).await?;
        Ok(response::health(&health, self.connection.remark()))
    }

    async fn reconnected(&self) {
        self.connection.reconnected().await;
    }

    fn restart_count(&self) -> u64 {
        self.connection.restart_count()
    }

    fn note_violation(&self, violation: &Error) {
        self.connection.record(violation);
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        let verb = Verb::Start;
        request.check_capabilities(&self.capabilities())?;
        let Some(message) = convert::start_request(call, request) else {
            let hint = "Portable definitions do not run on a provider in another process.";
            return Err(Error::unsupported(verb).with_hint(hint));
        };
        let seen = ask!(self, call, verb, start_execution, message).await?;
        // Also with an `execution_id`: an engine may use it as a name or a key, and choose the id itself.
        self.noted(response::any(verb, seen))
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let message = v1::GetExecutionRequest {
            context: Some(convert::context(call)),
            id: id.to_string(),
            view: convert::view(view),
        };
        let seen = ask!(self, call, Verb::Get, get_execution, message).await?;
        self.noted(response::of(Verb::Get, id, seen))
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        let mut results = Vec::with_capacity(ids.len());
        let (mut left, mut most) = (ids, MAX_OBSERVED);
        while !left.is_empty() {
            let (ids, rest) = left.split_at(left.len().min(most));
            let message = v1::ObserveExecutionsRequest {
                context: Some(convert::context(call)),
                ids: ids.iter().map(ToString::to_string).collect(),
            };
            let answer = ask!(self, call, Verb::Observe, observe_executions, message).await;
            match answer {
                Ok(response) => {
                    let observed = response::observed(ids, response);
                    results.extend(observed.into_iter().map(|one| self.noted(one)));
                }
                Err(error) if error.reason() == TOO_LARGE && ids.len() > 1 => {
                    most = ids.len() / 2;
                    continue;
                }
                Err(error) => {
                    self.connection.blame(&error);
                    results.extend(response::all_failed(ids, &error));
                }
            }
            left = rest;
        }
        results
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let verb = Verb::List;
        let size = request.page_size;
        let table = Arc::clone(&self.describe().table);
        let message = request::list(call, request, &table, self.connection.id())?;
        let (page, size) = ask_page!(self, call, verb, list_executions, message, size);
        self.noted(read(verb, convert::read_list_page(page, size)))
    }

    async fn count(&self, call: &Call) -> Result<Vec<Count>> {
        let message = v1::CountExecutionsRequest {
            context: Some(convert::context(call)),
        };
        let counts = ask!(self, call, Verb::Count, count_executions, message).await?;
        self.noted(read(Verb::Count, convert::read_counts(counts)))
    }

    async fn history(&self, call: &Call, mut request: HistoryRequest) -> Result<HistoryPage> {
        let verb = Verb::History;
        request.order.check(&self.capabilities(), verb)?;
        let size = request.page_size;
        request.cursor = Some(request::cursor(verb, request.cursor)?);
        let message = convert::history_request(call, request);
        let (page, size) = ask_page!(self, call, verb, list_events, message, size);
        self.noted(read(verb, convert::read_history_page(page, size)))
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        watch::check_pause(&self.connection, scope.verb())?;
        let client = self.connection.client(call, scope.verb()).await?;
        let opened = watch::open(&self.connection, &client, call, scope, self.heartbeat).await;
        self.noted(opened)
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        let message = convert::signal_request(call, &request);
        let seen = ask!(self, call, Verb::Signal, signal_execution, message).await?;
        self.noted(response::of(Verb::Signal, &request.id, seen))
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let verb = request.verb();
        request.check_compensation(&self.capabilities())?;
        let message = convert::cancel_request(call, &request);
        let seen = ask!(self, call, verb, cancel_execution, message).await?;
        self.noted(response::of(verb, &request.id, seen))
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        let id = request.id.clone();
        let message = convert::pause_request(call, request);
        let seen = ask!(self, call, Verb::Pause, pause_execution, message).await?;
        self.noted(response::of(Verb::Pause, &id, seen))
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        let message = convert::resume_request(call, &request);
        let seen = ask!(self, call, Verb::Resume, resume_execution, message).await?;
        self.noted(response::of(Verb::Resume, &request.id, seen))
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        let id = request.id.clone();
        let message = convert::retry_now_request(call, request);
        let seen = ask!(self, call, Verb::RetryNow, retry_now, message).await?;
        self.noted(response::of(Verb::RetryNow, &id, seen))
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        let message = convert::retry_from_request(call, request);
        let seen = ask!(self, call, Verb::RetryFrom, retry_from, message).await?;
        // The engine may have made a new execution.
        self.noted(response::any(Verb::RetryFrom, seen))
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        let message = convert::purge_request(call, &request);
        ask!(self, call, Verb::Purge, purge_execution, message).await?;
        Ok(())
    }

    async fn definitions(
        &self,
        call: &Call,
        request: DefinitionsRequest,
    ) -> Result<DefinitionsPage> {
        let verb = Verb::Definitions;
        let size = request.page_size;
        let message = v1::ListDefinitionsRequest {
            context: Some(convert::context(call)),
            page_size: request::page_size(size),
            cursor: request::cursor(verb, request.cursor)?,
        };
        let (page, size) = ask_page!(self, call, verb, list_definitions, message, size);
        self.noted(read(verb, convert::read_definitions_page(page, size)))
    }

    async fn definition(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<NativeDefinition> {
        let verb = Verb::Definitions;
        let message = v1::GetDefinitionRequest {
            context: Some(convert::context(call)),
            name: name.to_owned(),
            revision: revision.unwrap_or_default().to_owned(),
        };
        let found = ask!(self, call, verb, get_definition, message).await;
        self.noted(read(verb, convert::read_definition(self.noted(found)?)))
    }

    async fn apply_definition(
        &self,
        call: &Call,
        request: ApplyDefinitionRequest,
    ) -> Result<NativeDefinition> {
        let verb = Verb::ApplyDefinition;
        let message = convert::apply_request(call, request);
        let applied = ask!(self, call, verb, apply_definition, message).await?;
        self.noted(read(verb, convert::read_definition(applied)))
    }

    async fn validate_definition(
        &self,
        call: &Call,
        source: &str,
    ) -> Result<Vec<DefinitionProblem>> {
        let message = v1::ValidateDefinitionRequest {
            context: Some(convert::context(call)),
            source: source.to_owned(),
        };
        let found = ask!(
            self,
            call,
            Verb::ApplyDefinition,
            validate_definition,
            message
        )
        .await?;
        Ok(convert::read_problems(found))
    }
}
