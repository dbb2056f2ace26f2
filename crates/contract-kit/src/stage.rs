//! What a case works with: the subject, its table, and short ways to ask and to expect.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use stateway_model::{Execution, ExecutionId, Labels, ProviderId, SubState};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{
    ApplyDefinitionRequest, Call, CancelMode, CancelRequest, Capabilities, CompensationChoice,
    DefinitionsRequest, Error, ErrorKind, EventOrder, HistoryRequest, ListRequest, Mapper,
    Observation, PauseRequest, Provider, PurgeRequest, RequestId, ResumeRequest, RetryFromRequest,
    RetryNowRequest, SignalRequest, StartDefinition, StartRequest, Table, View, WatchStream,
    Watched,
};

use crate::case::ensure;
use crate::{Fault, Scene, Stop, Subject, Workload};

/// How long a case waits for an upstream that is not disturbed, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a case waits for a stream to say something.
const STREAM_PATIENCE: Duration = Duration::from_secs(15);
/// The most pages a case reads before it calls the paging endless.
const MOST_PAGES: usize = 1_000;

/// A fresh provider, ready for a case.
pub struct Stage {
    subject: Box<dyn Subject>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) table: Arc<Table>,
    requests: AtomicU32,
}

impl Stage {
    pub(crate) fn new(
        subject: Box<dyn Subject>,
        table: Arc<Table>,
        allowed: Option<Capabilities>,
    ) -> Self {
        Self {
            provider: match allowed {
                Some(allowed) => subject.limited(allowed),
                None => subject.provider(),
            },
            subject,
            table,
            requests: AtomicU32::new(0),
        }
    }

    pub(crate) fn call(&self) -> Call {
        Call::within(PATIENCE)
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.subject.now()
    }

    pub(crate) fn workload(&self) -> Workload {
        self.subject.workload()
    }

    pub(crate) async fn scene(&self, scene: Scene) -> Result<ExecutionId, Stop> {
        Ok(self.subject.stage(scene).await?)
    }

    pub(crate) async fn inject(&self, fault: Fault) -> Result<(), Stop> {
        Ok(self.subject.inject(fault).await?)
    }

    /// Goes on with another provider on the same upstream.
    pub(crate) async fn restart(&mut self) -> Result<(), Stop> {
        self.provider = self.subject.restart().await?;
        Ok(())
    }

    /// An idempotency key that no other request of this case has.
    pub(crate) fn request_id(&self) -> RequestId {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let id = format!("kit-{number}").parse();
        id.expect("letters, digits and a hyphen")
    }

    /// An id that no execution has.
    pub(crate) fn nobody(&self) -> ExecutionId {
        ExecutionId::new("kit-nobody").expect("short and not empty")
    }

    pub(crate) fn start_request(&self) -> StartRequest {
        let workload = self.workload();
        let definition = StartDefinition::native(workload.definition);
        StartRequest {
            input: Some(workload.input),
            ..StartRequest::new(definition, self.request_id())
        }
    }

    /// An execution that stays open: started, or staged where nothing can be started.
    pub(crate) async fn open(&self) -> Result<ExecutionId, Stop> {
        if !self.provider.capabilities().start {
            return self.scene(Scene::NoMetadata).await;
        }
        let started = self
            .provider
            .start(&self.call(), self.start_request())
            .await;
        let id = answered("start", started)?.id;
        self.subject.until_listed(&id).await;
        Ok(id)
    }

    pub(crate) async fn get(&self, id: &ExecutionId) -> Result<Observation, Stop> {
        let got = self.provider.get(&self.call(), id, View::Basic).await;
        answered("get", got)
    }

    /// The execution with its steps, which some engines' adapters have only in the full view.
    pub(crate) async fn get_full(&self, id: &ExecutionId) -> Result<Observation, Stop> {
        let got = self.provider.get(&self.call(), id, View::Full).await;
        answered("get", got)
    }

    /// The execution as clients see it.
    pub(crate) fn shown(&self, seen: Observation) -> Execution {
        let provider: ProviderId = "kit".parse().expect("a short lower-case word");
        Mapper::new(provider).execution(&self.table, seen, self.now())
    }

    pub(crate) async fn sub_state(&self, id: &ExecutionId) -> Result<SubState, Stop> {
        Ok(self.shown(self.get(id).await?).sub_state)
    }

    pub(crate) fn signal_request(&self, id: &ExecutionId, signal: &str) -> SignalRequest {
        SignalRequest {
            id: id.clone(),
            signal: signal.to_owned(),
            payload: None,
            request_id: self.request_id(),
        }
    }

    pub(crate) fn cancel_request(&self, id: &ExecutionId, mode: CancelMode) -> CancelRequest {
        CancelRequest {
            id: id.clone(),
            mode,
            compensation: CompensationChoice::AsDefined,
            comment: "contract kit".to_owned(),
            request_id: self.request_id(),
        }
    }

    pub(crate) fn pause_request(&self, id: &ExecutionId) -> PauseRequest {
        PauseRequest {
            id: id.clone(),
            comment: "contract kit".to_owned(),
            request_id: self.request_id(),
        }
    }

    pub(crate) fn resume_request(&self, id: &ExecutionId) -> ResumeRequest {
        ResumeRequest {
            id: id.clone(),
            request_id: self.request_id(),
        }
    }

    pub(crate) fn retry_now_request(&self, id: &ExecutionId) -> RetryNowRequest {
        RetryNowRequest {
            id: id.clone(),
            step: String::new(),
            request_id: self.request_id(),
        }
    }

    pub(crate) fn retry_from_request(&self, id: &ExecutionId) -> RetryFromRequest {
        RetryFromRequest {
            id: id.clone(),
            step: String::new(),
            input: None,
            feedback: String::new(),
            from_start: false,
            request_id: self.request_id(),
            execution_id: None,
        }
    }

    pub(crate) async fn signal(
        &self,
        id: &ExecutionId,
        signal: &str,
    ) -> stateway_provider_api::Result<Observation> {
        let request = self.signal_request(id, signal);
        self.provider.signal(&self.call(), request).await
    }

    pub(crate) async fn cancel(
        &self,
        id: &ExecutionId,
        mode: CancelMode,
    ) -> stateway_provider_api::Result<Observation> {
        let request = self.cancel_request(id, mode);
        self.provider.cancel(&self.call(), request).await
    }

    pub(crate) fn definitions_request(&self) -> DefinitionsRequest {
        DefinitionsRequest {
            page_size: 2,
            cursor: None,
        }
    }

    pub(crate) fn apply_request(&self, name: &str, source: &str) -> ApplyDefinitionRequest {
        ApplyDefinitionRequest {
            name: name.to_owned(),
            source: source.to_owned(),
            labels: Labels::new(),
            request_id: self.request_id(),
        }
    }

    pub(crate) async fn purge(&self, id: &ExecutionId) -> stateway_provider_api::Result<()> {
        let request = PurgeRequest {
            id: id.clone(),
            request_id: self.request_id(),
        };
        self.provider.purge(&self.call(), request).await
    }

    /// Every row of a list, page by page.
    pub(crate) async fn list_all(
        &self,
        hints: Hints,
        page_size: u32,
    ) -> Result<Vec<Observation>, Stop> {
        let mut rows = Vec::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let request = ListRequest {
                hints: hints.clone(),
                page_size,
                cursor,
            };
            let page = answered("list", self.provider.list(&self.call(), request).await)?;
            let length = page.observations.len();
            ensure!(
                length <= page_size as usize,
                "a page of at most {page_size} rows has {length}"
            );
            rows.extend(page.observations);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(rows);
            }
        }
        Err(Stop::Failed(format!("no end after {MOST_PAGES} pages")))
    }

    /// Every event of a history, page by page, oldest first.
    pub(crate) async fn history_all(
        &self,
        id: &ExecutionId,
        page_size: u32,
    ) -> Result<Vec<stateway_model::Event>, Stop> {
        self.history_in(EventOrder::OldestFirst, id, page_size)
            .await
    }

    /// Every event of a history, page by page, in this order.
    pub(crate) async fn history_in(
        &self,
        order: EventOrder,
        id: &ExecutionId,
        page_size: u32,
    ) -> Result<Vec<stateway_model::Event>, Stop> {
        let mut events = Vec::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let request = HistoryRequest {
                id: id.clone(),
                page_size,
                cursor,
                view: View::Basic,
                order,
            };
            let page = answered(
                "history",
                self.provider.history(&self.call(), request).await,
            )?;
            events.extend(page.events);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(events);
            }
        }
        Err(Stop::Failed(format!("no end after {MOST_PAGES} pages")))
    }
}

/// The answer, or the end of the case.
pub(crate) fn answered<T>(what: &str, result: stateway_provider_api::Result<T>) -> Result<T, Stop> {
    result.map_err(|error| {
        let (kind, reason) = (error.kind, error.reason());
        Stop::Failed(format!(
            "{what} was not answered: {error} ({kind:?}, {reason})"
        ))
    })
}

/// The refusal of this kind, or the end of the case.
pub(crate) fn refused<T>(
    what: &str,
    result: stateway_provider_api::Result<T>,
    kind: ErrorKind,
) -> Result<Error, Stop> {
    match result {
        Ok(_) => Err(Stop::Failed(format!(
            "{what} was answered, not refused as {kind:?}"
        ))),
        Err(error) if error.kind == kind => Ok(error),
        Err(error) => Err(Stop::Failed(format!(
            "{what} was refused as {:?}, not {kind:?}: {error}",
            error.kind
        ))),
    }
}

/// The refusal of this kind and reason, or the end of the case.
pub(crate) fn refused_because<T>(
    what: &str,
    result: stateway_provider_api::Result<T>,
    kind: ErrorKind,
    reason: &str,
) -> Result<(), Stop> {
    let error = refused(what, result, kind)?;
    ensure!(
        error.reason() == reason,
        "{what} was refused with reason {}, not {reason}",
        error.reason()
    );
    Ok(())
}

/// The next item of a stream, or the end of the case.
pub(crate) async fn next_item<T>(
    stream: &mut BoxStream<'static, Result<T, Error>>,
) -> Result<T, Stop> {
    match soon(stream.next()).await? {
        Some(item) => answered("watch", item),
        None => Err(Stop::Failed("the stream ended too early".to_owned())),
    }
}

/// The next observation of a stream, or the end of the case.
pub(crate) async fn next(stream: &mut WatchStream) -> Result<Observation, Stop> {
    loop {
        if let Watched::Seen(seen) = next_item(stream).await? {
            return Ok(*seen);
        }
    }
}

/// The next item, or the end of the case if none comes soon.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> Result<T, Stop> {
    let waited = tokio::time::timeout(STREAM_PATIENCE, future).await;
    waited.map_err(|_| Stop::Failed(format!("nothing came within {STREAM_PATIENCE:?}")))
}
