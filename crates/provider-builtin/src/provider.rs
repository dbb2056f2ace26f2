//! The adapter: each verb is translate, ask the engine, translate.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream;
use stateway_engine::{Engine, ListQuery, RequestKey, RetryFrom, Steer, Survey};
use stateway_machine::ExecutionState;
use stateway_model::{Event, ExecutionId, ProviderId};
use stateway_provider_api::adapter::cursor::{self, LIST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{
    ActiveGateway, Approvals, Call, CancelRequest, Count, Description, ErrorKind, EventLog, Health,
    HistoryPage, HistoryRequest, ListPage, ListRequest, NativeState, Observation, PauseRequest,
    PortableDefinitions, Provider, PurgeRequest, Recovery, Result, ResumeRequest, RetryFromRequest,
    RetryNowRequest, SignalRequest, StartRequest, Store, Table, Triggers, Verb, View, WatchScope,
    WatchStream, Workers,
};

use crate::line::{Disturb, Line};
use crate::reach::Reach;
use crate::request::{self, MAX_PAGE, data, key};
use crate::{CAPABILITIES, Config, ConfigError, history, watch};
use stateway_hosted::{id_of, observation};

/// Counting stops here, for each sub-state.
const MOST_COUNTED: u32 = 100_000;
/// The maximum number of forks of an execution that are reported.
const MOST_FORKS: usize = 100;

/// The provider of one built-in engine.
pub struct BuiltinProvider {
    pub(crate) engine: Engine,
    description: Arc<Description>,
    pub(crate) line: Line,
    reach: Option<Reach>,
    /// Where backups go; without it there are none.
    pub(crate) backups: Option<PathBuf>,
    /// Whether gateways that share the store call each other.
    has_peers: bool,
}

impl BuiltinProvider {
    /// Opens the engine's file, continues everything where it stopped, makes HTTP calls and delivers
    /// to webhooks as configured.
    ///
    /// # Errors
    /// A configuration or a file that cannot be used, or no Tokio runtime.
    pub fn new(
        id: &ProviderId,
        config: &Config,
        table: Arc<Table>,
    ) -> std::result::Result<Self, ConfigError> {
        let opened = Engine::open(&config.engine()?);
        let engine = opened.map_err(|error| ConfigError::Store {
            path: config.shown_store(),
            error: Box::new(error),
        })?;
        let mut provider = Self::over(engine, table).with_backups(config.backups.clone());
        provider.has_peers = config.store_address.is_some();
        provider.reaching_out(id.as_str(), config)
    }

    /// A provider of an engine that is open already.
    #[must_use]
    pub fn over(engine: Engine, table: Arc<Table>) -> Self {
        Self {
            engine,
            description: Description::fixed(CAPABILITIES, table),
            line: Line::default(),
            reach: None,
            backups: None,
            has_peers: false,
        }
    }

    /// The same with a folder for backups.
    #[must_use]
    pub fn with_backups(mut self, folder: Option<PathBuf>) -> Self {
        self.backups = folder;
        self
    }

    /// The same, doing HTTP steps and telling webhooks. `id` is the provider's, as the events'
    /// source has it.
    ///
    /// # Errors
    /// A setting that cannot be used, or no Tokio runtime.
    pub fn reaching_out(
        mut self,
        id: &str,
        config: &Config,
    ) -> std::result::Result<Self, ConfigError> {
        let reach = Reach::new(&self.engine, id, &config.http, &config.webhooks)?;
        self.reach = Some(reach);
        Ok(self)
    }

    #[cfg(test)]
    pub(crate) const fn reach(&self) -> Option<&Reach> {
        self.reach.as_ref()
    }

    /// What an operator should know, in one line.
    fn trouble(&self, survey: &Survey) -> String {
        let mut trouble = self.reach.as_ref().map_or_else(Vec::new, Reach::trouble);
        if let Some(first) = survey.damaged.first() {
            let count = survey.damaged.len();
            trouble.push(format!(
                "{count} executions are damaged or set aside, first `{}`: {}",
                first.id, first.why
            ));
        }
        trouble.join("; ")
    }

    /// The same with something between it and its engine. For tests.
    #[must_use]
    pub fn disturbed_by(mut self, disturb: Arc<dyn Disturb>) -> Self {
        self.line.disturb = Some(disturb);
        self
    }

    /// The engine. For tests and for the process that runs it.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Steers an execution and shows what became of it.
    async fn steer(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
        (steer, request): (Steer, RequestKey),
    ) -> Result<Observation> {
        let asked = self
            .engine
            .steer(id.as_str().into(), steer, Arc::clone(&call.actor), request);
        let seen = self.line.carry(call, verb, asked).await?;
        Ok(observation(&seen, View::Basic))
    }
}

#[async_trait]
impl Provider for BuiltinProvider {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        // An engine is healthy if the store can be read and the keeper answers; a keeper that cannot
        // write refuses every request.
        let query = ListQuery {
            limit: 1,
            ..ListQuery::default()
        };
        let asked = self.engine.list(query);
        self.line.carry(call, Verb::Health, asked).await?;
        let survey = self.line.carry(call, Verb::Health, self.engine.survey());
        let survey = match survey.await {
            // An engine that is too busy to answer is alive.
            Err(error) if error.kind == ErrorKind::Throttled => Survey::default(),
            survey => survey?,
        };
        Ok(Health {
            engine_version: env!("CARGO_PKG_VERSION").to_owned(),
            detail: self.trouble(&survey),
        })
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        let start = request::start(call, &request, self.engine.now())?;
        let asked = self.engine.start(start);
        let seen = self.line.carry(call, Verb::Start, asked).await?;
        Ok(observation(&seen, View::Basic))
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let asked = self.engine.get(id.as_str().into());
        let seen = self.line.carry(call, Verb::Get, asked).await?;
        let mut shown = observation(&seen, view);
        if view == View::Full
            && let Some(parent) = &seen.parent
        {
            let asked = self.engine.id_of(parent.number);
            let found = self.line.carry(call, Verb::Get, asked).await?;
            shown.parent_execution = found.as_deref().and_then(id_of);
        }
        // Only a success is forked.
        if view == View::Full && seen.state == ExecutionState::Completed {
            let asked = self.engine.forks(id.as_str().into(), MOST_FORKS);
            let forks = self.line.carry(call, Verb::Get, asked).await?;
            shown.forks = forks.iter().filter_map(|id| id_of(id)).collect();
        }
        Ok(shown)
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        stateway_provider_api::one_by_one(self, call, ids).await
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let before = cursor::read(LIST, request.cursor.as_deref(), Verb::List)?;
        let limit = page_size(request.page_size, MAX_PAGE, Verb::List)? as usize;
        let Some(query) = request::narrowed(&request.hints) else {
            return Ok(ListPage::default());
        };
        let asked = self.engine.list(ListQuery {
            before,
            limit,
            ..query
        });
        let page = self.line.carry(call, Verb::List, asked).await?;
        let shown = page.items.iter();
        Ok(ListPage {
            observations: shown.map(|seen| observation(seen, View::Basic)).collect(),
            next: page.next.map(|next| cursor::write(LIST, &next)),
        })
    }

    async fn count(&self, call: &Call) -> Result<Vec<Count>> {
        let asked = self.engine.showing(MOST_COUNTED);
        let counts = self.line.carry(call, Verb::Count, asked).await?;
        let counts = counts.into_iter().map(|(sub_state, count)| {
            let mut counted = Count::in_state(NativeState::new(sub_state.as_str()), count);
            counted.example.reported = Some((sub_state, None));
            counted.at_least = count >= u64::from(MOST_COUNTED);
            counted
        });
        Ok(counts.collect())
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        history::history(self, call, &request).await
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        let (verb, engine) = (scope.verb(), self.engine.clone());
        match &scope {
            WatchScope::One(id) | WatchScope::End(id) => {
                watch::one(engine, (&self.line, call), (id, verb)).await
            }
            WatchScope::All => {
                self.line.carry(call, verb, async { Ok(()) }).await?;
                Ok(watch::all(engine, Some(ListQuery::default())))
            }
            WatchScope::Within(hints) => {
                self.line.carry(call, verb, async { Ok(()) }).await?;
                Ok(watch::all(engine, request::narrowed(hints)))
            }
        }
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        let id = request.id.clone();
        let signal = request::signal(call, request)?;
        self.steer(call, Verb::Signal, &id, signal).await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let id = request.id.clone();
        let (verb, steer, key) = request::cancel(call, request);
        self.steer(call, verb, &id, (steer, key)).await
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        let texts = [request.id.as_str(), &request.comment];
        let key = key(call, Verb::Pause, &texts, None, &request.request_id);
        let cause = request.comment.as_str().into();
        self.steer(
            call,
            Verb::Pause,
            &request.id,
            (Steer::Pause { cause }, key),
        )
        .await
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        let texts = [request.id.as_str()];
        let key = key(call, Verb::Resume, &texts, None, &request.request_id);
        self.steer(call, Verb::Resume, &request.id, (Steer::Resume, key))
            .await
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        let texts = [request.id.as_str(), &request.step];
        let key = key(call, Verb::RetryNow, &texts, None, &request.request_id);
        let step = request.step.as_str().into();
        self.steer(
            call,
            Verb::RetryNow,
            &request.id,
            (Steer::RetryNow { step }, key),
        )
        .await
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        let whole = if request.from_start { "from start" } else { "" };
        let mut texts = vec![request.id.as_str(), &request.step, &request.feedback, whole];
        texts.extend(request.execution_id.as_ref().map(ExecutionId::as_str));
        let input = request.input.as_ref();
        let key = key(call, Verb::RetryFrom, &texts, input, &request.request_id);
        let read = |input| data(Verb::RetryFrom, "input", Some(input));
        let from = RetryFrom {
            step: request.step.as_str().into(),
            from_start: request.from_start,
            input: input.map(read).transpose()?,
            feedback: request.feedback.as_str().into(),
            fork_id: request.execution_id.as_ref().map(|id| id.as_str().into()),
            roles: call.roles.to_vec(),
        };
        let id = request.id.as_str().into();
        let asked = self
            .engine
            .retry_from(id, from, Arc::clone(&call.actor), key);
        let seen = self.line.carry(call, Verb::RetryFrom, asked).await?;
        Ok(observation(&seen, View::Basic))
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        let asked = self.engine.remove(request.id.as_str().into());
        self.line.carry(call, Verb::Purge, asked).await
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn active_gateway(&self) -> Option<ActiveGateway> {
        if !self.has_peers {
            return None;
        }
        let addresses =
            stream::unfold((self.engine.active(), true), async |(mut active, first)| {
                if !first {
                    active.changed().await.ok()?;
                }
                let address = active.borrow_and_update().clone();
                Some((address, (active, false)))
            });
        Some(Box::pin(addresses))
    }

    fn portable_definitions(&self) -> Option<&dyn PortableDefinitions> {
        Some(self)
    }

    fn triggers(&self) -> Option<&dyn Triggers> {
        Some(self)
    }

    fn approvals(&self) -> Option<&dyn Approvals> {
        Some(self)
    }

    fn workers(&self) -> Option<&dyn Workers> {
        Some(self)
    }

    fn event_log(&self) -> Option<&dyn EventLog> {
        Some(self)
    }

    fn recovery(&self) -> Option<&dyn Recovery> {
        Some(self)
    }

    fn store(&self) -> Option<&dyn Store> {
        Some(self)
    }
}

pub(crate) fn payload_bytes(event: &Event) -> usize {
    let payload = event.detail.as_ref().and_then(|it| it.payload.as_ref());
    payload.map_or(0, |payload| payload.data.len())
}

impl std::fmt::Debug for BuiltinProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuiltinProvider").finish_non_exhaustive()
    }
}
