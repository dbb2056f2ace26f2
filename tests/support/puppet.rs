//! A provider whose engine is the test: it shows what it is told to, hangs or fails on demand,
//! and counts how often it is asked.

mod crew;
mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Approval, ApprovalState, ApprovalStream, Approvals, DecideRequest, Escalation, InboxId,
    InboxPage, InboxRequest, PersonDecision, Recovery, ResolveRequest, WatchedApproval, Workers,
};
use stateway_provider_api::{
    Call, CancelRequest, Capabilities, DefinitionsPage, DefinitionsRequest, Description, Error,
    ErrorKind, Health, HistoryPage, HistoryRequest, ListPage, ListRequest, NativeDefinition,
    NativeState, Observation, PauseRequest, Provider, PurgeRequest, Result, ResumeRequest,
    RetryFromRequest, RetryNowRequest, SignalRequest, StartRequest, Verb, Version, View,
    WatchScope, WatchStream, Watched, one_by_one,
};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;

use super::gateway::table;

/// How long a call may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Puppet {
    state: Arc<Mutex<State>>,
    description: Arc<Mutex<Arc<Description>>>,
    offers_approvals: bool,
    /// Offers tasks for workers, and verifies its executions.
    has_crew: bool,
}

#[derive(Default)]
struct State {
    shown: BTreeMap<ExecutionId, Observation>,
    asked: BTreeMap<Verb, usize>,
    batches: Vec<usize>,
    hangs: bool,
    fails: Option<(ErrorKind, Option<Duration>)>,
    component_down: Option<(&'static str, Vec<Verb>)>,
    budgets: Vec<Duration>,
    list_takes: Duration,
    panics_once: bool,
    /// Executions that lists leave out, as a list that lags behind does.
    unlisted: BTreeSet<ExecutionId>,
    /// Set where the puppet pushes: what its watchers receive.
    pushed: Option<broadcast::Sender<Watched>>,
    /// The version of the last observation, where the puppet pushes.
    version: u64,
    /// Cancels answer what was shown before, this much later.
    late_cancels: Option<Duration>,
    /// Definitions of its own: revisions of one name, newest first.
    defined: Vec<NativeDefinition>,
    /// What waits for a person.
    approvals: Vec<Approval>,
    /// How many events the history of every execution has.
    events: u64,
    /// The ids of its connected workers.
    workers: Vec<String>,
    /// How many executions it has, every one of them with a finding.
    faulty: usize,
    /// Set where the puppet pushes its approvals: what their watchers receive.
    pushed_approvals: Option<broadcast::Sender<WatchedApproval>>,
}

impl State {
    fn push_approval(&self, item: WatchedApproval) {
        if let Some(pushed) = &self.pushed_approvals {
            let _ = pushed.send(item);
        }
    }
}

fn inbox_id(execution: &str, step: &str) -> InboxId {
    InboxId {
        execution: ExecutionId::new(execution).expect("an id"),
        id: format!("ask-{step}"),
    }
}

impl Puppet {
    /// A provider that can only be polled.
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::default(),
            description: described(Capabilities {
                watch_one: false,
                watch_end: false,
                watch_all: false,
                watch_approvals: false,
                count: false,
                ..Capabilities::ALL
            }),
            offers_approvals: false,
            has_crew: false,
        }
    }

    /// A provider whose engine asks people to approve.
    pub(crate) fn with_approvals() -> Self {
        Self {
            offers_approvals: true,
            ..Self::new()
        }
    }

    /// The same, and it pushes the changes of its approvals.
    pub(crate) fn pushing_approvals() -> Self {
        let puppet = Self {
            offers_approvals: true,
            ..Self::with_capabilities(Capabilities {
                watch_one: false,
                watch_end: false,
                watch_all: false,
                count: false,
                ..Capabilities::ALL
            })
        };
        puppet.lose_track_of_approvals();
        puppet
    }

    /// Ends every stream of approvals, as a provider that has lost track of changes does.
    pub(crate) fn lose_track_of_approvals(&self) {
        self.lock().pushed_approvals = Some(broadcast::Sender::new(1_024));
    }

    /// Withdraws an approval.
    pub(crate) fn withdraw(&self, execution: &str, step: &str) {
        let mut state = self.lock();
        let id = inbox_id(execution, step);
        let found = state.approvals.iter_mut().find(|one| one.id == id);
        let found = found.expect("it was asked for");
        found.state = ApprovalState::Withdrawn;
        let found = found.clone();
        state.push_approval(WatchedApproval::Seen(Box::new(found)));
    }

    /// Forgets an approval, as a purge does.
    pub(crate) fn forget_approval(&self, execution: &str, step: &str) {
        let mut state = self.lock();
        let id = inbox_id(execution, step);
        state.approvals.retain(|one| one.id != id);
        state.push_approval(WatchedApproval::Gone(id));
    }

    /// Asks for an approval of an execution's step.
    pub(crate) fn ask(&self, execution: &str, step: &str, role: &str) {
        let approval = Approval {
            id: inbox_id(execution, step),
            state: ApprovalState::Pending,
            step: step.to_owned(),
            attempt: 1,
            branch: 0,
            role: role.to_owned(),
            policy_rule: String::new(),
            create_time: jiff::Timestamp::now(),
            expire_time: None,
            decision: None,
            definition: "order".to_owned(),
            revision: String::new(),
            initiator: String::new(),
            labels: BTreeMap::new(),
            input: None,
        };
        let mut state = self.lock();
        state.approvals.retain(|one| one.id != approval.id);
        state.approvals.push(approval.clone());
        state.push_approval(WatchedApproval::Seen(Box::new(approval)));
    }

    /// A provider that pushes the changes of its collection, with versions.
    pub(crate) fn pushing() -> Self {
        let puppet = Self::with_capabilities(Capabilities {
            watch_one: false,
            watch_end: false,
            count: false,
            ..Capabilities::ALL
        });
        puppet.lock().pushed = Some(broadcast::Sender::new(1_024));
        puppet
    }

    pub(crate) fn with_capabilities(capabilities: Capabilities) -> Self {
        Self {
            description: described(capabilities),
            ..Self::new()
        }
    }

    /// Describes itself like this from now on, as after a reconnect.
    pub(crate) fn describe_as(&self, description: Arc<Description>) {
        *self.description.lock().expect("not poisoned") = description;
    }

    /// Shows an execution in a native state from now on.
    pub(crate) fn show(&self, id: &str, native: &str) {
        self.show_observation(Observation::new(
            ExecutionId::new(id).expect("an id"),
            NativeState::new(native),
        ));
    }

    pub(crate) fn show_observation(&self, mut observation: Observation) {
        let mut state = self.lock();
        if let Some(pushed) = state.pushed.clone() {
            state.version += 1;
            observation.version = Some(Version::new(state.version));
            let _ = pushed.send(Watched::seen(observation.clone()));
        }
        state.shown.insert(observation.id.clone(), observation);
    }

    pub(crate) fn remove(&self, id: &str) {
        let id = ExecutionId::new(id).expect("an id");
        let mut state = self.lock();
        state.shown.remove(&id);
        if let Some(pushed) = &state.pushed {
            let _ = pushed.send(Watched::Gone(id));
        }
    }

    /// Whether lists leave this execution out from now on.
    pub(crate) fn unlist(&self, id: &str, unlisted: bool) {
        let id = ExecutionId::new(id).expect("an id");
        let mut state = self.lock();
        if unlisted {
            state.unlisted.insert(id);
        } else {
            state.unlisted.remove(&id);
        }
    }

    /// Ends every stream, as a provider that has lost track of changes does.
    pub(crate) fn lose_track(&self) {
        self.lock().pushed = Some(broadcast::Sender::new(1_024));
    }

    /// Cancels answer what was shown before, this much later.
    pub(crate) fn late_cancels(&self, late: Duration) {
        self.lock().late_cancels = Some(late);
    }

    /// It has these definitions of its own: revisions of one name, newest first.
    pub(crate) fn define(&self, revisions: Vec<NativeDefinition>) {
        self.lock().defined = revisions;
    }

    /// Whether every call hangs from now on.
    pub(crate) fn hang(&self, hangs: bool) {
        self.lock().hangs = hangs;
    }

    /// Every call fails like this from now on.
    pub(crate) fn fail(&self, kind: ErrorKind, pause: Option<Duration>) {
        self.lock().fails = Some((kind, pause));
    }

    /// A component of the engine is down from now on: the verbs that need the component fail.
    pub(crate) fn component_down(&self, component: &'static str, verbs: &[Verb]) {
        self.lock().component_down = Some((component, verbs.to_vec()));
    }

    /// Lists take this long from now on, and show what there was when they began.
    pub(crate) fn slow_lists(&self, take: Duration) {
        self.lock().list_takes = take;
    }

    /// The next observation panics.
    pub(crate) fn panic_once(&self) {
        self.lock().panics_once = true;
    }

    pub(crate) fn recover(&self) {
        let mut state = self.lock();
        state.fails = None;
        state.component_down = None;
    }

    /// How often it was asked.
    pub(crate) fn asked(&self, verb: Verb) -> usize {
        self.lock().asked.get(&verb).copied().unwrap_or_default()
    }

    /// How often it was asked, for each verb.
    pub(crate) fn all_asked(&self) -> BTreeMap<Verb, usize> {
        self.lock().asked.clone()
    }

    /// Waits until it was asked at least this often.
    pub(crate) async fn until_asked(&self, verb: Verb, least: usize) {
        let asked = async {
            while self.asked(verb) < least {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let asked = tokio::time::timeout(PATIENCE, asked).await;
        asked.unwrap_or_else(|_| panic!("it was asked {} times", self.asked(verb)));
    }

    /// The sizes of the batches it was asked to observe.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.lock().batches.clone()
    }

    /// How much time the calls it got were given.
    pub(crate) fn budgets(&self) -> Vec<Duration> {
        self.lock().budgets.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no test panics while it holds the strings")
    }

    async fn come_in(&self, call: &Call, verb: Verb) -> Result<()> {
        let hangs = {
            let mut state = self.lock();
            *state.asked.entry(verb).or_default() += 1;
            if verb != Verb::Health {
                state.budgets.push(call.remaining());
            }
            if let Some((kind, pause)) = state.fails {
                let mut error = Error::new(kind, verb, "the test says so");
                error.retry_after = pause;
                return Err(error);
            }
            if let Some((component, verbs)) = &state.component_down
                && verbs.contains(&verb)
            {
                let message = format!("the {component} cannot be reached");
                let error = Error::new(ErrorKind::Unavailable, verb, message);
                return Err(error.with_component(*component));
            }
            state.hangs
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn shown(&self, verb: Verb, id: &ExecutionId) -> Result<Observation> {
        self.lock()
            .shown
            .get(id)
            .cloned()
            .ok_or_else(|| Error::not_found(verb, id))
    }

    async fn answer(&self, call: &Call, verb: Verb, id: &ExecutionId) -> Result<Observation> {
        self.come_in(call, verb).await?;
        self.shown(verb, id)
    }
}

#[async_trait]
impl Provider for Puppet {
    fn describe(&self) -> Arc<Description> {
        self.description.lock().expect("not poisoned").clone()
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        self.come_in(call, Verb::Health).await?;
        Ok(Health {
            engine_version: "puppet".into(),
            detail: String::new(),
        })
    }

    async fn start(&self, call: &Call, request: StartRequest) -> Result<Observation> {
        self.come_in(call, Verb::Start).await?;
        // An engine that has definitions of its own starts no others.
        let defined = self.lock().defined.first().map(|one| one.name.clone());
        if defined.is_some_and(|defined| defined != request.definition.id()) {
            let message = format!("no workflow `{}`", request.definition.id());
            let error = Error::new(ErrorKind::NotFound, Verb::Start, message);
            return Err(error.with_reason("DEFINITION_NOT_FOUND"));
        }
        let id = request
            .execution_id
            .unwrap_or(ExecutionId::new("new").expect("an id"));
        let mut observation = Observation::new(id, NativeState::new("RUNNING"));
        observation.labels = request.labels;
        self.show_observation(observation.clone());
        Ok(observation)
    }

    async fn get(&self, call: &Call, id: &ExecutionId, _: View) -> Result<Observation> {
        self.answer(call, Verb::Get, id).await
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        self.lock().batches.push(ids.len());
        let panics = std::mem::take(&mut self.lock().panics_once);
        assert!(!panics, "the test wants an adapter's panic");
        one_by_one(self, call, ids).await
    }

    /// The cursor is the last id; every other page is empty, as the contract allows.
    async fn list(&self, call: &Call, request: ListRequest) -> Result<ListPage> {
        self.come_in(call, Verb::List).await?;
        let cursor = request.cursor.unwrap_or_default();
        if let Some(last) = cursor.strip_prefix("empty:") {
            return Ok(ListPage {
                observations: Vec::new(),
                next: Some(last.to_owned()),
            });
        }
        let (shown, takes) = {
            let state = self.lock();
            let mut shown = state.shown.clone();
            shown.retain(|id, _| !state.unlisted.contains(id));
            (shown, state.list_takes)
        };
        tokio::time::sleep(takes).await;
        let mut rest = shown
            .values()
            .filter(|observation| observation.id.as_str() > cursor.as_str());
        let page: Vec<_> = rest
            .by_ref()
            .take(request.page_size as usize)
            .cloned()
            .collect();
        let next = match (rest.next(), page.last()) {
            (Some(_), Some(last)) => Some(format!("empty:{}", last.id)),
            _ => None,
        };
        Ok(ListPage {
            observations: page,
            next,
        })
    }

    async fn history(&self, call: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        self.answer(call, Verb::History, &request.id).await?;
        Ok(events::page(self.lock().events, &request))
    }

    async fn definitions(&self, _: &Call, _: DefinitionsRequest) -> Result<DefinitionsPage> {
        let newest = self.lock().defined.first().cloned();
        let newest = newest.ok_or(Error::unsupported(Verb::Definitions))?;
        Ok(DefinitionsPage {
            definitions: vec![newest],
            next: None,
        })
    }

    async fn definition(
        &self,
        _: &Call,
        name: &str,
        revision: Option<&str>,
    ) -> Result<NativeDefinition> {
        let defined = self.lock().defined.clone();
        let mut found = defined.into_iter().filter(|one| one.name == name);
        let found = found.find(|one| revision.is_none_or(|revision| one.revision == revision));
        found.ok_or(Error::unsupported(Verb::Definitions))
    }

    async fn watch(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        self.come_in(call, scope.verb()).await?;
        let state = self.lock();
        let Some(pushed) = &state.pushed else {
            return Err(Error::unsupported(scope.verb()));
        };
        let changes = BroadcastStream::new(pushed.subscribe());
        let present = state.shown.values().cloned().map(Watched::seen);
        let present: Vec<_> = present.chain([Watched::InSync]).collect();
        let changes = changes.take_while(|change| futures::future::ready(change.is_ok()));
        let changes = changes.filter_map(|change| futures::future::ready(change.ok()));
        Ok(futures::stream::iter(present)
            .chain(changes)
            .map(Ok)
            .boxed())
    }

    async fn signal(&self, call: &Call, request: SignalRequest) -> Result<Observation> {
        self.answer(call, Verb::Signal, &request.id).await
    }

    async fn cancel(&self, call: &Call, request: CancelRequest) -> Result<Observation> {
        let before = self.answer(call, Verb::Cancel, &request.id).await?;
        self.show(request.id.as_str(), "ABORTED");
        let late = self.lock().late_cancels;
        if let Some(late) = late {
            tokio::time::sleep(late).await;
            return Ok(before);
        }
        self.shown(Verb::Cancel, &request.id)
    }

    async fn pause(&self, call: &Call, request: PauseRequest) -> Result<Observation> {
        self.answer(call, Verb::Pause, &request.id).await
    }

    async fn resume(&self, call: &Call, request: ResumeRequest) -> Result<Observation> {
        self.answer(call, Verb::Resume, &request.id).await
    }

    async fn retry_now(&self, call: &Call, request: RetryNowRequest) -> Result<Observation> {
        self.answer(call, Verb::RetryNow, &request.id).await
    }

    async fn retry_from(&self, call: &Call, request: RetryFromRequest) -> Result<Observation> {
        self.answer(call, Verb::RetryFrom, &request.id).await
    }

    async fn purge(&self, call: &Call, request: PurgeRequest) -> Result<()> {
        self.answer(call, Verb::Purge, &request.id).await?;
        self.remove(request.id.as_str());
        Ok(())
    }

    fn approvals(&self) -> Option<&dyn Approvals> {
        self.offers_approvals.then_some(self as &dyn Approvals)
    }

    fn workers(&self) -> Option<&dyn Workers> {
        self.has_crew.then_some(self as &dyn Workers)
    }

    fn recovery(&self) -> Option<&dyn Recovery> {
        self.has_crew.then_some(self as &dyn Recovery)
    }
}

#[async_trait]
impl Approvals for Puppet {
    /// One row to a page; the cursor is its place.
    async fn list_approvals(
        &self,
        call: &Call,
        request: InboxRequest,
    ) -> Result<InboxPage<Approval>> {
        self.come_in(call, Verb::ListApprovals).await?;
        let place: usize = request.cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let all = self.lock().approvals.clone();
        Ok(InboxPage {
            next: (place + 1 < all.len()).then(|| (place + 1).to_string()),
            items: all.into_iter().skip(place).take(1).collect(),
        })
    }

    async fn watch_approvals(&self, call: &Call) -> Result<ApprovalStream> {
        self.come_in(call, Verb::WatchApprovals).await?;
        let state = self.lock();
        let Some(pushed) = &state.pushed_approvals else {
            return Err(Error::unsupported(Verb::WatchApprovals));
        };
        let changes = BroadcastStream::new(pushed.subscribe());
        let mut present = state.approvals.clone();
        present.retain(|one| one.state == ApprovalState::Pending);
        let present = present.into_iter();
        let present = present.map(|one| WatchedApproval::Seen(Box::new(one)));
        let present: Vec<_> = present.chain([WatchedApproval::InSync]).collect();
        let changes = changes.take_while(|change| futures::future::ready(change.is_ok()));
        let changes = changes.filter_map(|change| futures::future::ready(change.ok()));
        Ok(futures::stream::iter(present)
            .chain(changes)
            .map(Ok)
            .boxed())
    }

    async fn get_approval(&self, call: &Call, id: &InboxId) -> Result<Approval> {
        self.come_in(call, Verb::GetApproval).await?;
        let found = self
            .lock()
            .approvals
            .iter()
            .find(|one| one.id == *id)
            .cloned();
        let message = "nobody asked for it";
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, Verb::GetApproval, message))
    }

    async fn decide(&self, call: &Call, request: DecideRequest) -> Result<Approval> {
        self.come_in(call, Verb::DecideApproval).await?;
        let mut state = self.lock();
        let mut all = state.approvals.iter_mut();
        let found = all.find(|one| one.id == request.id).expect("it was listed");
        found.state = if request.grant {
            ApprovalState::Granted
        } else {
            ApprovalState::Rejected
        };
        found.decision = Some(PersonDecision {
            by: call.actor.to_string(),
            time: jiff::Timestamp::now(),
            comment: request.comment,
        });
        let decided = found.clone();
        state.push_approval(WatchedApproval::Seen(Box::new(decided.clone())));
        Ok(decided)
    }

    async fn list_escalations(
        &self,
        call: &Call,
        _: InboxRequest,
    ) -> Result<InboxPage<Escalation>> {
        self.come_in(call, Verb::ListEscalations).await?;
        Ok(InboxPage::default())
    }

    async fn get_escalation(&self, _: &Call, _: &InboxId) -> Result<Escalation> {
        Err(Error::unsupported(Verb::GetEscalation))
    }

    async fn resolve(&self, _: &Call, _: ResolveRequest) -> Result<Escalation> {
        Err(Error::unsupported(Verb::ResolveEscalation))
    }
}

fn described(capabilities: Capabilities) -> Arc<Mutex<Arc<Description>>> {
    let description = Description::fixed(capabilities, table("step-functions"));
    Arc::new(Mutex::new(description))
}
