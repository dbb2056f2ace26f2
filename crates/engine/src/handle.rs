//! The handle of the engine: every request goes through it.

mod backup;
mod definitions;
mod verify;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stateway_machine::{ExecutionState, Verb};
use stateway_model::SubState;
use tokio::sync::{oneshot, watch};

use crate::catalogue::Catalogue;
use crate::coverage::SharedCoverage;
use crate::error::Result;
use crate::in_memory::{InMemory, Place};
use crate::keeper::{self, Ask, Inbox, Message, Shared};
use crate::news::Board;
use crate::reader::{Listed, Readers, Replay};
use crate::recording::Recording;
use crate::recovery::scan::{Scan, memory};
use crate::request::{
    ActorName, BranchRecord, Decide, EventRecord, ListQuery, Page, Publish, Published, Purged,
    RequestKey, Resolve, RetryFrom, Start, Steer, StepRecord, Survey,
};
use crate::set_aside::SetAside;
use crate::standing::Standing;
use crate::store::{Backend, PostgresStore, SqliteFile};
use crate::view::EngineView as _;
use crate::worker::{Answer, Offer, WorkerSession};
use crate::{Changes, Clock, Config, EngineError, ErrorKind, News, Numbering, View};

/// What the ids of the engine's own workers begin with.
const OWN_WORKERS: &str = "engine/";
/// The most executions that the keeper shows in one go, so that a list does not hold it up.
const VIEWS_AT_ONCE: usize = 50;

/// The built-in engine, running. Clones are handles to the same engine; the last one to go lets
/// the keeper finish its turn and close the file.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    inbox: Inbox,
    readers: Arc<Readers>,
    catalogue: Arc<Catalogue>,
    board: Arc<Board>,
    covered: Arc<SharedCoverage>,
    aside: Arc<SetAside>,
    in_memory: Arc<InMemory>,
    standing: Arc<Standing>,
    escalation_roles: Vec<Arc<str>>,
    committed: watch::Receiver<i64>,
    clock: Clock,
    lease: Duration,
    max_payload_bytes: usize,
    request_id_retention: SignedDuration,
    scan: Option<Scan>,
    keeper: Option<JoinHandle<()>>,
}

/// What the engine's own tasks work with. None of it keeps the engine from stopping.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    pub(crate) inbox: Inbox,
    pub(crate) readers: Arc<Readers>,
    /// The place of the last event on disk; closed when the keeper has ended.
    pub(crate) committed: watch::Receiver<i64>,
    pub(crate) clock: Clock,
    pub(crate) lease: Duration,
    pub(crate) standing: Arc<Standing>,
}

impl Inner {
    fn new(
        config: &Config,
        (inbox, readers): (Inbox, Arc<Readers>),
        shared: Shared,
        committed: watch::Receiver<i64>,
    ) -> Self {
        Self {
            inbox,
            readers,
            catalogue: shared.catalogue,
            board: shared.board,
            covered: shared.covered,
            aside: shared.aside,
            in_memory: shared.in_memory,
            standing: shared.standing,
            escalation_roles: config.escalation_roles.clone(),
            committed,
            clock: config.clock.clone(),
            lease: config.lease,
            max_payload_bytes: config.max_payload_bytes,
            request_id_retention: memory(config),
            scan: None,
            keeper: None,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.scan.take();
        self.inbox.tell(Message::Stop);
        if let Some(keeper) = self.keeper.take() {
            // A keeper that panicked has logged it; no caller is left.
            let _ = keeper.join();
        }
    }
}

/// The place of the store.
fn backend(config: &Config) -> Result<Arc<dyn Backend>> {
    Ok(match &config.postgres {
        Some(postgres) => Arc::new(PostgresStore::new(postgres.clone(), &config.faults)?),
        None => Arc::new(SqliteFile::new(config.path.clone(), &config.faults)),
    })
}

impl Engine {
    /// Opens the store and takes up everything where it was left. If another process owns a shared store, or the
    /// server of the store does not answer, the engine refuses every call until that changes.
    ///
    /// # Errors
    /// The store cannot be used: a file taken by another process, written by a newer version, damaged,
    /// not writable.
    pub fn open(config: &Config) -> Result<Self> {
        config.check_limits()?;
        let backend = backend(config)?;
        let store = backend.open()?;
        let shared = Shared::limited(config.limits());
        let standing = Arc::clone(&shared.standing);
        let readers = Arc::new(Readers::open(Arc::clone(&backend), standing)?);
        let stores = (store, backend.reader()?);
        let (committed, keeper, inbox) = keeper::spawn(config, stores, shared.clone())?;
        let scan = Scan::start(config, &backend, &shared.catalogue, &inbox)?;
        let mut inner = Inner::new(config, (inbox, readers), shared, committed);
        inner.scan = scan;
        inner.keeper = Some(keeper);
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// A handle to a keeper that no thread runs.
    #[cfg(feature = "simulation")]
    pub(crate) fn without_thread(
        config: &Config,
        (backend, inbox): (Arc<dyn Backend>, Inbox),
        shared: Shared,
        committed: watch::Receiver<i64>,
    ) -> Result<Self> {
        let readers = Arc::new(Readers::open(backend, Arc::clone(&shared.standing))?);
        Ok(Self {
            inner: Arc::new(Inner::new(config, (inbox, readers), shared, committed)),
        })
    }

    /// Starts an execution.
    ///
    /// # Errors
    /// An unknown definition, an id that is taken, a request id that was used for another request.
    pub async fn start(&self, start: Start) -> Result<View> {
        self.bounded(&start.input)?;
        self.ask(|answer| Ask::Start { start, answer }).await
    }

    /// Cancels, pauses, resumes, signals or retries an execution.
    ///
    /// # Errors
    /// An unknown execution, or one whose state does not allow the request.
    pub async fn steer(
        &self,
        id: Arc<str>,
        steer: Steer,
        actor: ActorName,
        request: RequestKey,
    ) -> Result<View> {
        if let Steer::Signal { payload, .. } = &steer {
            self.bounded(payload)?;
        }
        self.ask(|answer| Ask::Steer {
            id,
            steer,
            actor,
            request,
            answer,
        })
        .await
    }

    /// Runs an execution again from a step on: as a new branch of its log or, where it has succeeded,
    /// as a new execution that is forked from it.
    ///
    /// # Errors
    /// An unknown execution or step, a compensation that is in a worker's hands, or an escalation that
    /// the person may not resolve.
    pub async fn retry_from(
        &self,
        id: Arc<str>,
        from: RetryFrom,
        actor: ActorName,
        request: RequestKey,
    ) -> Result<View> {
        if let Some(input) = &from.input {
            self.bounded(input)?;
        }
        self.ask(|answer| Ask::RetryFrom {
            id,
            from,
            actor,
            request,
            answer,
        })
        .await
    }

    /// Decides about an approval.
    ///
    /// # Errors
    /// The approval is stale or was decided otherwise, or the person may not decide.
    pub async fn decide(
        &self,
        id: Arc<str>,
        decide: Decide,
        actor: ActorName,
        request: RequestKey,
    ) -> Result<View> {
        let verb = Verb::DecideApproval {
            step: decide.step,
            attempt: decide.attempt,
            grant: decide.grant,
            by: actor,
            roles: decide.roles,
            comment: decide.comment,
        };
        self.command(id, verb, decide.branch, request).await
    }

    /// The roles that may decide about escalations whose definition names none.
    #[must_use]
    pub fn escalation_roles(&self) -> &[Arc<str>] {
        &self.inner.escalation_roles
    }

    /// Decides about an escalated step.
    ///
    /// # Errors
    /// A step that is not escalated, an escalation that was resolved, a person who may not decide.
    pub async fn resolve(
        &self,
        id: Arc<str>,
        resolve: Resolve,
        actor: ActorName,
        request: RequestKey,
    ) -> Result<View> {
        let verb = Verb::ResolveEscalation {
            step: resolve.step,
            attempt: resolve.attempt,
            resolution: resolve.resolution,
            by: actor,
            roles: resolve.roles,
            operators: self.inner.escalation_roles.clone(),
            comment: resolve.comment,
            compensate: resolve.compensate,
        };
        self.command(id, verb, resolve.branch, request).await
    }

    async fn command(
        &self,
        id: Arc<str>,
        verb: Verb,
        branch: Option<u32>,
        request: RequestKey,
    ) -> Result<View> {
        self.ask(|answer| Ask::Command {
            id,
            verb,
            branch,
            request,
            answer,
        })
        .await
    }

    /// Reads an execution.
    ///
    /// # Errors
    /// No execution has this id.
    pub async fn get(&self, id: Arc<str>) -> Result<View> {
        self.inner.standing.check()?;
        let view = self.find(id).await?;
        // The process may have been paused meanwhile, and another one may have changed the execution.
        self.inner.standing.check()?;
        Ok(view)
    }

    async fn find(&self, id: Arc<str>) -> Result<View> {
        match self.inner.in_memory.find(&id) {
            // An execution in memory need not be replayed from its log.
            Place::Keeper => {
                if let Some(view) = self.ask_keeper(Arc::clone(&id)).await {
                    return Ok(view);
                }
            }
            Place::Ended(ended) => return Ok(ended.view(&self.inner.covered.get())),
            Place::Read(view) => return Ok(self.with_set_aside(View::clone(&view))),
            Place::Disk => {}
        }
        let catalogue = Arc::clone(&self.inner.catalogue);
        let coverage = self.inner.covered.get();
        let in_memory = Arc::clone(&self.inner.in_memory);
        let view = self.read(move |reader| {
            reader
                .get(&id, &in_memory, (&catalogue, &coverage))?
                .ok_or_else(|| EngineError::no_execution(&id))
        });
        let view = self.with_set_aside(view.await?);
        let mut views = [view];
        self.add_queue_causes(&mut views).await;
        let [view] = views;
        Ok(view)
    }

    /// An execution, for someone who watches for its end ([`watch_end`](Self::watch_end)): nothing while it is in
    /// memory, because its end is reported then.
    ///
    /// # Errors
    /// No execution has this id.
    pub async fn get_unless_in_memory(&self, id: Arc<str>) -> Result<Option<View>> {
        if let Place::Keeper = self.inner.in_memory.find(&id) {
            return Ok(None);
        }
        self.get(id).await.map(Some)
    }

    /// Adds to queued executions why they have not begun. The keeper knows; where it does not answer,
    /// the cause stays unknown.
    async fn add_queue_causes(&self, views: &mut [View]) {
        let queued = views
            .iter()
            .filter(|view| view.state == ExecutionState::Queued);
        let numbers: Vec<_> = queued.map(|view| view.number).collect();
        if numbers.is_empty() {
            return;
        }
        let (send, answer) = oneshot::channel();
        let ask = Message::QueueCauses {
            numbers,
            answer: send,
        };
        if self.inner.inbox.ask(ask).is_err() {
            return;
        }
        let causes = answer.await.ok().and_then(Result::ok).unwrap_or_default();
        let mut causes: HashMap<_, _> = causes.into_iter().collect();
        for view in views {
            view.queued = causes.remove(&view.number);
        }
    }

    /// Shows an execution as set aside if it is.
    fn with_set_aside(&self, view: View) -> View {
        match self.inner.aside.get(view.number) {
            Some(why) => view.set_aside(&why),
            None => view,
        }
    }

    /// What the keeper shows of an execution it has in memory.
    async fn ask_keeper(&self, id: Arc<str>) -> Option<View> {
        let (send, answer) = oneshot::channel();
        let get = Message::Get { id, answer: send };
        self.inner.inbox.ask(get).ok()?;
        answer.await.ok()?.ok().map(|view| *view)
    }

    /// Lists executions, newest first. They may be without input and output.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self, query: ListQuery) -> Result<Page<View>> {
        let replay = Replay {
            catalogue: Arc::clone(&self.inner.catalogue),
            coverage: self.inner.covered.get(),
            count: Arc::clone(&self.inner.readers.list_replays),
        };
        let (in_memory, for_rows) = (Arc::clone(&self.inner.in_memory), replay.clone());
        let page = self.read(move |reader| reader.list(&query, &in_memory, &for_rows));
        let Page { items, next } = page.await?;
        let mut with_keeper = self.views_of_keeper(&items).await;
        let mut views = Vec::with_capacity(items.len());
        for listed in items {
            let view = match listed {
                Listed::Shown(view) => Some(*view),
                Listed::WithKeeper(id) => match with_keeper.remove(&id) {
                    Some(view) => Some(view),
                    None => {
                        let replay = replay.clone();
                        let one = self.read(move |reader| reader.list_one(&id, &replay));
                        one.await?
                    }
                },
            };
            views.extend(view.map(|view| self.with_set_aside(view)));
        }
        self.add_queue_causes(&mut views).await;
        self.inner.standing.check()?;
        Ok(Page { items: views, next })
    }

    /// The executions of a list that the keeper has. One that it does not have any more is missing.
    async fn views_of_keeper(&self, listed: &[Listed]) -> HashMap<Arc<str>, View> {
        let ids = listed.iter().filter_map(|listed| match listed {
            Listed::WithKeeper(id) => Some(Arc::clone(id)),
            Listed::Shown(_) => None,
        });
        let ids: Vec<_> = ids.collect();
        let mut found = HashMap::new();
        for ids in ids.chunks(VIEWS_AT_ONCE) {
            let (send, answer) = oneshot::channel();
            let ask = Message::Views {
                ids: ids.to_vec(),
                answer: send,
            };
            if self.inner.inbox.ask(ask).is_err() {
                break;
            }
            let views = answer.await.ok().and_then(Result::ok).unwrap_or_default();
            found.extend(views.into_iter().map(|view| (Arc::clone(&view.id), view)));
        }
        found
    }

    /// How many logs were replayed for lists since the engine was opened.
    #[must_use]
    pub fn list_replays(&self) -> u64 {
        self.inner.readers.list_replays.load(Ordering::Relaxed)
    }

    /// The id of the execution with this number; none if its record was removed.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn id_of(&self, number: i64) -> Result<Option<Arc<str>>> {
        self.read(move |reader| reader.id_of(number)).await
    }

    /// The ids of the executions that were forked from one, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn forks(&self, id: Arc<str>, limit: usize) -> Result<Vec<Arc<str>>> {
        self.read(move |reader| reader.forks(&id, limit)).await
    }

    /// Counts the executions by the sub-state they show, each up to `most`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn showing(&self, most: u32) -> Result<Vec<(SubState, u64)>> {
        self.read(move |reader| reader.showing(most)).await
    }

    /// Reads the events of an execution's present branch and of what it grew from, from a
    /// sequence on.
    ///
    /// # Errors
    /// There is no execution of this id.
    pub async fn history(
        &self,
        id: Arc<str>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRecord>> {
        self.read(move |reader| reader.history(&id, after, limit))
            .await
    }

    /// Reads everything that ever happened to an execution, branch after branch, from behind an
    /// event on: the one of this branch with this sequence.
    ///
    /// # Errors
    /// There is no execution of this id.
    pub async fn chronicle(
        &self,
        id: Arc<str>,
        after: (u32, u64),
        limit: usize,
    ) -> Result<Vec<EventRecord>> {
        self.read(move |reader| reader.chronicle(&id, after, limit))
            .await
    }

    /// Reads the events that lead to where a branch is, from a sequence on; along the current branch
    /// when none is named. Tells which branch it is.
    ///
    /// # Errors
    /// There is no execution of this id, or no such branch of it.
    pub async fn lineage(
        &self,
        id: Arc<str>,
        branch: Option<u32>,
        after: u64,
        limit: usize,
    ) -> Result<(u32, Vec<EventRecord>)> {
        self.read(move |reader| reader.lineage(&id, branch, after, limit))
            .await
    }

    /// Reads everything that ever happened to an execution in the reverse order of
    /// [`chronicle`](Self::chronicle), before an event; from the end when none is named.
    ///
    /// # Errors
    /// There is no execution of this id.
    pub async fn chronicle_back(
        &self,
        id: Arc<str>,
        before: Option<(u32, u64)>,
        limit: usize,
    ) -> Result<Vec<EventRecord>> {
        self.read(move |reader| reader.chronicle_back(&id, before, limit))
            .await
    }

    /// Reads the events of [`lineage`](Self::lineage) in reverse order, before a sequence; from the end
    /// when none is named.
    ///
    /// # Errors
    /// There is no execution of this id, or no such branch of it.
    pub async fn lineage_back(
        &self,
        id: Arc<str>,
        branch: Option<u32>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<(u32, Vec<EventRecord>)> {
        self.read(move |reader| reader.lineage_back(&id, branch, before, limit))
            .await
    }

    /// Lists the branches of an execution's log in the order they were opened, after one.
    ///
    /// # Errors
    /// There is no execution of this id.
    pub async fn branches(
        &self,
        id: Arc<str>,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<BranchRecord>> {
        self.read(move |reader| reader.branches(&id, after, limit))
            .await
    }

    /// Reads what happened to one step: what it was given and answered, and every attempt.
    ///
    /// # Errors
    /// There is no execution of this id, or no such step of it.
    pub async fn step(&self, id: Arc<str>, step: Arc<str>) -> Result<StepRecord> {
        let catalogue = Arc::clone(&self.inner.catalogue);
        self.read(move |reader| reader.step(&id, &step, &catalogue))
            .await
    }

    /// Reads how the events of an execution are numbered in the list of all its branches.
    ///
    /// # Errors
    /// There is no execution of this id.
    pub async fn numbering(&self, id: Arc<str>) -> Result<Numbering> {
        self.read(move |reader| reader.numbering(&id)).await
    }

    /// Takes an execution's whole log out of the store, with the definitions it was written by.
    /// The store is only read.
    ///
    /// # Errors
    /// There is no execution of this id, or its log is too long.
    pub async fn recording(&self, id: Arc<str>) -> Result<Recording> {
        self.read(move |reader| reader.recording(&id)).await
    }

    /// Reads the events of all executions from a place on, in the order they were written.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn log(&self, after: i64, limit: usize) -> Result<Vec<EventRecord>> {
        self.read(move |reader| reader.log(after, limit)).await
    }

    /// Follows every execution. Read the current executions after this call, not before.
    #[must_use]
    pub fn watch(&self) -> Changes {
        self.inner.board.watch_everything()
    }

    /// Follows the executions that wait for a person: each of their changes until they do not wait for a
    /// person any more. Other executions may be reported too. Read the current executions after this call, not before.
    #[must_use]
    pub fn watch_inbox(&self) -> Changes {
        self.inner.board.watch_inbox()
    }

    /// Follows one execution. Look at what it shows after this call, not before.
    #[must_use]
    pub fn watch_one(&self, id: &Arc<str>) -> watch::Receiver<News> {
        self.inner.board.watch_one(id, true)
    }

    /// Follows one execution to its end, without the changes in between. Read the execution after this
    /// call, not before.
    #[must_use]
    pub fn watch_end(&self, id: &Arc<str>) -> watch::Receiver<News> {
        self.inner.board.watch_one(id, false)
    }

    /// Publishes an event; every definition that it triggers is started once.
    ///
    /// # Errors
    /// The payload is too long, or the id was used for another event.
    pub async fn publish(&self, event: Publish) -> Result<Published> {
        self.bounded(&event.payload)?;
        let (send, answer) = oneshot::channel();
        let event = Box::new(event);
        self.inner.inbox.ask(Message::Publish {
            event,
            answer: send,
        })?;
        answer.await.unwrap_or_else(|_| Err(self.lost()))
    }

    /// The connected workers, and the tasks and executions that wait.
    ///
    /// # Errors
    /// The engine has stopped.
    pub async fn survey(&self) -> Result<Survey> {
        let (send, answer) = oneshot::channel();
        self.inner.inbox.ask(Message::Survey { answer: send })?;
        let survey = answer.await.unwrap_or_else(|_| Err(self.lost()))?;
        self.inner.standing.check()?;
        Ok(survey)
    }

    /// Connects a worker.
    ///
    /// # Errors
    /// The engine has stopped, or the worker's id is one of the engine's own.
    pub fn connect(&self, offer: Offer) -> Result<WorkerSession> {
        if offer.worker.starts_with(OWN_WORKERS) {
            return Err(EngineError::new(
                ErrorKind::InvalidArgument,
                "RESERVED_WORKER_ID",
                format_args!(
                    "worker ids that begin with `{OWN_WORKERS}` are reserved for the engine"
                ),
            )
            .hint("Give the worker another id."));
        }
        WorkerSession::connect(&self.inner.inbox, offer, false)
    }

    /// The position of the last event on disk, for readers of [`Engine::log`]. It closes when the
    /// engine has stopped.
    #[must_use]
    pub fn committed(&self) -> watch::Receiver<i64> {
        self.inner.committed.clone()
    }

    pub(crate) fn lines(&self) -> Lines {
        Lines {
            inbox: self.inner.inbox.clone(),
            readers: Arc::clone(&self.inner.readers),
            committed: self.inner.committed.clone(),
            clock: self.inner.clock.clone(),
            lease: self.inner.lease,
            standing: Arc::clone(&self.inner.standing),
        }
    }

    /// Removes one finished execution, with all that belongs to it.
    ///
    /// # Errors
    /// There is none of this id, or it has not finished.
    pub async fn remove(&self, id: Arc<str>) -> Result<()> {
        let (send, answer) = oneshot::channel();
        self.inner.inbox.ask(Message::Remove { id, answer: send })?;
        answer.await.unwrap_or_else(|_| Err(self.lost()))
    }

    /// Removes finished executions that ended before this time, oldest first, at most `limit`.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn purge(&self, ended_before: Timestamp, limit: usize) -> Result<Purged> {
        let (send, answer) = oneshot::channel();
        self.inner.inbox.ask(Message::Purge {
            ended_before,
            limit,
            answer: send,
        })?;
        answer.await.unwrap_or_else(|_| Err(self.lost()))
    }

    /// Counts the finished executions that ended before this time, up to `limit`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn count_ended(&self, ended_before: Timestamp, limit: usize) -> Result<Purged> {
        self.read(move |reader| reader.count_ended(ended_before, limit))
            .await
    }

    /// Where the process that owns a shared store is reached, while this engine stands by; nothing otherwise, and if
    /// that process has no address.
    #[must_use]
    pub fn active(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.inner.standing.active()
    }

    /// How long a silent worker keeps its tasks.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.inner.lease
    }

    /// The time, as the engine has it.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    async fn ask(&self, ask: impl FnOnce(oneshot::Sender<Answer>) -> Ask) -> Result<View> {
        let (send, answer) = oneshot::channel();
        self.inner.inbox.ask(Message::Ask(Box::new(ask(send))))?;
        self.wait(answer).await
    }

    /// Waits for the answer to a request about an execution.
    async fn wait(&self, answer: oneshot::Receiver<Answer>) -> Result<View> {
        let answer = answer.await.unwrap_or_else(|_| Err(self.lost()));
        answer.map(|view| *view)
    }

    /// The error for a request that was dropped without an answer.
    fn lost(&self) -> EngineError {
        if self.is_running() {
            EngineError::request_lost()
        } else {
            EngineError::stopped()
        }
    }

    /// Whether the engine processes requests. Reading works without it.
    #[must_use]
    pub fn is_running(&self) -> bool {
        // The keeper closes the channel when its thread ends, however it ends.
        self.inner.committed.has_changed().is_ok()
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut crate::reader::Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.inner.readers.read(work).await
    }

    fn bounded(&self, data: &stateway_machine::Data) -> Result<()> {
        crate::keeper::bounded(data, self.inner.max_payload_bytes)
    }
}
