//! Who is connected, what waits and what was handed out. No IO.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::{
    HeldTask, QueuedTasks, WorkQueue, WorkerMessage, WorkerOffer, WorkerStatus, WorkerTask,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::{LEASE, PAUSE, RECONNECT, RENEW_AGAIN};
use crate::message::{Claim, ClaimedTask, Done, HandOut, OpenTask, StoredView};
use crate::provider::Pace;
use crate::provider::token::Token;

/// The most tasks of a worker that a survey shows.
const MOST_SHOWN: usize = 10;
/// The most tasks that one claim asks for.
const MOST_PER_CLAIM: u32 = 64;

/// How far an execution is: creation, branch, sequence.
type Progress = (i64, u32, u64);

/// Role, skill and tenant of tasks that wait.
type Line = (Arc<str>, Arc<str>, String);

/// What this gateway knows about workers and tasks.
#[derive(Default)]
pub(super) struct WorkerBook {
    pace: Pace,
    sessions: u64,
    workers: BTreeMap<Arc<str>, WorkerEntry>,
    /// Executions with tasks that wait for a worker, by id.
    waiting: BTreeMap<Arc<str>, Waiting>,
    /// The same by the time since when they wait: the order in which tasks are handed out.
    by_age: BTreeSet<(Timestamp, Arc<str>)>,
    /// Executions that handed a task to a worker which did not get it: the answer was lost.
    missed: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Those that are being asked again.
    asking: BTreeSet<(Arc<str>, Arc<str>)>,
}

/// A worker that is connected, or that was and is expected to reconnect.
struct WorkerEntry {
    offer: WorkerOffer,
    session: u64,
    tell: Option<UnboundedSender<WorkerMessage>>,
    /// Where the calls of HTTP steps go, for the worker that makes them.
    http: Option<UnboundedSender<(String, ClaimedTask)>>,
    connected: Timestamp,
    seen: Timestamp,
    /// Until when its tasks stay with it if it sends nothing.
    until: Instant,
    renewed: Instant,
    /// Room for the tasks of claims under way.
    reserved: u32,
    /// The tasks that it has by the log are being read; it gets no others meanwhile.
    recovering: bool,
    held: BTreeMap<String, HandedTask>,
}

/// A task that a worker has.
struct HandedTask {
    token: Token,
    open: OpenTask,
    /// How far the execution was when the task was handed out.
    at: Progress,
    heartbeat_timeout: Option<Duration>,
    beat: Instant,
    cancelled: bool,
    /// Its result is on its way to the object.
    settling: bool,
}

struct Waiting {
    at: Progress,
    tasks: Vec<OpenTask>,
    tenant: String,
    since: Timestamp,
    claiming: bool,
    /// The pause after a claim that failed, and its end.
    pause: Option<(Duration, Instant)>,
}

/// A claim to send to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) execution: Arc<str>,
    pub(super) claim: Claim,
}

impl WorkerEntry {
    fn room(&self) -> u32 {
        let held = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        let taken = held.saturating_add(self.reserved);
        self.offer.capacity.saturating_sub(taken)
    }

    fn takes_tasks(&self) -> bool {
        self.tell.is_some() && !self.recovering && self.room() > 0
    }

    fn claim(&self, most: u32, lease: Duration) -> Claim {
        Claim {
            worker: Arc::clone(&self.offer.worker),
            identity: Arc::clone(&self.offer.identity),
            roles: self.offer.roles.clone(),
            skills: self.offer.skills.clone(),
            http: self.http.is_some(),
            tenant: Arc::clone(&self.offer.tenant),
            most,
            lease,
            again: false,
            has: Vec::new(),
            most_bytes: None,
        }
    }

    /// Whether the execution handed it a task that it did not get. While a claim is under way, its
    /// answer may be the one.
    fn missed(&self, seen: &StoredView) -> bool {
        let is_quiet = self.tell.is_some() && !self.recovering && self.reserved == 0;
        let mut tasks = seen.tasks.iter();
        is_quiet
            && tasks.any(|task| {
                task.worker.as_ref() == Some(&self.offer.worker)
                    && !self
                        .held
                        .contains_key(&Token::of(&seen.view.id, task).text())
            })
    }

    fn tell(&self, message: WorkerMessage) {
        // A session that has just ended needs no message: the worker reconnects and gets its tasks in the new session.
        if let Some(tell) = &self.tell {
            let _ = tell.send(message);
        }
    }
}

fn progress(seen: &StoredView) -> Progress {
    (seen.n, seen.view.branch, seen.view.sequence)
}

impl WorkerBook {
    /// An empty book for an engine with this pace.
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            ..Self::default()
        }
    }

    /// A worker connects; the number of its session. An earlier session of the same id is closed, its
    /// tasks stay.
    pub(super) fn connect(
        &mut self,
        offer: WorkerOffer,
        tell: UnboundedSender<WorkerMessage>,
        (now, wall): (Instant, Timestamp),
    ) -> u64 {
        self.sessions += 1;
        let session = self.sessions;
        let worker = Arc::clone(&offer.worker);
        let before = self.workers.remove(&worker);
        if let Some(before) = &before {
            let reason = "REPLACED";
            before.tell(WorkerMessage::Closed { reason });
        }
        let known = WorkerEntry {
            offer,
            session,
            tell: Some(tell),
            http: None,
            connected: wall,
            seen: wall,
            until: now + LEASE,
            renewed: now,
            reserved: before.as_ref().map_or(0, |before| before.reserved),
            recovering: true,
            held: before.map(|before| before.held).unwrap_or_default(),
        };
        self.workers.insert(worker, known);
        session
    }

    /// The worker connects that makes the calls of HTTP steps.
    pub(super) fn connect_http(
        &mut self,
        offer: WorkerOffer,
        tell: UnboundedSender<WorkerMessage>,
        calls: UnboundedSender<(String, ClaimedTask)>,
        now: (Instant, Timestamp),
    ) -> u64 {
        let worker = Arc::clone(&offer.worker);
        let session = self.connect(offer, tell, now);
        if let Some(known) = self.workers.get_mut(&worker) {
            known.http = Some(calls);
        }
        session
    }

    /// A session has ended.
    pub(super) fn disconnect(&mut self, worker: &str, session: u64, now: Instant) {
        if let Some(known) = self.of_session(worker, session) {
            known.tell = None;
            known.until = known.until.min(now + RECONNECT);
        }
    }

    pub(super) fn is_connected(&self, worker: &str, session: u64) -> bool {
        let known = self.workers.get(worker);
        known.is_some_and(|known| known.session == session && known.tell.is_some())
    }

    /// A worker has every task that it has by the log.
    pub(super) fn recovered(&mut self, worker: &str) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.recovering = false;
        }
    }

    /// The executions that handed a task to a worker which did not get it. Each is asked once at a time.
    pub(super) fn ask_for_missed(&mut self) -> Vec<(Arc<str>, Arc<str>)> {
        let missed = std::mem::take(&mut self.missed).into_iter();
        missed
            .filter(|pair| self.asking.insert(pair.clone()))
            .collect()
    }

    /// An execution was asked again for the tasks of a worker.
    pub(super) fn asked_again(&mut self, pair: &(Arc<str>, Arc<str>)) {
        self.asking.remove(pair);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }

    fn of_session(&mut self, worker: &str, session: u64) -> Option<&mut WorkerEntry> {
        let known = self.workers.get_mut(worker)?;
        (known.session == session).then_some(known)
    }

    /// A message of a worker has come.
    pub(super) fn alive(&mut self, worker: &str, session: u64, (now, wall): (Instant, Timestamp)) {
        if let Some(known) = self.of_session(worker, session) {
            (known.until, known.seen) = (now + LEASE, wall);
        }
    }

    /// A worker changes what it takes on; its identity stays.
    pub(super) fn offer(&mut self, worker: &str, session: u64, offer: WorkerOffer) {
        if let Some(known) = self.of_session(worker, session) {
            let identity = Arc::clone(&known.offer.identity);
            let worker = Arc::clone(&known.offer.worker);
            known.offer = WorkerOffer {
                worker,
                identity,
                ..offer
            };
        }
    }

    /// Records that the result of a task is being sent. Returns the hand-out, and a claim for the capacity that
    /// the task frees. There is no claim if this book does not list the task for the worker; the object decides
    /// whether the result counts.
    pub(super) fn settle(&mut self, worker: &Arc<str>, token: &Token) -> (HandOut, Option<Claim>) {
        let hand_out = HandOut {
            branch: token.b,
            task: token.t.clone(),
            number: token.h,
            worker: Arc::clone(worker),
        };
        let Some(known) = self.workers.get_mut(worker) else {
            return (hand_out, None);
        };
        if let Some(held) = known.held.get_mut(&token.text()) {
            held.settling = true;
        } else {
            return (hand_out, None);
        }
        let most = known.room().saturating_add(1).min(MOST_PER_CLAIM);
        if known.tell.is_none() {
            return (hand_out, None);
        }
        known.reserved += most;
        (hand_out, Some(known.claim(most, self.pace.lease)))
    }

    /// A claim of a worker was answered, or has failed.
    pub(super) fn unreserve(&mut self, worker: &str, most: u32) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.reserved = known.reserved.saturating_sub(most);
        }
    }

    /// A worker has a task no longer.
    pub(super) fn remove(&mut self, worker: &str, token: &Token) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.held.remove(&token.text());
        }
    }

    /// The result of a task could not be delivered and is given up.
    pub(super) fn unsettle(&mut self, worker: &str, token: &Token) {
        let known = self.workers.get_mut(worker);
        if let Some(held) = known.and_then(|known| known.held.get_mut(&token.text())) {
            held.settling = false;
        }
    }

    pub(super) fn tell(&self, worker: &str, message: WorkerMessage) {
        if let Some(known) = self.workers.get(worker) {
            known.tell(message);
        }
    }

    /// Whether a heartbeat of a task has to reach the object: a timeout needs it, or it brings progress.
    pub(super) fn beat(
        &mut self,
        worker: &str,
        token: &Token,
        progress: bool,
        now: Instant,
    ) -> bool {
        const SELDOM: Duration = Duration::from_secs(1);
        let known = self.workers.get_mut(worker);
        let Some(held) = known.and_then(|known| known.held.get_mut(&token.text())) else {
            return false;
        };
        let every = match held.heartbeat_timeout {
            Some(timeout) => (timeout / 3).min(SELDOM),
            None if progress => SELDOM,
            None => return false,
        };
        // A compensation has no heartbeats in the log.
        if token.t.undo || now.duration_since(held.beat) < every {
            return false;
        }
        held.beat = now;
        true
    }

    /// Takes note of what an object answered.
    pub(super) fn learn(&mut self, done: &Done, now: Instant) {
        let execution = &done.seen.view.id;
        for withdrawn in &done.withdrawn {
            let Some(known) = self.workers.get_mut(&withdrawn.worker) else {
                continue;
            };
            let held = known.held.iter().find(|(_, held)| {
                held.token.e == **execution
                    && held.token.b == withdrawn.branch
                    && held.token.t == withdrawn.task
                    && !held.settling
            });
            if let Some((token, _)) = held {
                let (token, reason) = (token.clone(), withdrawn.why.as_str());
                known.held.remove(&token);
                let task_token = token;
                known.tell(WorkerMessage::Withdrawn { task_token, reason });
            }
        }
        let at = progress(&done.seen);
        for claimed in &done.claimed {
            self.deliver(execution, claimed, at, now);
        }
        // Nobody here could take a task: other gateways may have workers for it.
        if !self.workers.is_empty() {
            self.note(&done.seen);
        }
    }

    /// Takes note of a stored view: tasks that wait, and tasks that workers no longer have.
    pub(super) fn note(&mut self, seen: &StoredView) {
        self.count(seen);
        let (id, at) = (&seen.view.id, progress(seen));
        for (worker, known) in &mut self.workers {
            reconcile(known, seen, at);
            if known.missed(seen) {
                self.missed.insert((Arc::clone(id), Arc::clone(worker)));
            }
        }
    }

    /// Takes note of the tasks that wait.
    pub(super) fn count(&mut self, seen: &StoredView) {
        let (id, at) = (&seen.view.id, progress(seen));
        let before = self.waiting.get(id);
        if before.is_some_and(|before| before.at > at) {
            return;
        }
        let tasks = seen.tasks.iter().filter(|task| task.worker.is_none());
        let tasks: Vec<_> = tasks.cloned().collect();
        if seen.o != 1 || tasks.is_empty() {
            self.wait_no_longer(id);
            return;
        }
        let since = before.map(|before| before.since);
        let since = since.or(seen.view.times.updated).unwrap_or_default();
        let tenant = seen.view.labels.get("tenant").cloned();
        let waiting = Waiting {
            at,
            tasks,
            tenant: tenant.unwrap_or_default(),
            since,
            claiming: before.is_some_and(|before| before.claiming),
            pause: before.and_then(|before| before.pause),
        };
        self.waiting.insert(Arc::clone(id), waiting);
        self.by_age.insert((since, Arc::clone(id)));
    }

    fn wait_no_longer(&mut self, execution: &str) {
        if let Some((id, waiting)) = self.waiting.remove_entry(execution) {
            self.by_age.remove(&(waiting.since, id));
        }
    }

    /// An execution does not exist any more.
    pub(super) fn forget(&mut self, execution: &str) {
        self.wait_no_longer(execution);
        for known in self.workers.values_mut() {
            let gone = known
                .held
                .values()
                .filter(|held| held.token.e == *execution);
            let gone: Vec<_> = gone.map(|held| held.token.text()).collect();
            for task_token in gone {
                known.held.remove(&task_token);
                let reason = "NOT_NEEDED";
                known.tell(WorkerMessage::Withdrawn { task_token, reason });
            }
        }
    }

    fn deliver(&mut self, execution: &str, claimed: &ClaimedTask, at: Progress, now: Instant) {
        let Some(worker) = &claimed.open.worker else {
            return;
        };
        let Some(known) = self.workers.get_mut(worker) else {
            // The worker is gone; the lease in the object ends.
            return;
        };
        let Ok(id) = ExecutionId::new(execution) else {
            return;
        };
        let token = Token::of(execution, &claimed.open);
        let text = token.text();
        let held = HandedTask {
            token,
            open: claimed.open.clone(),
            at,
            heartbeat_timeout: claimed.heartbeat_timeout,
            beat: now,
            cancelled: false,
            settling: known.held.get(&text).is_some_and(|held| held.settling),
        };
        known.held.insert(text.clone(), held);
        if let Some(calls) = &known.http {
            // A session that has just ended is replaced, and its tasks are sent again.
            let _ = calls.send((text, claimed.clone()));
            return;
        }
        known.tell(WorkerMessage::Task(Box::new(worker_task(
            text, id, claimed,
        ))));
    }

    /// The claims that can be sent now, with room reserved for their tasks: what waits longest first, and
    /// the worker with the most room.
    pub(super) fn claims(&mut self, most: usize, now: Instant) -> Vec<Order> {
        let mut orders = Vec::new();
        if !self.workers.values().any(WorkerEntry::takes_tasks) {
            return orders;
        }
        for (_, execution) in &self.by_age {
            if orders.len() >= most {
                break;
            }
            let Some(waiting) = self.waiting.get_mut(execution) else {
                continue;
            };
            if waiting.claiming || waiting.pause.is_some_and(|(_, end)| now < end) {
                continue;
            }
            let workers = self.workers.values_mut();
            let workers = workers.filter(|known| known.takes_tasks());
            let takers = workers.filter_map(|known| {
                let claim = known.claim(0, self.pace.lease);
                let tasks = waiting.tasks.iter();
                let count = tasks
                    .filter(|task| claim.takes(task, &waiting.tenant))
                    .count();
                let most = u32::try_from(count).unwrap_or(u32::MAX);
                let most = most.min(known.room()).min(MOST_PER_CLAIM);
                (most > 0).then_some((known, most))
            });
            let taker = takers.max_by_key(|(known, _)| known.room());
            if let Some((known, most)) = taker {
                known.reserved += most;
                waiting.claiming = true;
                orders.push(Order {
                    execution: Arc::clone(execution),
                    claim: known.claim(most, self.pace.lease),
                });
            }
        }
        orders
    }

    /// A claim was answered, or it failed at this time. After a failure, the next claim waits for a pause.
    pub(super) fn claimed(&mut self, order: &Order, failed: Option<Instant>) {
        self.unreserve(&order.claim.worker, order.claim.most);
        if let Some(waiting) = self.waiting.get_mut(&order.execution) {
            waiting.claiming = false;
            waiting.pause = failed.map(|now| {
                let longer = |(pause, _): (Duration, _)| (pause * 2).min(PAUSE.1);
                let pause = waiting.pause.map_or(PAUSE.0, longer);
                (pause, now + pause)
            });
        }
    }

    /// A claim that asks for all tasks that a worker has by the log.
    pub(super) fn claim_again(&self, worker: &str) -> Option<Claim> {
        let known = self.workers.get(worker)?;
        Some(Claim {
            again: true,
            ..known.claim(0, self.pace.lease)
        })
    }

    /// A claim that asks an execution for the tasks that a worker has by the log and not here.
    pub(super) fn ask_again(&self, worker: &str, execution: &str) -> Option<Claim> {
        let held = self.workers.get(worker)?.held.values();
        let held = held.filter(|held| held.token.e == *execution);
        Some(Claim {
            has: held.filter_map(|held| held.open.hand_out()).collect(),
            ..self.claim_again(worker)?
        })
    }

    /// A renewal failed: the next one follows soon.
    pub(super) fn renew_again(&mut self, worker: &str, now: Instant) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.renewed = (now + RENEW_AGAIN)
                .checked_sub(self.pace.renew)
                .unwrap_or(now);
        }
    }

    /// The executions of which workers have tasks, and whose leases are to be renewed now.
    pub(super) fn renewals(&mut self, now: Instant) -> Vec<(Arc<str>, Arc<str>)> {
        let mut found = Vec::new();
        for (worker, known) in &mut self.workers {
            let due = known.tell.is_some() && now.duration_since(known.renewed) >= self.pace.renew;
            if !due || known.held.is_empty() {
                continue;
            }
            known.renewed = now;
            let mut executions: Vec<_> = known.held.values().map(|held| &held.token.e).collect();
            executions.dedup();
            let executions = executions.into_iter();
            found.extend(executions.map(|id| (Arc::from(id.as_str()), Arc::clone(worker))));
        }
        found.sort();
        found.dedup();
        found
    }

    /// Takes out workers that have been silent for too long; the tasks they had.
    pub(super) fn lapse(&mut self, now: Instant) -> Vec<(Arc<str>, HandOut)> {
        let silent = self.workers.iter().filter(|(_, known)| known.until <= now);
        let silent: Vec<_> = silent.map(|(worker, _)| Arc::clone(worker)).collect();
        let mut lost = Vec::new();
        for worker in silent {
            let Some(known) = self.workers.remove(&worker) else {
                continue;
            };
            let reason = "LEASE_EXPIRED";
            known.tell(WorkerMessage::Closed { reason });
            let held = known.held.into_values();
            lost.extend(held.filter_map(|held| {
                let execution = Arc::from(held.token.e.as_str());
                Some((execution, held.open.hand_out()?))
            }));
        }
        if self.workers.is_empty() {
            self.waiting.clear();
            self.by_age.clear();
        }
        lost
    }

    /// The executions of which workers have tasks.
    pub(super) fn executions_held(&self) -> Vec<String> {
        let held = self.workers.values().flat_map(|known| known.held.values());
        let mut found: Vec<_> = held.map(|held| held.token.e.clone()).collect();
        found.sort();
        found.dedup();
        found
    }

    /// The executions that are known to have waiting tasks.
    pub(super) fn executions_waiting(&self) -> Vec<Arc<str>> {
        self.waiting.keys().cloned().collect()
    }

    /// Who is connected and what waits.
    pub(super) fn queue(&self, now: Instant, wall: Timestamp) -> WorkQueue {
        let mut lines: BTreeMap<(bool, Line), (usize, Timestamp)> = BTreeMap::new();
        for waiting in self.waiting.values() {
            for task in &waiting.tasks {
                let key = (
                    Arc::clone(&task.role),
                    Arc::clone(&task.skill),
                    waiting.tenant.clone(),
                );
                let line = lines.entry((task.http, key)).or_insert((0, waiting.since));
                line.0 += 1;
                line.1 = line.1.min(waiting.since);
            }
        }
        WorkQueue {
            workers: self
                .workers
                .values()
                .filter(|it| it.http.is_none())
                .map(|it| status(it, now, wall))
                .collect(),
            tasks: lines
                .into_iter()
                .map(
                    |((by_engine, (role, skill, tenant)), (count, oldest))| QueuedTasks {
                        by_engine,
                        role,
                        skill,
                        tenant,
                        count,
                        oldest_time: Some(oldest),
                    },
                )
                .collect(),
            ..WorkQueue::default()
        }
    }
}

/// Takes from a worker what it no longer has by the object, and asks it to stop what is cancelled.
fn reconcile(known: &mut WorkerEntry, seen: &StoredView, at: Progress) {
    let mut gone = Vec::new();
    let mut stop = Vec::new();
    for (text, held) in &mut known.held {
        if held.token.e != *seen.view.id || held.settling || held.at > at {
            continue;
        }
        let open = seen.tasks.iter().find(|task| held.token.names(task));
        let open = open.filter(|task| task.worker.as_ref() == Some(&known.offer.worker));
        match open {
            None => gone.push(text.clone()),
            Some(open) if open.cancel && !held.cancelled => {
                held.cancelled = true;
                stop.push(text.clone());
            }
            Some(_) => {}
        }
    }
    for task_token in gone {
        known.held.remove(&task_token);
        let reason = "NOT_NEEDED";
        known.tell(WorkerMessage::Withdrawn { task_token, reason });
    }
    for task_token in stop {
        known.tell(WorkerMessage::Cancelled { task_token });
    }
}

fn status(known: &WorkerEntry, now: Instant, wall: Timestamp) -> WorkerStatus {
    let left = SignedDuration::try_from(known.until.saturating_duration_since(now)).ok();
    let held = known.held.values().take(MOST_SHOWN);
    WorkerStatus {
        offer: known.offer.clone(),
        connected: known.tell.is_some(),
        held: u32::try_from(known.held.len()).unwrap_or(u32::MAX),
        connect_time: Some(known.connected),
        seen_time: Some(known.seen),
        lease_time: left.and_then(|left| wall.checked_add(left).ok()),
        tasks: held
            .filter_map(|held| {
                Some(HeldTask {
                    execution: ExecutionId::new(held.token.e.as_str()).ok()?,
                    step: held.token.t.step.to_string(),
                    attempt: held.token.t.attempt,
                    compensation: held.token.t.undo,
                })
            })
            .collect(),
    }
}

fn worker_task(task_token: String, execution: ExecutionId, claimed: &ClaimedTask) -> WorkerTask {
    let task = &claimed.open.task;
    WorkerTask {
        task_token,
        execution,
        step: Arc::clone(&task.step),
        attempt: task.attempt,
        compensation: task.undo,
        outcome_unknown: claimed.unknown,
        action: Arc::clone(&claimed.action),
        input: Payload {
            data: serde_json::to_vec(&*claimed.input)
                .unwrap_or_default()
                .into(),
            // Without a content type: JSON.
            content_type: String::new(),
        },
        feedback: claimed.feedback.clone(),
        deadline: claimed.due,
        heartbeat_timeout: claimed.heartbeat_timeout,
        role: Arc::clone(&claimed.open.role),
        model_policy: Arc::clone(&claimed.model_policy),
    }
}
