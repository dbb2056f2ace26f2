//! The adapter: each verb is translate, ask the server, translate.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use stateway_model::{ExecutionId, ProviderId};
use stateway_provider_api::adapter::SkippingClock;
use stateway_provider_api::{
    Call, CancelRequest, Count, DefinitionsPage, DefinitionsRequest, Description, Health,
    HistoryPage, HistoryRequest, ListPage, ListRequest, NativeDefinition, Observation,
    PauseRequest, Provider, PurgeRequest, Result, ResumeRequest, RetryFromRequest, RetryNowRequest,
    SignalRequest, StartRequest, Table, Verb, View, WatchScope, WatchStream,
};

use crate::api::workflowservice::v1::{DescribeNamespaceRequest, GetSystemInfoRequest};
use crate::client::{Ask, Client};
use crate::codec::RemoteCodec;
use crate::count::{LastCount, count};
use crate::id::WorkflowRef;
use crate::quota::Api;
use crate::reader::Reader;
use crate::watch::{News, Watches};
use crate::{CAPABILITIES, Config, ConfigError, definitions, history, list, signal, start, steer};

/// How many executions are described at the same time.
const AT_ONCE: usize = 16;

/// One namespace of a Temporal cluster as a provider.
pub struct TemporalProvider {
    id: ProviderId,
    pub(crate) config: Config,
    pub(crate) reader: Arc<Reader>,
    watches: Watches,
    last_count: LastCount,
    description: Arc<Description>,
}

impl TemporalProvider {
    /// A provider for this namespace. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub fn new(
        id: ProviderId,
        config: &Config,
        table: Arc<Table>,
    ) -> std::result::Result<Self, ConfigError> {
        let clock = SkippingClock::default();
        let client = Arc::new(Client::new(config, &clock)?);
        let codec = RemoteCodec::new(config, &clock)?;
        let reader = Arc::new(Reader::new(client, clock, codec));
        Ok(Self {
            id,
            config: config.clone(),
            watches: Watches::new(Arc::clone(&reader), config.max_long_polls),
            reader,
            last_count: LastCount::default(),
            description: Description::fixed(CAPABILITIES, table),
        })
    }

    /// The time in which this provider counts its quotas and paces.
    #[must_use]
    pub fn clock(&self) -> SkippingClock {
        self.reader.clock.clone()
    }

    /// Something was requested of an execution: watches read it immediately.
    pub(crate) fn nudge(&self, of: &WorkflowRef) {
        self.reader.stir(of);
        self.last_count.forget();
        self.watches.report(News::Changed(of.workflow_id.clone()));
    }

    /// An execution was deleted.
    pub(crate) fn gone(&self, of: &WorkflowRef) {
        self.reader.stir(of);
        self.last_count.forget();
        self.watches.report(News::Gone(of.name()));
    }
}

#[async_trait]
impl Provider for TemporalProvider {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        let verb = Verb::Health;
        let ask = Ask { call, verb };
        let client = &self.reader.client;
        let namespace = DescribeNamespaceRequest {
            namespace: client.namespace(),
        };
        let namespace = client.describe_namespace(ask, namespace).await?;
        let info = client.get_system_info(ask, GetSystemInfoRequest::default());
        let offers = namespace.namespace_info.and_then(|info| info.capabilities);
        let pauses = offers.is_some_and(|offers| offers.workflow_pause);
        let paused = if pauses {
            "workflows"
        } else {
            "activities only"
        };
        let mut detail = format!("namespace {}; pauses {paused}", client.namespace());
        let codec = self.reader.codec.as_ref();
        if let Some(why) = codec.and_then(RemoteCodec::trouble) {
            detail.push_str("; payloads are not decoded: ");
            detail.push_str(&why);
        }
        Ok(Health {
            engine_version: info.await?.server_version,
            detail,
        })
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        let verb = Verb::Start;
        start::start(self, Ask { call, verb }, &request).await
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let verb = Verb::Get;
        let of = WorkflowRef::of(id, verb)?;
        self.reader.get(Ask { call, verb }, &of, view).await
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        let verb = Verb::Observe;
        let mut reads = Vec::with_capacity(ids.len());
        for id in ids {
            reads.push(async move {
                let of = WorkflowRef::of(id, verb)?;
                let ask = Ask { call, verb };
                self.reader.client.turn(ask, Api::Reads).await?;
                self.reader.look(ask, &of).await
            });
        }
        futures::stream::iter(reads)
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let verb = Verb::List;
        let by = (&*self.description.table, &self.id);
        list::list(&self.reader, Ask { call, verb }, request, by).await
    }

    async fn count(&self, call: &Call) -> Result<Vec<Count>> {
        let verb = Verb::Count;
        let of = (&*self.reader, &self.last_count);
        count(of, Ask { call, verb }, &self.description.table).await
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        let verb = Verb::History;
        let of = WorkflowRef::of(&request.id, verb)?;
        history::history(&self.reader, Ask { call, verb }, &of, &request).await
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        self.watches.open(call, scope).await
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        let verb = Verb::Signal;
        let of = WorkflowRef::of(&request.id, verb)?;
        signal::signal(self, Ask { call, verb }, &of, &request).await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let verb = request.verb();
        request.check_compensation(&CAPABILITIES)?;
        let of = WorkflowRef::of(&request.id, verb)?;
        steer::cancel(self, Ask { call, verb }, &of, &request).await
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        let verb = Verb::Pause;
        let of = WorkflowRef::of(&request.id, verb)?;
        steer::pause(self, Ask { call, verb }, &of, &request).await
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        let verb = Verb::Resume;
        let of = WorkflowRef::of(&request.id, verb)?;
        steer::resume(self, Ask { call, verb }, &of, &request).await
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        let verb = Verb::RetryNow;
        let of = WorkflowRef::of(&request.id, verb)?;
        steer::retry_now(self, Ask { call, verb }, &of, &request).await
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        let verb = Verb::RetryFrom;
        let of = WorkflowRef::of(&request.id, verb)?;
        steer::retry_from(self, Ask { call, verb }, &of, &request).await
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        let verb = Verb::Purge;
        let of = WorkflowRef::of(&request.id, verb)?;
        steer::purge(self, Ask { call, verb }, &of).await
    }

    async fn definitions(
        &self,
        call: &Call,
        request: DefinitionsRequest,
    ) -> Result<DefinitionsPage> {
        let verb = Verb::Definitions;
        definitions::list(self, Ask { call, verb }, &request).await
    }

    async fn definition(
        &self,
        call: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<NativeDefinition> {
        let verb = Verb::Definitions;
        definitions::read(self, Ask { call, verb }, name, revision).await
    }
}
