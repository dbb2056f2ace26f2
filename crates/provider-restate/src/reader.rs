//! Reading: from ids to rows, from rows to what must be read beside them, to observations.
//!
//! A hundred ids are one query. What a second query told is remembered until the row changes. A look
//! of a watch at rows that were read a moment ago asks only the cheap table of all that run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::try_join_all;
use serde::de::DeserializeOwned;
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{Call, Error, ErrorKind, Observation, Result, Verb};
use tokio::time::Instant;

use crate::cache::{Cache, MOST_RUNNING, RunningTable};
use crate::client::Client;
use crate::error::{Api, refusal};
use crate::id::InvocationId;
use crate::journal;
use crate::response::{Detail, Need, counted, need, observation};
use crate::row::{Column, Entry, Invocation, JournalEvent, QueueEntry};
use crate::server::{Server, VersionAnswer};
use crate::service::Service;
use crate::sql::{self, MOST_IDS, Schema};

/// How long what is known of a service is taken to be so.
const SERVICE_KEPT: Duration = Duration::from_secs(30);
/// How many services are known at a time.
const MOST_SERVICES: usize = 1_000;

pub(crate) struct Reader {
    pub(crate) client: Client,
    pub(crate) cache: Cache,
    running: RunningTable,
    server: Mutex<Option<Arc<Server>>>,
    services: Mutex<HashMap<String, (Instant, Arc<Service>)>>,
}

impl Reader {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            cache: Cache::default(),
            running: RunningTable::default(),
            server: Mutex::default(),
            services: Mutex::default(),
        }
    }

    /// What kind of server this is, asked once.
    pub(crate) async fn server(&self, call: &Call, verb: Verb) -> Result<Arc<Server>> {
        let known = lock(&self.server).clone();
        match known {
            Some(server) => Ok(server),
            None => Ok(self.ask_server(call, verb).await?.1),
        }
    }

    /// What kind of server this is now, with its version in its own words.
    pub(crate) async fn ask_server(
        &self,
        call: &Call,
        verb: Verb,
    ) -> Result<(String, Arc<Server>)> {
        let answer = self.client.admin_get(call, verb, &["version"]).await?;
        if !answer.is_success() {
            return Err(refusal(verb, Api::Admin, &answer));
        }
        let version: VersionAnswer = answer.json(verb, Api::Admin)?;
        let columns: Vec<Column> = self.client.query(call, verb, sql::COLUMNS).await?;
        let server = version.server(Schema::new(columns)).map_err(|why| {
            Error::new(ErrorKind::FailedPrecondition, verb, why)
                .with_reason("PROVIDER_VERSION_NOT_SUPPORTED")
                .with_hint("Upgrade the Restate server.")
        })?;
        let server = Arc::new(server);
        *lock(&self.server) = Some(server.clone());
        Ok((version.version, server))
    }

    /// A service, if it is registered.
    pub(crate) async fn service(
        &self,
        call: &Call,
        verb: Verb,
        name: &str,
    ) -> Result<Option<Arc<Service>>> {
        let known = lock(&self.services).get(name).cloned();
        if let Some((since, service)) = known
            && since.elapsed() < SERVICE_KEPT
        {
            return Ok(Some(service));
        }
        let answer = self
            .client
            .admin_get(call, verb, &["services", name])
            .await?;
        let service = match answer.status {
            200 => Some(Arc::new(answer.json::<Service>(verb, Api::Admin)?)),
            404 => None,
            _ => return Err(refusal(verb, Api::Admin, &answer)),
        };
        // A service that does not exist may be registered at any moment.
        if let Some(service) = &service {
            let mut services = lock(&self.services);
            if services.len() >= MOST_SERVICES {
                services.clear();
            }
            services.insert(name.to_owned(), (Instant::now(), service.clone()));
        }
        Ok(service)
    }

    /// The row of one invocation, if Restate knows it.
    pub(crate) async fn row(
        &self,
        call: &Call,
        verb: Verb,
        id: &InvocationId,
    ) -> Result<Option<Invocation>> {
        let mut rows = self.rows(call, verb, std::slice::from_ref(id)).await?;
        Ok(rows.pop())
    }

    /// The rows of the invocations that Restate knows.
    pub(crate) async fn rows(
        &self,
        call: &Call,
        verb: Verb,
        ids: &[InvocationId],
    ) -> Result<Vec<Invocation>> {
        let server = self.server(call, verb).await?;
        self.batched(call, verb, ids, |ids| sql::invocations(&server.schema, ids))
            .await
    }

    /// One look of a watch. At most one query for each hundred, and one for all of them together.
    pub(crate) async fn look(&self, call: &Call, ids: &[InvocationId]) -> Result<Vec<Observation>> {
        let verb = Verb::Observe;
        let server = self.server(call, verb).await?;
        let (still, moved) = self.unmoved(call, &server, ids).await?;
        let rows = self.rows(call, verb, &moved).await?;
        let mut seen = self.observations(call, verb, rows).await?;
        for row in still {
            seen.extend(self.shown(call, verb, &row, None).await);
        }
        Ok(seen)
    }

    /// The rows that can be taken as they were, and the ids that must be read.
    async fn unmoved(
        &self,
        call: &Call,
        server: &Server,
        ids: &[InvocationId],
    ) -> Result<(Vec<Invocation>, Vec<InvocationId>)> {
        let all = || Ok((Vec::new(), ids.to_vec()));
        let names = ids.iter().map(InvocationId::as_str);
        let Some(rows) = self.cache.reliable(names, Instant::now()) else {
            return all();
        };
        let is_told = |row: &Invocation| need(row, server.vqueues) != Need::Queue;
        if !server.schema.has("sys_invocation_state", "in_flight") || !rows.iter().all(is_told) {
            return all();
        }
        let query = sql::beats(MOST_RUNNING + 1);
        let read = async || self.client.query(call, Verb::Observe, &query).await;
        let Some(beats) = self.running.look(read).await? else {
            return all();
        };
        let (still, moved): (Vec<_>, Vec<_>) = rows.into_iter().partition(|it| beats.confirm(it));
        let moved = moved.iter().filter_map(|row| InvocationId::parse(&row.id));
        Ok((still, moved.collect()))
    }

    /// Takes note that something was asked of an invocation.
    pub(crate) fn stir(&self, id: &InvocationId) {
        self.cache.stir(id.as_str());
    }

    /// The status that an invocation had when it was last seen.
    pub(crate) fn last_status(&self, id: &InvocationId) -> Option<String> {
        self.cache.last_status(id.as_str())
    }

    /// One invocation as it is shown.
    pub(crate) async fn observation(
        &self,
        call: &Call,
        verb: Verb,
        row: Invocation,
    ) -> Result<Observation> {
        let mut seen = self.observations(call, verb, vec![row]).await?;
        seen.pop()
            .ok_or_else(|| Error::new(ErrorKind::Malformed, verb, "the row has no id"))
    }

    /// Rows as they are shown, in their order.
    pub(crate) async fn observations(
        &self,
        call: &Call,
        verb: Verb,
        rows: Vec<Invocation>,
    ) -> Result<Vec<Observation>> {
        let details = self.details(call, verb, &rows).await?;
        let mut seen = Vec::with_capacity(rows.len());
        let now = Instant::now();
        for row in rows {
            let detail = details.get(&row.id);
            self.cache.note(&row, detail, now);
            seen.extend(self.shown(call, verb, &row, detail.cloned()).await);
        }
        Ok(seen)
    }

    /// A row as it is shown, with what was read beside it now or before.
    async fn shown(
        &self,
        call: &Call,
        verb: Verb,
        row: &Invocation,
        detail: Option<Arc<Detail>>,
    ) -> Option<Observation> {
        let id = ExecutionId::new(&row.id).ok()?;
        let detail = detail.or_else(|| self.cache.detail(row));
        let known = detail.as_deref().unwrap_or(&Detail::Nothing);
        let most = match counted(row, known) {
            Some(_) => self.most_attempts(call, verb, row).await,
            None => None,
        };
        Some(observation(id, row, known, most))
    }

    /// The most attempts that the policy allows. Not knowing it is no reason to show nothing.
    async fn most_attempts(&self, call: &Call, verb: Verb, row: &Invocation) -> Option<u32> {
        let name = row.target_service_name.as_deref()?;
        let service = self.service(call, verb, name).await.ok()??;
        service.most_attempts(row.target_handler_name.as_deref()?)
    }

    /// What has to be known beside the rows, by their ids.
    async fn details(
        &self,
        call: &Call,
        verb: Verb,
        rows: &[Invocation],
    ) -> Result<BTreeMap<String, Arc<Detail>>> {
        let server = self.server(call, verb).await?;
        let mut details = BTreeMap::new();
        let mut wanted = BTreeMap::<&str, Vec<(InvocationId, &Invocation)>>::new();
        for row in rows {
            let need = need(row, server.vqueues);
            if let Some(detail) = self.cache.detail(row).filter(|_| need != Need::Queue) {
                details.insert(row.id.clone(), detail);
                continue;
            }
            let Some(id) = InvocationId::parse(&row.id) else {
                continue;
            };
            let list = match need {
                Need::Nothing => continue,
                Need::Waits => "waits",
                Need::Ending => "ending",
                Need::Pause => "pause",
                Need::Queue => "queue",
            };
            wanted.entry(list).or_default().push((id, row));
        }
        for (list, of) in wanted {
            let ids: Vec<InvocationId> = of.iter().map(|(id, _)| id.clone()).collect();
            let read = match list {
                "waits" => self.waits(call, verb, &server, &ids, &of).await?,
                "ending" => self.endings(call, verb, &server, &ids).await?,
                "pause" => self.pauses(call, verb, &server, &ids).await?,
                _ => self.queued(call, verb, &server, &ids).await?,
            };
            details.extend(read.into_iter().map(|(id, it)| (id, Arc::new(it))));
        }
        Ok(details)
    }

    async fn waits(
        &self,
        call: &Call,
        verb: Verb,
        server: &Server,
        ids: &[InvocationId],
        of: &[(InvocationId, &Invocation)],
    ) -> Result<Vec<(String, Detail)>> {
        let entries: Vec<Entry> = self
            .batched(call, verb, ids, |ids| sql::awaited(&server.schema, ids))
            .await?;
        let entries = by_id(entries, |entry| &entry.id);
        let waits = of.iter().map(|(_, row)| {
            let entries = entries.get(&row.id).map_or(&[][..], Vec::as_slice);
            (row.id.clone(), Detail::Waits(journal::waits(row, entries)))
        });
        Ok(waits.collect())
    }

    async fn endings(
        &self,
        call: &Call,
        verb: Verb,
        server: &Server,
        ids: &[InvocationId],
    ) -> Result<Vec<(String, Detail)>> {
        let entries: Vec<Entry> = self
            .batched(call, verb, ids, |ids| sql::endings(&server.schema, ids))
            .await?;
        let entries = by_id(entries, |entry| &entry.id);
        let endings = entries
            .into_iter()
            .filter_map(|(id, entries)| Some((id, Detail::Ending(journal::ending(&entries)?))));
        Ok(endings.collect())
    }

    async fn pauses(
        &self,
        call: &Call,
        verb: Verb,
        server: &Server,
        ids: &[InvocationId],
    ) -> Result<Vec<(String, Detail)>> {
        if !server.schema.has("sys_journal_events", "event_json") {
            return Ok(Vec::new());
        }
        let events: Vec<JournalEvent> = self
            .batched(call, verb, ids, |ids| sql::events_of_type(ids, "Paused"))
            .await?;
        let events = by_id(events, |event| &event.id);
        let pauses = events
            .into_iter()
            .filter_map(|(id, events)| Some((id, Detail::Pause(journal::pause(&events)?))));
        Ok(pauses.collect())
    }

    /// With vqueues on, the truth of what is ready is in its queue.
    async fn queued(
        &self,
        call: &Call,
        verb: Verb,
        server: &Server,
        ids: &[InvocationId],
    ) -> Result<Vec<(String, Detail)>> {
        let entries: Vec<QueueEntry> = self.batched(call, verb, ids, sql::queue_entries).await?;
        let failed: Vec<InvocationId> = entries
            .iter()
            .filter(|entry| entry.status == "backing-off")
            .filter_map(|entry| InvocationId::parse(&entry.entry_id))
            .collect();
        let events: Vec<JournalEvent> = if server.schema.has("sys_journal_events", "event_json") {
            let failures = |ids: &[_]| sql::events_of_type(ids, "TransientError");
            self.batched(call, verb, &failed, failures).await?
        } else {
            Vec::new()
        };
        let events = by_id(events, |event| &event.id);
        let queued = entries.into_iter().map(|entry| {
            let failure = events.get(&entry.entry_id);
            let failure = failure.and_then(|events| journal::newest_failure(events));
            (entry.entry_id.clone(), Detail::Queue { entry, failure })
        });
        Ok(queued.collect())
    }

    /// One query for each hundred ids, none for none.
    async fn batched<T: DeserializeOwned>(
        &self,
        call: &Call,
        verb: Verb,
        ids: &[InvocationId],
        sql: impl Fn(&[InvocationId]) -> String,
    ) -> Result<Vec<T>> {
        let queries = ids.chunks(MOST_IDS).map(|ids| {
            let sql = sql(ids);
            async move { self.client.query(call, verb, &sql).await }
        });
        let rows: Vec<Vec<T>> = try_join_all(queries).await?;
        Ok(rows.into_iter().flatten().collect())
    }
}

fn by_id<T>(rows: Vec<T>, id: impl Fn(&T) -> &String) -> BTreeMap<String, Vec<T>> {
    let mut grouped = BTreeMap::<String, Vec<T>>::new();
    for row in rows {
        grouped.entry(id(&row).clone()).or_default().push(row);
    }
    grouped
}
