//! A watch of all executions: one list of what began or ended since the last one, and descriptions of
//! the open ones in turn, as the quota allows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::Scheduled;
use stateway_provider_api::{Call, ErrorKind, Observation, Result, Verb, WatchStream, Watched};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::server_time::ServerTime;
use super::{MOST_FAILURES, News, PATIENCE, PAUSE};
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::client::Ask;
use crate::id::WorkflowRef;
use crate::list::{LONGEST_PAGE, first_of_each};
use crate::query;
use crate::quota::{Api, RESERVE};
use crate::reader::Reader;
use crate::response::{is_closed, row, run_id, workflow_id};
use crate::time::timestamp;

/// The time between two lists.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// How often some of the open executions are described, and how many at the same time.
const READ_EVERY: Duration = Duration::from_millis(500);
const AT_ONCE: usize = 16;
/// A list may show a run this much later than it began or ended.
const LAG: SignedDuration = SignedDuration::from_secs(10);
/// The most pages of one list of changes. The rows after them are the oldest ends; an execution that was
/// reported as open is described later.
const MOST_PAGES: usize = 20;
/// The stream ends after this, so that the gateway opens it again and notices what the server has
/// deleted.
const LIFETIME: Duration = Duration::from_secs(6 * 3600);
/// The longest pause before a workflow is described again that could not be described.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often a wait checks the clock, which tests move.
const TICK: Duration = Duration::from_millis(50);

pub(super) async fn open(
    reader: Arc<Reader>,
    news: Receiver<News>,
    call: &Call,
) -> Result<WatchStream> {
    let now = reader.clock.now();
    let mut follower = Follower {
        reader,
        news,
        unread: Some(Vec::new()),
        listed: HashSet::new(),
        server_time: ServerTime::default(),
        since: None,
        open: BTreeMap::new(),
        troubled: HashMap::new(),
        reported: HashMap::new(),
        ready: VecDeque::new(),
        began: now,
        list_due: now,
        read_due: now,
        failures: 0,
        has_news: true,
        is_lost: false,
    };
    follower.read_present(call).await?;
    Ok(stream::unfold(Some(follower), Follower::next).boxed())
}

struct Follower {
    reader: Arc<Reader>,
    news: Receiver<News>,
    /// The server's token of the next page of the current set; none once it is complete.
    unread: Option<Vec<u8>>,
    /// The workflows of the current set, while it is read.
    listed: HashSet<String>,
    server_time: ServerTime,
    /// The server's time when the last list that was reported began. It does not follow the clock, so
    /// that the next list shows what happened while lists failed or took long.
    since: Option<Timestamp>,
    /// The workflows that are open, as they were reported last.
    open: BTreeMap<String, Option<Arc<Observation>>>,
    /// Workflows that could not be described.
    troubled: HashMap<String, Trouble>,
    /// Closed runs that lists of changes may show again, with their end.
    reported: HashMap<String, Option<Timestamp>>,
    ready: VecDeque<Watched>,
    began: Instant,
    list_due: Instant,
    read_due: Instant,
    failures: u32,
    /// The provider still reports what happens through it.
    has_news: bool,
    /// Something that happened through the provider was missed. The stream ends, so that the gateway
    /// opens it again.
    is_lost: bool,
}

/// A workflow that could not be described is left alone for a while, longer each time. It does not keep
/// the watch from the others.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    until: Instant,
    pause: Duration,
}

impl Follower {
    async fn next(follower: Option<Self>) -> Option<(Result<Watched>, Option<Self>)> {
        let mut follower = follower?;
        loop {
            if let Some(item) = follower.ready.pop_front() {
                return Some((Ok(item), Some(follower)));
            }
            let age = follower.now().saturating_duration_since(follower.began);
            if age > LIFETIME || follower.is_lost {
                return None;
            }
            if let Err(error) = follower.advance().await {
                return Some((Err(error), None));
            }
        }
    }

    fn now(&self) -> Instant {
        self.reader.clock.now()
    }

    async fn advance(&mut self) -> Result<()> {
        let done = if self.unread.is_some() {
            self.rest().await;
            self.read_present(&Call::within(PATIENCE)).await
        } else {
            match self.wait().await {
                Some(news) => {
                    self.take_news(news).await;
                    Ok(())
                }
                None if self.now() >= self.list_due => self.list_changes().await,
                None => {
                    self.read_open().await;
                    Ok(())
                }
            }
        };
        match done {
            Ok(()) => self.failures = 0,
            Err(error) if error.kind.is_retryable() && self.failures < MOST_FAILURES => {
                self.failures += 1;
                let pause = error.retry_after.unwrap_or(PAUSE).max(PAUSE);
                self.list_due = self.now() + pause;
                self.read_due = self.list_due;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits until the pause after a failed list is over.
    async fn rest(&self) {
        loop {
            let left = self.list_due.saturating_duration_since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(TICK)).await;
        }
    }

    /// Waits for news, or until a list or descriptions are due.
    async fn wait(&mut self) -> Option<std::result::Result<News, RecvError>> {
        loop {
            let due = if self.open.is_empty() {
                self.list_due
            } else {
                self.list_due.min(self.read_due)
            };
            let left = due.saturating_duration_since(self.now());
            if left.is_zero() {
                return None;
            }
            tokio::select! {
                news = self.news.recv(), if self.has_news => return Some(news),
                () = tokio::time::sleep(left.min(TICK)) => {}
            }
        }
    }

    /// Reads a page of the current set. A page that fails is read again: without it, executions
    /// would seem to be gone.
    async fn read_present(&mut self, call: &Call) -> Result<()> {
        let verb = Verb::WatchAll;
        let ask = Ask { call, verb };
        let token = self.unread.clone().unwrap_or_default();
        let page = self
            .reader
            .runs(ask, query::ALL, LONGEST_PAGE, token)
            .await?;
        self.server_time.learn(&page.rows, self.reader.clock.now());
        let reached = self.server_time.least(self.now());
        self.since.get_or_insert(reached);
        let mut rows = first_of_each(page.rows);
        rows.retain(|row| self.listed.insert(workflow_id(row).to_owned()));
        self.take_note(&rows);
        for seen in self.reader.refine(ask, rows).await? {
            if self.open.contains_key(seen.id.as_str()) {
                let shown = self.shared(&seen);
                self.open.insert(seen.id.as_str().to_owned(), Some(shown));
            }
            self.ready.push_back(Watched::seen(seen));
        }
        if page.next.is_empty() {
            self.unread = None;
            self.listed = HashSet::new();
            self.ready.push_back(Watched::InSync);
            self.list_due = self.now();
        } else {
            self.unread = Some(page.next);
        }
        Ok(())
    }

    fn take_note(&mut self, rows: &[WorkflowExecutionInfo]) {
        for row in rows {
            if is_closed(row) {
                self.open.remove(workflow_id(row));
                let end = timestamp(row.close_time.as_ref());
                self.reported.insert(run_id(row).to_owned(), end);
            } else {
                self.open.insert(workflow_id(row).to_owned(), None);
            }
        }
    }

    /// Lists what began or ended since the last list.
    async fn list_changes(&mut self) -> Result<()> {
        let verb = Verb::WatchAll;
        let call = Call::within(PATIENCE);
        let ask = Ask { call: &call, verb };
        let began = self.server_time.least(self.now());
        let since = self.since.unwrap_or(began);
        let since = since.checked_sub(LAG).unwrap_or(since);
        let query = query::changed_since(since);
        let (mut token, mut changed) = (Vec::new(), Vec::new());
        for _ in 0..MOST_PAGES {
            let page = self.reader.runs(ask, &query, LONGEST_PAGE, token).await?;
            changed.extend(page.rows);
            token = page.next;
            if token.is_empty() {
                break;
            }
        }
        self.server_time.learn(&changed, self.reader.clock.now());
        self.forget_before(since);
        self.list_due = self.now() + LIST_EVERY;
        let fresh = self.fresh(changed);
        self.report(ask, fresh).await?;
        let now = self.now();
        self.troubled.retain(|_, it| it.until + it.pause > now);
        self.since = Some(began);
        Ok(())
    }

    /// The runs of a list that show something new.
    fn fresh(&self, rows: Vec<WorkflowExecutionInfo>) -> Vec<WorkflowExecutionInfo> {
        let is_fresh = |row: &WorkflowExecutionInfo| {
            if self.is_troubled(workflow_id(row)) {
                return false;
            }
            let is_open = self.open.contains_key(workflow_id(row));
            if is_closed(row) {
                is_open || !self.reported.contains_key(run_id(row))
            } else {
                !is_open
            }
        };
        let mut rows = first_of_each(rows);
        rows.retain(is_fresh);
        rows
    }

    /// Reports runs of a list: by their description, which is newer than any list, as far as the quota
    /// allows, and the others as the list has them.
    async fn report(&mut self, ask: Ask<'_>, rows: Vec<WorkflowExecutionInfo>) -> Result<()> {
        let mut wanted = Vec::new();
        let mut others = Vec::new();
        for row in &rows {
            if self.reader.client.spare_look(false) {
                wanted.push(workflow_id(row).to_owned());
            } else {
                others.push(row.clone());
            }
        }
        self.take_note(&others);
        let failed = self.describe(wanted).await;
        for info in rows
            .into_iter()
            .filter(|it| failed.contains(workflow_id(it)))
        {
            // It stays among the open ones until it is described.
            let known = self.open.entry(workflow_id(&info).to_owned());
            known.or_default();
            others.push(info);
        }
        for other in &others {
            let seen = row(ask.verb, other)?;
            self.ready.push_back(Watched::seen(seen));
        }
        Ok(())
    }

    /// Lists of changes do not reach back to these.
    fn forget_before(&mut self, since: Timestamp) {
        self.reported
            .retain(|_, end| end.is_none_or(|end| end >= since));
    }

    /// Describes executions, which is newer than any list, and reports them. Returns those that could not
    /// be described.
    async fn describe(&mut self, workflows: Vec<String>) -> BTreeSet<String> {
        let verb = Verb::WatchAll;
        let call = Call::within(PATIENCE);
        let ask = Ask { call: &call, verb };
        let reader = &self.reader;
        let mut looks = Vec::with_capacity(workflows.len());
        for workflow in workflows {
            looks.push(async move {
                let of = WorkflowRef {
                    workflow_id: workflow.clone(),
                    run_id: None,
                };
                (workflow, look(reader, ask, &of).await)
            });
        }
        let answers: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let mut failed = BTreeSet::new();
        for (workflow, answer) in answers {
            match answer {
                Ok(answer) => self.take_answer(workflow, answer),
                Err(error) if error.kind == ErrorKind::NotFound => self.take_gone(&workflow),
                Err(error) => {
                    tracing::debug!(%error, execution = workflow, "not read");
                    self.note_trouble(&workflow);
                    failed.insert(workflow);
                }
            }
        }
        failed
    }

    fn take_answer(&mut self, workflow: String, (seen, run): (Observation, Run)) {
        self.troubled.remove(&workflow);
        if run.is_closed {
            self.open.remove(&workflow);
            self.reported.insert(run.id, seen.end_time);
        } else {
            let shared = self.shared(&seen);
            let shown = self.open.insert(workflow, Some(shared));
            if shown.flatten().is_some_and(|shown| *shown == seen) {
                return;
            }
        }
        self.ready.push_back(Watched::seen(seen));
    }

    fn take_gone(&mut self, workflow: &str) {
        self.troubled.remove(workflow);
        self.open.remove(workflow);
        if let Ok(id) = ExecutionId::new(workflow) {
            self.ready.push_back(Watched::Gone(id));
        }
    }

    /// The observation that the reader remembers, if it is the same, so that it is in memory once.
    fn shared(&self, seen: &Observation) -> Arc<Observation> {
        let known = self.reader.seen.get(seen.id.as_str());
        let known = known.map(|known| Arc::clone(&known.value.seen));
        known
            .filter(|known| **known == *seen)
            .unwrap_or_else(|| Arc::new(seen.clone()))
    }

    fn is_troubled(&self, workflow: &str) -> bool {
        let trouble = self.troubled.get(workflow);
        trouble.is_some_and(|it| it.until > self.now())
    }

    fn note_trouble(&mut self, workflow: &str) {
        let now = self.now();
        let before = self.troubled.get(workflow);
        let pause = before.map_or(PAUSE, |it| (it.pause * 2).min(LONGEST_PAUSE));
        let until = now + pause;
        self.troubled
            .insert(workflow.to_owned(), Trouble { until, pause });
    }

    /// Describes the open executions that are due, the most urgent first, with what the quota has to
    /// spare.
    async fn read_open(&mut self) {
        self.read_due = self.now() + READ_EVERY;
        let turns = self.reader.client.turns(Api::Reads, RESERVE);
        let ids = self.open.keys().map(String::as_str);
        let round = self.reader.seen.round(ids, turns, self.now());
        let mut due = Vec::new();
        for workflow in self.open.keys() {
            let known = self.reader.seen.get(workflow);
            let was_read = known.as_ref().is_some_and(Scheduled::was_read);
            let is_due = known.is_none_or(|known| round.admits(&known));
            let is_wanted = is_due && !self.is_troubled(workflow);
            if is_wanted && self.reader.client.spare_look(was_read) {
                due.push(workflow.clone());
            }
        }
        self.describe(due).await;
    }

    async fn take_news(&mut self, news: std::result::Result<News, RecvError>) {
        match news {
            Ok(News::Changed(workflow)) => {
                self.reader.client.count(Api::Reads);
                let failed = self.describe(vec![workflow]).await;
                for workflow in failed {
                    self.open.entry(workflow).or_default();
                }
            }
            Ok(News::Gone(name)) => self.take_gone(&name),
            Err(RecvError::Lagged(_)) => self.is_lost = true,
            Err(RecvError::Closed) => self.has_news = false,
        }
    }
}

/// The run that an observation is about.
struct Run {
    id: String,
    is_closed: bool,
}

async fn look(reader: &Reader, ask: Ask<'_>, of: &WorkflowRef) -> Result<(Observation, Run)> {
    let described = reader.describe_in_turn(ask, of).await?;
    let seen = reader.observed(ask, of, &described).await?;
    let info = crate::reader::info(ask.verb, &described)?;
    let run = Run {
        id: run_id(info).to_owned(),
        is_closed: is_closed(info),
    };
    Ok((seen, run))
}
