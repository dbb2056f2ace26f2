//! The adapter: each verb is translate, ask the upstream, translate.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::adapter::cursor::{self, HISTORY, LIST, NEWEST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Count, Description, EventOrder, Health,
    HistoryPage, HistoryRequest, ListPage, ListRequest, Observation, PauseRequest, Provider,
    PurgeRequest, RequestId, Result, ResumeRequest, RetryFromRequest, RetryNowRequest,
    SignalRequest, StartRequest, Table, Verb, View, WatchScope, WatchStream, classify,
};

use crate::error::no_step_input;
use crate::request::{Narrowing, Scripts, script_of};
use crate::response::observation;
use crate::script::{Ask, catalogue};
use crate::store::Start;
use crate::{CAPABILITIES, Clock, Config, ConfigError, Upstream, watch};

/// The in-memory reference provider.
pub struct MemoryProvider {
    id: ProviderId,
    description: Arc<Description>,
    scripts: Scripts,
    upstream: Arc<Upstream>,
    max_executions: usize,
    list_scan: usize,
}

impl MemoryProvider {
    /// A provider with a new upstream, in the system's time.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(
        id: ProviderId,
        config: &Config,
        table: Arc<Table>,
    ) -> std::result::Result<Self, ConfigError> {
        Self::on(Upstream::new(Clock::system()), id, config, table)
    }

    /// A provider on an upstream that may have others.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn on(
        upstream: Arc<Upstream>,
        id: ProviderId,
        config: &Config,
        table: Arc<Table>,
    ) -> std::result::Result<Self, ConfigError> {
        for (name, limit) in [
            ("max_executions", config.max_executions),
            ("list_scan", config.list_scan),
        ] {
            if limit == 0 {
                return Err(ConfigError::Zero(name));
            }
        }
        let mut scripts = catalogue();
        for (name, script) in &config.scripts {
            script.check().map_err(|error| ConfigError::Script {
                name: name.clone(),
                error,
            })?;
            scripts.insert(name.clone(), Arc::new(script.clone()));
        }
        Ok(Self {
            id,
            description: Description::fixed(CAPABILITIES, table),
            scripts,
            upstream,
            max_executions: config.max_executions,
            list_scan: config.list_scan,
        })
    }

    fn table(&self) -> &Table {
        &self.description.table
    }

    /// Carries the call over the line.
    async fn reach(&self, call: &Call, verb: Verb) -> Result<()> {
        self.upstream.line.carry(call, verb).await
    }

    /// Asks something of an execution and shows what became of it.
    async fn ask(
        &self,
        call: &Call,
        verb: Verb,
        (id, request_id, ask): (&ExecutionId, RequestId, Ask),
    ) -> Result<Observation> {
        self.reach(call, verb).await?;
        let seen = self.upstream.with(|store, now| {
            let record = store.ask(id, request_id, ask, (verb, now))?;
            Ok(observation(record, View::Basic))
        })?;
        self.upstream.tell(id);
        Ok(seen)
    }
}

#[async_trait]
impl Provider for MemoryProvider {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        self.reach(call, Verb::Health).await?;
        Ok(Health {
            engine_version: env!("CARGO_PKG_VERSION").to_owned(),
            detail: "in memory; lost when the process ends".to_owned(),
        })
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        let script = script_of(&request, &self.scripts)?;
        self.reach(call, Verb::Start).await?;
        let start = Start { script, request };
        let (seen, changed) = self.upstream.with(|store, now| {
            let (record, changed) = store.start(start, self.max_executions, now)?;
            Ok((observation(record, View::Basic), changed))
        })?;
        changed.iter().for_each(|id| self.upstream.tell(id));
        Ok(seen)
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        self.reach(call, Verb::Get).await?;
        self.upstream.with(|store, now| {
            let record = store.get(id, now, Verb::Get)?;
            Ok(observation(record, view))
        })
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        if let Err(error) = self.reach(call, Verb::Observe).await {
            return ids.iter().map(|_| Err(error.clone())).collect();
        }
        self.upstream.with(|store, now| {
            let get = |id| {
                let record = store.get(id, now, Verb::Observe)?;
                Ok(observation(record, View::Basic))
            };
            ids.iter().map(get).collect()
        })
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        self.reach(call, Verb::List).await?;
        let from = cursor::read(LIST, request.cursor.as_deref(), Verb::List)?;
        let page_size = page_size(request.page_size, u32::MAX, Verb::List)? as usize;
        let narrowing = Narrowing::new(&request.hints, self.table(), &self.id);
        Ok(self.upstream.with(|store, now| {
            let mut page = ListPage::default();
            let mut last = None;
            for (looked_at, (number, record)) in store.before(from, now).enumerate() {
                if looked_at == self.list_scan || page.observations.len() == page_size {
                    page.next = last.map(|last| cursor::write(LIST, &last));
                    break;
                }
                last = Some(number);
                let seen = observation(record, View::Basic);
                if narrowing.may_admit(&seen, record.definition()) {
                    page.observations.push(seen);
                }
            }
            page
        }))
    }

    async fn count(&self, call: &Call) -> Result<Vec<Count>> {
        self.reach(call, Verb::Count).await?;
        Ok(self.upstream.with(|store, now| {
            let mut groups: BTreeMap<_, Count> = BTreeMap::new();
            for (_, record) in store.before(None, now) {
                let seen = observation(record, View::Basic);
                let sub_state = classify(self.table(), &seen, now).execution.sub_state;
                let group = groups.entry((seen.native.clone(), sub_state));
                group.or_insert_with(|| Count::of(seen, 0)).count += 1;
            }
            groups.into_values().collect()
        }))
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        self.reach(call, Verb::History).await?;
        let list = match request.order {
            EventOrder::OldestFirst => HISTORY,
            EventOrder::NewestFirst => NEWEST,
        };
        let from = cursor::read(list, request.cursor.as_deref(), Verb::History)?;
        let page_size = page_size(request.page_size, u32::MAX, Verb::History)? as usize;
        self.upstream.with(|store, now| {
            let events = &store.get(&request.id, now, Verb::History)?.run.events;
            Ok(match request.order {
                EventOrder::OldestFirst => {
                    let first = from.unwrap_or(0).min(events.len());
                    let last = first.saturating_add(page_size).min(events.len());
                    let more = last < events.len();
                    HistoryPage {
                        events: events[first..last].to_vec(),
                        next: more.then(|| cursor::write(list, &last)),
                    }
                }
                EventOrder::NewestFirst => {
                    let last = from.unwrap_or(events.len()).min(events.len());
                    let first = last.saturating_sub(page_size);
                    HistoryPage {
                        events: events[first..last].iter().rev().cloned().collect(),
                        next: (first > 0).then(|| cursor::write(list, &first)),
                    }
                }
            })
        })
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        self.reach(call, scope.verb()).await?;
        watch::open(self.upstream.clone(), scope)
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        let ask = Ask::Signal {
            name: request.signal,
            payload: request.payload,
        };
        self.ask(call, Verb::Signal, (&request.id, request.request_id, ask))
            .await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        // A script compensates what it can unless the caller chooses.
        let compensate = request.compensation != CompensationChoice::Skip;
        let comment = request.comment;
        let (verb, ask) = match request.mode {
            CancelMode::Graceful => (
                Verb::Cancel,
                Ask::Cancel {
                    comment,
                    compensate,
                },
            ),
            CancelMode::Kill => (Verb::Kill, Ask::Kill { comment }),
        };
        self.ask(call, verb, (&request.id, request.request_id, ask))
            .await
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        let ask = Ask::Pause {
            comment: request.comment,
        };
        self.ask(call, Verb::Pause, (&request.id, request.request_id, ask))
            .await
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        let about = (&request.id, request.request_id, Ask::Resume);
        self.ask(call, Verb::Resume, about).await
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        let ask = Ask::RetryNow { step: request.step };
        self.ask(call, Verb::RetryNow, (&request.id, request.request_id, ask))
            .await
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        if request.input.is_some() {
            return Err(no_step_input());
        }
        request.ensure_plain()?;
        let ask = Ask::RetryFrom { step: request.step };
        let about = (&request.id, request.request_id, ask);
        self.ask(call, Verb::RetryFrom, about).await
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        self.reach(call, Verb::Purge).await?;
        self.upstream
            .with(|store, now| store.purge(&request.id, now))?;
        self.upstream.tell(&request.id);
        Ok(())
    }
}
