//! The adapter: each verb is translate, ask Restate, translate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, Capabilities, Error, Health, HistoryPage, HistoryRequest,
    ListPage, ListRequest, Observation, PauseRequest, Provider, PurgeRequest, Result,
    ResumeRequest, RetryFromRequest, RetryNowRequest, SignalRequest, StartRequest, Table, Verb,
    View, WatchScope, WatchStream,
};

use crate::client::Client;
use crate::error::{again, no_row};
use crate::id::InvocationId;
use crate::reader::Reader;
use crate::request::{cursor, history_cursor, narrowing, read_history_cursor};
use crate::row::{Entry, Invocation, JournalEvent};
use crate::{Config, ConfigError, capability, journal, sql, step};

/// A Restate server as a provider.
pub struct RestateProvider {
    pub(crate) id: ProviderId,
    pub(crate) can: Capabilities,
    pub(crate) reader: Reader,
    pub(crate) config: Config,
    table: Arc<Table>,
}

impl RestateProvider {
    /// A provider for this server. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(id: ProviderId, config: &Config) -> std::result::Result<Self, ConfigError> {
        let table = compiled_in("restate").expect("the build has a table of this kind");
        Ok(Self {
            id,
            can: capability::all_but(&config.disable)?,
            reader: Reader::new(Client::new(config)?),
            config: config.clone(),
            table: Arc::new(table.clone()),
        })
    }

    /// The same with another table, for example one that an operator laid rows over: lists are
    /// narrowed by it.
    #[must_use]
    pub fn with_table(mut self, table: Arc<Table>) -> Self {
        self.table = table;
        self
    }

    pub(crate) fn offered(&self, verb: Verb) -> Result<()> {
        match verb.is_offered(&self.can) {
            true => Ok(()),
            false => Err(Error::unsupported(verb)),
        }
    }

    /// The row of an execution, or the reason why there is none.
    pub(crate) async fn find(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
    ) -> Result<(InvocationId, Invocation)> {
        // What cannot be an invocation's id was never one.
        let invocation =
            InvocationId::of(id).ok_or_else(|| Error::not_found(verb, id).without_engine())?;
        match self.reader.row(call, verb, &invocation).await? {
            Some(row) => Ok((invocation, row)),
            None => {
                self.reader.stir(&invocation);
                let last_seen = self.reader.last_status(&invocation);
                Err(no_row(verb, id, last_seen.as_deref()))
            }
        }
    }

    /// What fails because the ingress does not answer. Any answer is a sign of life.
    async fn ingress_down(&self, call: &Call) -> Option<String> {
        let patience = Call {
            deadline: Instant::now() + call.remaining() / 2,
            ..call.clone()
        };
        let path = ["restate", "health"];
        let asked = self
            .reader
            .client
            .ingress_get(&patience, Verb::Health, &path)
            .await;
        let error = asked.err()?;
        Some(format!("{}, so start and signal fail", error.message))
    }

    /// What only the full view shows: input, output and steps, for one query more.
    async fn in_full(
        &self,
        call: &Call,
        (id, row): (&InvocationId, &Invocation),
        seen: Observation,
    ) -> Result<Observation> {
        let server = self.reader.server(call, Verb::Get).await?;
        let query = sql::whole(&server.schema, id);
        let entries: Vec<Entry> = self.reader.client.query(call, Verb::Get, &query).await?;
        let mut seen = seen;
        if self.can.steps {
            seen.steps = step::steps(row, &entries, &seen);
            seen.steps_are_detail = true;
        }
        if self.can.payloads {
            seen.input = journal::input(&entries).and_then(|input| input.payload);
            if row.completion_result.as_deref() == Some("success") {
                seen.output = self.output(call, id).await?;
            }
        }
        Ok(seen)
    }
}

#[async_trait]
impl Provider for RestateProvider {
    fn capabilities(&self) -> Capabilities {
        self.can
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let (engine_version, server) = self.reader.ask_server(call, Verb::Health).await?;
        // For a moment after its start a server answers everything but queries.
        let client = &self.reader.client;
        let _: Vec<Invocation> = client.query(call, Verb::Health, sql::PROBE).await?;
        let queues = server.vqueues.then(|| "vqueues are on".to_owned());
        let detail: Vec<String> = queues
            .into_iter()
            .chain(self.ingress_down(call).await)
            .collect();
        Ok(Health {
            engine_version,
            detail: detail.join("; "),
        })
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        self.offered(Verb::Start)?;
        self.send_start(call, request).await
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let (invocation, row) = self.find(call, Verb::Get, id).await?;
        let reader = &self.reader;
        let seen = reader.observation(call, Verb::Get, row.clone()).await?;
        match view == View::Full && (self.can.payloads || self.can.steps) {
            true => self.in_full(call, (&invocation, &row), seen).await,
            false => Ok(seen),
        }
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        let mut invocations: Vec<_> = ids.iter().filter_map(InvocationId::of).collect();
        invocations.sort_unstable();
        invocations.dedup();
        let seen = async {
            let chunks = invocations.chunks(sql::MOST_IDS);
            let looks = chunks.map(|ids| self.reader.look(call, ids));
            let seen = futures::future::try_join_all(looks).await?;
            Ok::<_, Error>(seen.into_iter().flatten().collect::<Vec<_>>())
        };
        match seen.await {
            Ok(seen) => {
                let seen: HashMap<_, _> = seen.into_iter().map(|it| (it.id.clone(), it)).collect();
                let answer = |id| match seen.get(id) {
                    Some(seen) => Ok(seen.clone()),
                    None => {
                        let last_seen =
                            InvocationId::of(id).and_then(|id| self.reader.last_status(&id));
                        Err(no_row(Verb::Observe, id, last_seen.as_deref()))
                    }
                };
                ids.iter().map(answer).collect()
            }
            Err(error) => ids.iter().map(|_| Err(again(&error))).collect(),
        }
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        self.offered(Verb::List)?;
        let narrowing = narrowing(&request, &self.table, &self.id, self.can.list_hints)?;
        let server = self.reader.server(call, Verb::List).await?;
        let query = sql::list(&server.schema, &narrowing);
        let client = &self.reader.client;
        let rows: Vec<Invocation> = client.query(call, Verb::List, &query).await?;
        let is_full = rows.len() >= narrowing.limit as usize;
        let last = rows.last().filter(|_| is_full);
        let next = last.and_then(|row| Some(cursor(row.created_at?, &row.id)));
        let observations = self.reader.observations(call, Verb::List, rows).await?;
        Ok(ListPage { observations, next })
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        self.offered(Verb::History)?;
        let from = read_history_cursor(request.cursor.as_deref())?;
        let (id, row) = self.find(call, Verb::History, &request.id).await?;
        let server = self.reader.server(call, Verb::History).await?;
        let client = &self.reader.client;
        let query = sql::journal(&server.schema, &id);
        let entries: Vec<Entry> = client.query(call, Verb::History, &query).await?;
        let events: Vec<JournalEvent> = match server.schema.has("sys_journal_events", "event_json")
        {
            true => client.query(call, Verb::History, &sql::events(&id)).await?,
            false => Vec::new(),
        };
        let mut told = journal::history(&row, &entries, &events);
        let page = usize::try_from(request.page_size.max(1)).unwrap_or(usize::MAX);
        let upto = from.saturating_add(page);
        let next = (upto < told.len()).then(|| history_cursor(upto));
        told.truncate(upto);
        let events = told.split_off(from.min(told.len()));
        Ok(HistoryPage { events, next })
    }

    async fn watch(&self, _: &Call, scope: WatchScope) -> Result<WatchStream> {
        Err(Error::unsupported(scope.verb()))
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        self.offered(Verb::Signal)?;
        self.send_signal(call, request).await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let verb = match request.mode {
            CancelMode::Graceful => Verb::Cancel,
            CancelMode::Kill => Verb::Kill,
        };
        self.offered(verb)?;
        request.check_compensation(&self.can)?;
        self.end(call, verb, &request.id).await
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        self.offered(Verb::Pause)?;
        self.hold(call, &request.id).await
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        self.offered(Verb::Resume)?;
        self.let_go(call, &request.id).await
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        self.offered(Verb::RetryNow)?;
        self.bring_forward(call, &request).await
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        self.offered(Verb::RetryFrom)?;
        self.do_again(call, &request).await
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        self.offered(Verb::Purge)?;
        self.remove(call, &request.id).await
    }
}
