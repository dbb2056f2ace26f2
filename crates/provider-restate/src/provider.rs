//! The adapter: each verb is translate, ask Restate, translate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::adapter::cursor::{self, LIST};
use stateway_provider_api::{
    Call, CancelRequest, Description, Error, Health, HistoryPage, HistoryRequest, ListPage,
    ListRequest, Observation, PauseRequest, Provider, PurgeRequest, Result, ResumeRequest,
    RetryFromRequest, RetryNowRequest, SignalRequest, StartRequest, Table, Verb, View,
};

use crate::client::Client;
use crate::error::no_row;
use crate::id::InvocationId;
use crate::reader::Reader;
use crate::request::{ListPosition, narrowing};
use crate::row::{Entry, Invocation};
use crate::{
    CAPABILITIES, Config, ConfigError, history, journal, signal, sql, start, steer, steps,
};

/// A Restate server as a provider.
pub struct RestateProvider {
    pub(crate) id: ProviderId,
    pub(crate) reader: Reader,
    pub(crate) config: Config,
    description: Arc<Description>,
}

impl RestateProvider {
    /// A provider for this server. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(
        id: ProviderId,
        config: &Config,
        table: Arc<Table>,
    ) -> std::result::Result<Self, ConfigError> {
        Ok(Self {
            id,
            reader: Reader::new(Client::new(config)?),
            config: config.clone(),
            description: Description::fixed(CAPABILITIES, table),
        })
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

    /// The component that is named in an error when the ingress does not answer. Any answer is a sign of life.
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
        seen.steps = steps::steps(row, &entries, &seen);
        seen.steps_are_detail = true;
        seen.input = journal::input(&entries).and_then(|input| input.payload);
        if row.completion_result.as_deref() == Some("success") {
            seen.output = start::output(self, call, id).await?;
        }
        Ok(seen)
    }
}

#[async_trait]
impl Provider for RestateProvider {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
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
        start::start(self, call, request).await
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let (invocation, row) = self.find(call, Verb::Get, id).await?;
        let reader = &self.reader;
        let seen = reader.observation(call, Verb::Get, row.clone()).await?;
        if view == View::Full {
            self.in_full(call, (&invocation, &row), seen).await
        } else {
            Ok(seen)
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
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let narrowing = narrowing(&request, &self.description.table, &self.id)?;
        let server = self.reader.server(call, Verb::List).await?;
        let query = sql::list(&server.schema, &narrowing);
        let client = &self.reader.client;
        let rows: Vec<Invocation> = client.query(call, Verb::List, &query).await?;
        let is_full = rows.len() >= narrowing.limit as usize;
        let last = rows.last().filter(|_| is_full);
        let next = last.and_then(|row| Some(cursor::write(LIST, &ListPosition::after(row)?)));
        let observations = self.reader.observations(call, Verb::List, rows).await?;
        Ok(ListPage { observations, next })
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        history::history(self, call, &request).await
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        signal::signal(self, call, request).await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        request.check_compensation(&CAPABILITIES)?;
        steer::cancel(self, call, request.verb(), &request.id).await
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        steer::pause(self, call, &request.id).await
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        steer::resume(self, call, &request.id).await
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        steer::retry_now(self, call, &request).await
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        steer::retry_from(self, call, &request).await
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        steer::purge(self, call, &request.id).await
    }
}
