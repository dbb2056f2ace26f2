//! A provider over an engine that hosts the objects of this crate.
//!
//! Reads are queries on the stored values, so they work while no host runs. Every write is one request to
//! an object: its id and the digest of its body make it idempotent, and the object remembers it.

mod approvals;
mod capability;
mod definitions;
mod event_log;
mod history;
mod log;
mod port;
mod recent_sources;
mod redo;
mod request;
mod token;
mod triggers;
mod workers;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_machine::{CancelMode as Ending, Data, ExecutionState, Verb as Command};
use stateway_model::{ErrorKind, ExecutionId, SubState};
use stateway_provider_api::adapter::cursor::{self, LIST};
use stateway_provider_api::adapter::page_size;
use stateway_provider_api::{
    Approvals, Call, CancelMode, CancelRequest, CompensationChoice, Count, Description, Error,
    EventLog, Health, HistoryPage, HistoryRequest, ListPage, ListRequest, NativeState, Observation,
    PauseRequest, PortableDefinitions, Provider, PurgeRequest, Result, ResumeRequest,
    RetryFromRequest, RetryNowRequest, SignalRequest, StartRequest, Table, Triggers, Verb, View,
    Workers,
};

use crate::message::{Done, ObjectAnswer, ObjectRequest, Refusal, StoredView, VERSION, Work};
use crate::object::{INPUT, OUTPUT, VIEW};
use crate::observation;
use crate::portability::HostAbilities;
pub use capability::CAPABILITIES;
pub use port::{HostPort, ObjectKind, Pace, StoredValue, ViewQuery};
use recent_sources::RecentSources;
use request::{Body, data};
use workers::Dispatch;
pub use workers::{HttpAttempt, HttpCall, HttpSteps};

/// The role that decides about escalations by default.
pub const OPERATOR_ROLE: &str = "operator";

/// The most forks of an execution that are reported.
const MOST_FORKS: usize = 100;
/// The most rows of a page, whatever is asked for.
const MAX_PAGE: u32 = 1_000;

/// The time, for requests. A function, so that tests can move it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A provider of portable executions on an engine that hosts them.
pub struct HostedProvider<P> {
    host: Arc<Host<P>>,
    description: Arc<Description>,
    dispatch: Dispatch<P>,
    recent_sources: RecentSources,
    /// The roles that decide about escalations for which the definition names none.
    escalation_roles: Vec<Arc<str>>,
    /// Whether the gateway makes the calls of HTTP steps.
    calls_http: bool,
}

/// The objects of the engine, and the time for requests to them.
pub(crate) struct Host<P> {
    port: P,
    clock: Clock,
}

impl<P: HostPort> HostedProvider<P> {
    /// A provider on this engine. Nothing is asked of the engine yet.
    #[must_use]
    pub fn new(port: P, table: Arc<Table>) -> Self {
        Self::with_clock(port, table, Arc::new(Timestamp::now))
    }

    /// The same with another clock. For tests.
    #[must_use]
    pub fn with_clock(port: P, table: Arc<Table>, clock: Clock) -> Self {
        let capabilities = port.capabilities();
        let host = Arc::new(Host { port, clock });
        Self {
            dispatch: Dispatch::new(Arc::clone(&host)),
            description: Description::fixed(capabilities, table),
            host,
            recent_sources: RecentSources::default(),
            escalation_roles: vec![OPERATOR_ROLE.into()],
            calls_http: false,
        }
    }

    /// The same with other roles that decide about escalations for which the definition names none.
    /// Somebody must be able to decide, so an empty list changes nothing.
    #[must_use]
    pub fn with_escalation_roles(mut self, roles: Vec<Arc<str>>) -> Self {
        if !roles.is_empty() {
            self.escalation_roles = roles;
        }
        self
    }

    /// The same, making the calls of HTTP steps. Needs a Tokio runtime.
    #[must_use]
    pub fn with_http(mut self, steps: HttpSteps) -> Self {
        self.dispatch.serve_http(steps);
        self.calls_http = true;
        self
    }

    /// What of a definition depends on the engine and on the settings.
    fn abilities(&self) -> HostAbilities {
        HostAbilities {
            http: self.calls_http,
            schedules: self.host.port.has_schedules(),
            limits: self.host.port.limits(),
            pace: self.host.port.pace(),
        }
    }

    fn now(&self) -> Timestamp {
        self.host.now()
    }

    /// Sends a request to the object of an execution. What it says about tasks goes to the workers.
    async fn send(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
        request: &ObjectRequest,
    ) -> Result<Done> {
        let done = self.host.send(call, verb, id.as_str(), request).await?;
        self.dispatch.learn(&done);
        Ok(done)
    }

    /// Sends a command of a person or a service, and shows what became of the execution.
    async fn steer(
        &self,
        call: &Call,
        (verb, id): (Verb, &ExecutionId),
        (body, command): (Body, Command),
    ) -> Result<Observation> {
        let request = ObjectRequest {
            v: VERSION,
            id: Arc::clone(&body.id),
            at: self.now(),
            body: Some(body.digest),
            work: Work::Verb(Box::new(command)),
            claim: None,
        };
        let done = self.send(call, verb, id, &request).await?;
        Ok(observation(&done.seen.view, View::Basic))
    }

    /// The stored views of executions, by id.
    async fn views(
        &self,
        call: &Call,
        verb: Verb,
        ids: &[ExecutionId],
    ) -> Result<HashMap<String, StoredView>> {
        let keys: Vec<_> = ids.iter().map(ExecutionId::as_str).collect();
        let object = (ObjectKind::Execution, &keys[..]);
        let found = self.host.port.values(call, verb, object, VIEW).await?;
        found
            .into_iter()
            .map(|found| Ok((found.object.clone(), stored(verb, &found)?)))
            .collect()
    }

    async fn view(&self, call: &Call, verb: Verb, id: &ExecutionId) -> Result<StoredView> {
        let mut found = self.views(call, verb, std::slice::from_ref(id)).await?;
        found
            .remove(id.as_str())
            .ok_or_else(|| Error::not_found(verb, id).by_engine())
    }

    /// The executions that were forked from one, the newest first.
    async fn forks(&self, call: &Call, id: &ExecutionId) -> Result<Vec<ExecutionId>> {
        let query = ViewQuery {
            limit: MOST_FORKS,
            forked_from: Some(id.to_string()),
            ..ViewQuery::default()
        };
        let found = self.host.port.views(call, Verb::Get, &query).await?;
        let seen = found.iter().filter_map(|it| stored(Verb::Get, it).ok());
        let forks = seen.filter(|it| it.view.forked_from.as_deref() == Some(id.as_str()));
        Ok(forks.filter_map(|it| crate::id_of(&it.view.id)).collect())
    }

    /// Counts executions by reading every view.
    async fn count_views(&self, call: &Call) -> Result<BTreeMap<SubState, u64>> {
        let (mut counts, mut before) = (BTreeMap::new(), None);
        loop {
            let query = ViewQuery {
                before: before.take(),
                limit: MAX_PAGE as usize,
                ..ViewQuery::default()
            };
            let found = self.host.port.views(call, Verb::Count, &query).await?;
            for found in &found {
                let seen = stored(Verb::Count, found).map(|seen| seen.view.sub_state);
                *counts.entry(seen.unwrap_or(SubState::Error)).or_default() += 1;
            }
            let Some(last) = found.last().filter(|_| found.len() >= query.limit) else {
                return Ok(counts);
            };
            before = Some(place(Verb::Count, last)?);
        }
    }

    async fn payload(&self, call: &Call, id: &ExecutionId, key: &str) -> Result<Option<Data>> {
        let object = (ObjectKind::Execution, &[id.as_str()][..]);
        let found = self.host.port.values(call, Verb::Get, object, key).await?;
        let Some(found) = found.first() else {
            return Ok(None);
        };
        let value = serde_json::from_slice(&found.value);
        value
            .map(Some)
            .map_err(|error| unreadable(Verb::Get, &error))
    }
}

impl<P: HostPort> Host<P> {
    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Sends a request to the object of an execution.
    pub(crate) async fn send(
        &self,
        call: &Call,
        verb: Verb,
        id: &str,
        request: &ObjectRequest,
    ) -> Result<Done> {
        let request = serde_json::to_vec(request)
            .map_err(|error| Error::new(ErrorKind::Internal, verb, error.to_string()))?;
        let answer = self
            .port
            .send(call, verb, (ObjectKind::Execution, id), request)
            .await?;
        match serde_json::from_slice(&answer) {
            Ok(ObjectAnswer::Done(done)) => Ok(*done),
            Ok(ObjectAnswer::Refused(refusal)) => Err(refused(verb, refusal)),
            Err(error) => Err(unreadable(verb, &error)),
        }
    }
}

/// Where a list continues: after this execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListPosition {
    created: i64,
    id: String,
}

#[async_trait]
impl<P: HostPort> Provider for HostedProvider<P> {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        self.host.port.health(call).await
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        let (id, start) = self.start_request(call, request).await?;
        let done = self.send(call, Verb::Start, &id, &start).await?;
        Ok(observation(&done.seen.view, View::Basic))
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        let stored = self.view(call, Verb::Get, id).await?;
        let (mut seen, parent) = (stored.view, stored.parent);
        if view == View::Full {
            seen.input = self.payload(call, id, INPUT).await?.unwrap_or_default();
            seen.output = self.payload(call, id, OUTPUT).await?;
        }
        let mut shown = observation(&seen, view);
        shown.parent_execution = parent.as_deref().and_then(crate::id_of);
        // Only a success is forked.
        if view == View::Full && seen.state == ExecutionState::Completed {
            shown.forks = self.forks(call, id).await?;
        }
        Ok(shown)
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        match self.views(call, Verb::Observe, ids).await {
            Ok(found) => {
                let answer = |id: &ExecutionId| match found.get(id.as_str()) {
                    Some(seen) => Ok(observation(&seen.view, View::Basic)),
                    None => Err(Error::not_found(Verb::Observe, id).by_engine()),
                };
                ids.iter().map(answer).collect()
            }
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        let before: Option<ListPosition> =
            cursor::read(LIST, request.cursor.as_deref(), Verb::List)?;
        let limit = page_size(request.page_size, MAX_PAGE, Verb::List)? as usize;
        let wanted = request.hints.definition.as_ref();
        let query = ViewQuery {
            before: before.map(|at| (at.created, at.id)),
            limit,
            open_only: false,
            awaits_person: false,
            forked_from: None,
            definition: wanted
                .and_then(|wanted| wanted.portable_id())
                .map(Into::into),
        };
        // A pattern that no portable definition fits admits nothing here.
        if wanted.is_some() && query.definition.is_none() {
            return Ok(ListPage::default());
        }
        let found = self.host.port.views(call, Verb::List, &query).await?;
        let last = found.last().filter(|_| found.len() >= limit);
        let next = last.map(|last| {
            let (created, id) = place(Verb::List, last)?;
            Ok(cursor::write(LIST, &ListPosition { created, id }))
        });
        Ok(ListPage {
            observations: found.iter().filter_map(shown).collect(),
            next: next.transpose()?,
        })
    }

    async fn count(&self, call: &Call) -> Result<Vec<Count>> {
        let found = self.host.port.counts(call).await?;
        let mut counts: BTreeMap<SubState, u64> = BTreeMap::new();
        let mut is_known = true;
        for (word, count) in found {
            match word.parse::<SubState>() {
                Ok(sub_state) => *counts.entry(sub_state).or_default() += count,
                Err(_) => is_known = false,
            }
        }
        if !is_known {
            // Views of an earlier build do not begin with their sub-state.
            counts = self.count_views(call).await?;
        }
        let counts = counts.into_iter().map(|(sub_state, count)| {
            let mut counted = Count::in_state(NativeState::new(sub_state.as_str()), count);
            counted.example.reported = Some((sub_state, None));
            counted
        });
        Ok(counts.collect())
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        self.history_page(call, &request).await
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        let body = Body::of(call, Verb::Signal, &request.request_id)
            .text(request.id.as_str())
            .text(&request.signal)
            .payload(request.payload.as_ref())
            .finish();
        let signal = Command::SendSignal {
            name: request.signal.into(),
            id: Arc::clone(&body.id),
            payload: data(Verb::Signal, "signal's body", request.payload.as_ref())?,
            by: Arc::clone(&call.actor),
        };
        self.steer(call, (Verb::Signal, &request.id), (body, signal))
            .await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let verb = request.verb();
        let mode = match (request.mode, request.compensation) {
            (CancelMode::Kill, _) => Ending::Kill,
            (CancelMode::Graceful, CompensationChoice::AsDefined) => Ending::Policy,
            (CancelMode::Graceful, CompensationChoice::Compensate) => Ending::Compensate,
            (CancelMode::Graceful, CompensationChoice::Skip) => Ending::Stop,
        };
        let body = Body::of(call, verb, &request.request_id)
            .text(request.id.as_str())
            .text(&request.comment)
            .text(mode.as_str())
            .finish();
        let cancel = Command::Cancel {
            mode,
            by: Arc::clone(&call.actor),
            comment: request.comment.into(),
        };
        self.steer(call, (verb, &request.id), (body, cancel)).await
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        let body = Body::of(call, Verb::Pause, &request.request_id)
            .text(request.id.as_str())
            .text(&request.comment)
            .finish();
        let pause = Command::Pause {
            by: Arc::clone(&call.actor),
            comment: request.comment.into(),
        };
        self.steer(call, (Verb::Pause, &request.id), (body, pause))
            .await
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        let body = Body::of(call, Verb::Resume, &request.request_id)
            .text(request.id.as_str())
            .finish();
        let by = Arc::clone(&call.actor);
        self.steer(
            call,
            (Verb::Resume, &request.id),
            (body, Command::Resume { by }),
        )
        .await
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        let body = Body::of(call, Verb::RetryNow, &request.request_id)
            .text(request.id.as_str())
            .text(&request.step)
            .finish();
        let by = Arc::clone(&call.actor);
        let retry = if request.step.is_empty() {
            Command::RetryAll { by }
        } else {
            let step = request.step.into();
            Command::RetryNow { step, by }
        };
        self.steer(call, (Verb::RetryNow, &request.id), (body, retry))
            .await
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        self.redo(call, request).await
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        let purge = ObjectRequest {
            v: VERSION,
            id: request.request_id.as_str().into(),
            at: self.now(),
            body: None,
            work: Work::Purge,
            claim: None,
        };
        self.send(call, Verb::Purge, &request.id, &purge)
            .await
            .map(drop)
    }

    fn workers(&self) -> Option<&dyn Workers> {
        Some(self)
    }

    fn triggers(&self) -> Option<&dyn Triggers> {
        Some(self)
    }

    fn event_log(&self) -> Option<&dyn EventLog> {
        Some(self)
    }

    fn approvals(&self) -> Option<&dyn Approvals> {
        Some(self)
    }

    fn portable_definitions(&self) -> Option<&dyn PortableDefinitions> {
        Some(self)
    }
}

/// A stored view as a row of a list. One view that cannot be read does not hide the others.
fn shown(found: &StoredValue) -> Option<Observation> {
    match stored(Verb::List, found) {
        Ok(seen) => Some(observation(&seen.view, View::Basic)),
        Err(error) => {
            let id = ExecutionId::new(&found.object).ok()?;
            Some(observation::unreadable(id, &error.message))
        }
    }
}

/// A stored view. The engine's tables can be written by others, so its id is checked.
fn stored(verb: Verb, found: &StoredValue) -> Result<StoredView> {
    let seen: StoredView =
        serde_json::from_slice(&found.value).map_err(|error| unreadable(verb, &error))?;
    if *seen.view.id != *found.object || ExecutionId::new(&found.object).is_err() {
        let message = format!(
            "the object `{}` stores the view of `{}`",
            found.object, seen.view.id
        );
        return Err(Error::new(ErrorKind::Malformed, verb, message));
    }
    Ok(seen)
}

/// The place of a stored view in lists, also of one that cannot be read otherwise.
fn place(verb: Verb, found: &StoredValue) -> Result<(i64, String)> {
    #[derive(Deserialize)]
    struct Place {
        n: i64,
    }
    let place: Place =
        serde_json::from_slice(&found.value).map_err(|error| unreadable(verb, &error))?;
    Ok((place.n, found.object.clone()))
}

fn unreadable(verb: Verb, error: &serde_json::Error) -> Error {
    let message = format!("the data or the answer of the host cannot be read: {error}");
    Error::new(ErrorKind::Malformed, verb, message)
        .with_hint("Gateway and host may be of different versions: upgrade the older one.")
}

fn refused(verb: Verb, refusal: Refusal) -> Error {
    let kind = ErrorKind::from_word(&refusal.kind).unwrap_or(ErrorKind::Malformed);
    Error::new(kind, verb, refusal.message)
        .with_reason(refusal.reason)
        .with_hint(refusal.hint)
        .by_engine()
}
