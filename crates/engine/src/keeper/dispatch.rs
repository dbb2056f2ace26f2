//! The book of tasks and workers: which task waits, who has which, who has room.
//!
//! A book only: it writes nothing down and sends nothing. What it says follows from the log, but
//! for who is connected and how much room they have.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use stateway_machine::Task;
use stateway_model::Progress;
use tokio::sync::mpsc;

use super::fair_queue::FairQueue;
use crate::clock::Moment;
use crate::worker::{Offer, TaskToken, WorkerMessage};

/// A worker's place in the book.
pub(super) type WorkerIx = u32;

/// The role, skill and tenant that a task needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Need {
    /// A worker of this role with this skill; either may be empty, which anyone has.
    Role { role: Arc<str>, skill: Arc<str> },
    /// The engine's own HTTP caller.
    Http,
}

/// A task in the book.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) task: Task,
    pub(super) branch: u32,
    pub(super) place: Place,
    /// The number of its hand-out, once a worker has it.
    pub(super) hand_out: u32,
    /// When its worker last sent a heartbeat for it, or got it.
    pub(super) heard: Option<Timestamp>,
    reports: Reports,
}

/// The progress of a task that its worker reports.
#[derive(Debug, Clone)]
struct Reports {
    /// When the worker got the task.
    since: Instant,
    /// When progress was last recorded in the log.
    recorded: Option<Instant>,
    /// Progress that is not recorded yet.
    pending: Option<Progress>,
}

impl Reports {
    const fn since(since: Instant) -> Self {
        Self {
            since,
            recorded: None,
            pending: None,
        }
    }

    /// When progress may be recorded next. The longer the attempt takes, the rarer: an attempt of any
    /// length has some hundred such events.
    fn due(&self) -> Instant {
        let Some(recorded) = self.recorded else {
            return self.since;
        };
        let age = recorded.saturating_duration_since(self.since);
        recorded + REPORTS_APART.max(age / REPORTS_SHARE)
    }
}

/// The shortest time between two records of an attempt's progress.
const REPORTS_APART: Duration = Duration::from_millis(250);
/// The share of an attempt's age that lies between two records of its progress.
const REPORTS_SHARE: u32 = 100;

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// No worker has it.
    Waiting,
    /// A worker has it, or is about to.
    With(WorkerIx),
}

/// A task that waits.
#[derive(Debug)]
struct Waiting {
    number: i64,
    task: Task,
    branch: u32,
    since: Instant,
}

/// A worker, connected or expected back.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) offer: Offer,
    /// The connection; none while it is expected back.
    pub(super) session: Option<(u64, mpsc::UnboundedSender<WorkerMessage>)>,
    pub(super) held: u32,
    /// How many tasks it was given from a line.
    fed: usize,
    /// Since when it is connected.
    pub(super) since: Option<Timestamp>,
    /// Until when its tasks stay with it if it sends nothing.
    pub(super) until: Instant,
    /// The heartbeat of one of its tasks timed out, and no message has come from it since.
    silent: bool,
    /// Whether a message has come from it in its present session.
    spoke: bool,
    /// How many of its sessions in a row ended without a message from it while it had tasks.
    pub(super) unheard: u32,
    pub(super) http: bool,
}

impl Worker {
    /// A session has ended.
    fn session_ended(&mut self) {
        if !std::mem::take(&mut self.spoke) && self.held > 0 {
            self.unheard += 1;
        }
    }

    fn has_room(&self) -> bool {
        self.session.is_some() && !self.silent && self.held < self.offer.capacity
    }

    /// A message has come from the worker: its lease begins again. Whether the worker was silent, so
    /// that tasks may wait for it.
    pub(super) fn heard(&mut self, until: Instant) -> bool {
        self.until = until;
        (self.spoke, self.unheard) = (true, 0);
        std::mem::take(&mut self.silent)
    }

    /// Whether it has ever made an offer; one that is only expected back has not.
    pub(super) fn was_connected(&self) -> bool {
        self.session.is_some() || !self.offer.roles.is_empty() || self.offer.capacity > 0
    }

    fn serves(&self, tenant: &str) -> bool {
        self.offer.tenant.is_empty() || *self.offer.tenant == *tenant
    }

    fn meets(&self, need: &Need) -> bool {
        let has = |list: &[Arc<str>], wanted: &Arc<str>| wanted.is_empty() || list.contains(wanted);
        match need {
            Need::Http => self.http,
            Need::Role { role, skill } => {
                !self.http && has(&self.offer.roles, role) && has(&self.offer.skills, skill)
            }
        }
    }
}

/// The book.
#[derive(Debug, Default)]
pub(super) struct Dispatch {
    tasks: BTreeMap<(i64, Arc<str>), Entry>,
    waiting: HashMap<Need, FairQueue<Waiting>>,
    /// In the order of their first connection, so that equal messages lead to equal logs.
    workers: BTreeMap<WorkerIx, Worker>,
    by_id: HashMap<Arc<str>, WorkerIx>,
    by_session: HashMap<u64, WorkerIx>,
    /// Workers in the order they are asked, one list for each role and one for HTTP.
    turns: HashMap<Option<Arc<str>>, VecDeque<WorkerIx>>,
    last: WorkerIx,
    /// How many tasks that are over may still stand in a line.
    left: usize,
    /// Whether someone came, left or changed what they take since it was last asked.
    changed: bool,
    /// Tasks whose reported progress has to be recorded, by the time for that.
    reports: BTreeSet<(Instant, i64, Arc<str>)>,
}

/// From this many on, they are looked for.
const MOST_LEFT: usize = 1_024;

impl Dispatch {
    /// Every task of an execution.
    pub(super) fn tasks_of(&self, number: i64) -> Vec<(Arc<str>, Task, u32)> {
        self.tasks
            .range((number, Arc::from(""))..)
            .take_while(|((of, _), _)| *of == number)
            .map(|((_, step), entry)| (Arc::clone(step), entry.task.clone(), entry.branch))
            .collect()
    }

    pub(super) fn entry(&self, number: i64, step: &Arc<str>) -> Option<&Entry> {
        self.tasks.get(&(number, Arc::clone(step)))
    }

    /// Whether this very attempt is in the book.
    pub(super) fn knows(&self, number: i64, task: &Task, branch: u32) -> bool {
        self.entry(number, &task.step)
            .is_some_and(|entry| entry.task == *task && entry.branch == branch)
    }

    /// Enters a task: with a worker that has room for it, or waiting.
    pub(super) fn enter(
        &mut self,
        number: i64,
        (task, branch): (Task, u32),
        (need, tenant): (&Need, &str),
        now: Instant,
    ) -> Option<WorkerIx> {
        let worker = self.with_room(need, tenant);
        let place = match worker {
            Some(worker) => {
                self.hold(worker);
                Place::With(worker)
            }
            None => {
                let waiting = Waiting {
                    number,
                    task: task.clone(),
                    branch,
                    since: now,
                };
                self.waiting
                    .entry(need.clone())
                    .or_default()
                    .push(tenant, waiting);
                Place::Waiting
            }
        };
        let key = (number, Arc::clone(&task.step));
        let entry = Entry {
            task,
            branch,
            place,
            hand_out: 0,
            heard: None,
            reports: Reports::since(now),
        };
        self.tasks.insert(key, entry);
        worker
    }

    /// Enters a task that a worker has by the log. The worker may not be connected yet: its time to
    /// send a heartbeat counts from now.
    pub(super) fn enter_held(
        &mut self,
        number: i64,
        (task, branch, hand_out): (Task, u32, u32),
        worker: WorkerIx,
        now: Moment,
    ) {
        self.hold(worker);
        let key = (number, Arc::clone(&task.step));
        let entry = Entry {
            task,
            branch,
            place: Place::With(worker),
            hand_out,
            heard: Some(now.wall),
            reports: Reports::since(now.steady),
        };
        self.tasks.insert(key, entry);
    }

    /// Whether a worker has the hand-out that a token names.
    pub(super) fn has(&self, worker: WorkerIx, token: &TaskToken) -> bool {
        let entry = self.entry(token.number, &token.task.step);
        entry.is_some_and(|entry| {
            entry.place == Place::With(worker)
                && token.is_of((&entry.task, entry.branch, entry.hand_out))
        })
    }

    /// A worker sent a heartbeat for a task that it has. The progress to record now, if any.
    pub(super) fn heard(
        &mut self,
        (number, step): (i64, &Arc<str>),
        progress: Option<Progress>,
        now: Moment,
    ) -> Option<Progress> {
        let entry = self.tasks.get_mut(&(number, Arc::clone(step)))?;
        entry.heard = Some(now.wall);
        entry.reports.pending = Some(progress?);
        let due = entry.reports.due();
        if due > now.steady {
            self.reports.insert((due, number, Arc::clone(step)));
            return None;
        }
        entry.reports.recorded = Some(now.steady);
        entry.reports.pending.take()
    }

    /// The wall clock was moved: the workers' heartbeats move with it.
    pub(super) fn notice_jump(&mut self, by: SignedDuration) {
        for entry in self.tasks.values_mut() {
            entry.heard = entry
                .heard
                .map(|heard| heard.checked_add(by).unwrap_or(heard));
        }
    }

    /// When reported progress has to be recorded next.
    pub(super) fn next_report(&self) -> Option<Instant> {
        self.reports.first().map(|(due, ..)| *due)
    }

    /// A task whose reported progress has to be recorded now.
    pub(super) fn take_report(&mut self, now: Instant) -> Option<(i64, Task, Progress)> {
        while self.next_report().is_some_and(|due| due <= now) {
            let (_, number, step) = self.reports.pop_first()?;
            if let Some(entry) = self.tasks.get_mut(&(number, step))
                && let Some(progress) = entry.reports.pending.take()
            {
                entry.reports.recorded = Some(now);
                return Some((number, entry.task.clone(), progress));
            }
        }
        None
    }

    /// Removes a task, and returns the worker that had it.
    pub(super) fn remove(
        &mut self,
        number: i64,
        step: &Arc<str>,
    ) -> Option<(Entry, Option<WorkerIx>)> {
        let entry = self.tasks.remove(&(number, Arc::clone(step)))?;
        let Place::With(worker) = entry.place else {
            self.tidy();
            return Some((entry, None));
        };
        if let Some(holder) = self.workers.get_mut(&worker) {
            holder.held = holder.held.saturating_sub(1);
        }
        Some((entry, Some(worker)))
    }

    /// Counts a queued task that is no longer needed, and removes such tasks from the queues once there are many.
    fn tidy(&mut self) {
        self.left += 1;
        if self.left > MOST_LEFT && self.left > self.tasks.len() {
            self.left = 0;
            let tasks = &self.tasks;
            self.waiting.retain(|_, line| {
                line.retain(|waiting| still_waits(tasks, waiting));
                !line.is_empty()
            });
        }
    }

    /// The next waiting task for a worker with room, which then has it.
    pub(super) fn next_for(&mut self, ix: WorkerIx) -> Option<(i64, Task)> {
        let worker = self.workers.get(&ix).filter(|worker| worker.has_room())?;
        let tasks = &self.tasks;
        let gone = |waiting: &Waiting| !still_waits(tasks, waiting);
        let mut found = None;
        let mut needs = needs_met(worker);
        // In turn, so that a busy role does not starve the worker's others.
        let first = worker.fed % needs.len().max(1);
        needs.rotate_left(first);
        for need in needs {
            let Some(line) = self.waiting.get_mut(&need) else {
                continue;
            };
            found = line.take_of(|tenant| worker.serves(tenant), gone);
            if line.is_empty() {
                self.waiting.remove(&need);
            }
            if found.is_some() {
                break;
            }
        }
        let Waiting { number, task, .. } = found?;
        self.hold(ix);
        if let Some(worker) = self.workers.get_mut(&ix) {
            worker.fed = worker.fed.wrapping_add(1);
        }
        if let Some(entry) = self.tasks.get_mut(&(number, Arc::clone(&task.step))) {
            entry.place = Place::With(ix);
        }
        Some((number, task))
    }

    /// A worker that meets the need, serves the tenant and has room, in turn.
    fn with_room(&mut self, need: &Need, tenant: &str) -> Option<WorkerIx> {
        let list = match need {
            Need::Http => None,
            Need::Role { role, .. } => Some(Arc::clone(role)),
        };
        let turns = self.turns.get_mut(&list)?;
        let workers = &self.workers;
        let fits = |ix: &WorkerIx| {
            workers.get(ix).is_some_and(|worker| {
                worker.has_room() && worker.serves(tenant) && worker.meets(need)
            })
        };
        let at = turns.iter().position(fits)?;
        turns.rotate_left(at + 1);
        turns.back().copied()
    }

    /// A worker lost a task. The worker gets no task until a message comes from it, and then goes
    /// behind every other worker.
    pub(super) fn silence(&mut self, worker: WorkerIx) {
        if let Some(silent) = self.workers.get_mut(&worker) {
            silent.silent = true;
        }
        for turns in self.turns.values_mut() {
            if let Some(at) = turns.iter().position(|ix| *ix == worker) {
                turns.remove(at);
                turns.push_back(worker);
            }
        }
    }

    fn hold(&mut self, worker: WorkerIx) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.held += 1;
        }
    }

    pub(super) fn worker(&self, ix: WorkerIx) -> Option<&Worker> {
        self.workers.get(&ix)
    }

    pub(super) fn worker_mut(&mut self, ix: WorkerIx) -> Option<&mut Worker> {
        self.workers.get_mut(&ix)
    }

    pub(super) fn of_session(&self, session: u64) -> Option<WorkerIx> {
        self.by_session.get(&session).copied()
    }

    /// Every worker.
    pub(super) fn workers(&self) -> impl Iterator<Item = (WorkerIx, &Worker)> {
        self.workers.iter().map(|(ix, worker)| (*ix, worker))
    }

    /// The worker of this id, expected until a time if it is not connected.
    pub(super) fn expect(&mut self, id: &Arc<str>, until: Instant) -> WorkerIx {
        if let Some(ix) = self.by_id.get(id) {
            return *ix;
        }
        let offer = Offer {
            worker: Arc::clone(id),
            ..Offer::default()
        };
        self.insert(Worker {
            offer,
            session: None,
            held: 0,
            fed: 0,
            since: None,
            until,
            silent: false,
            spoke: false,
            unheard: 0,
            http: false,
        })
    }

    fn insert(&mut self, worker: Worker) -> WorkerIx {
        self.last += 1;
        self.by_id
            .insert(Arc::clone(&worker.offer.worker), self.last);
        self.workers.insert(self.last, worker);
        self.last
    }

    /// Connects a worker, new or expected; the connection it had before.
    pub(super) fn connect(
        &mut self,
        offer: Offer,
        session: (u64, mpsc::UnboundedSender<WorkerMessage>),
        (until, http): (Instant, bool),
    ) -> (WorkerIx, Option<mpsc::UnboundedSender<WorkerMessage>>) {
        let ix = self.expect(&offer.worker, until);
        self.by_session.insert(session.0, ix);
        let before = self.workers.get_mut(&ix).and_then(|worker| {
            let unheard = worker.unheard;
            if worker.session.is_some() {
                worker.session_ended();
            }
            let unheard = worker.unheard.max(unheard);
            worker.heard(until);
            (worker.spoke, worker.unheard) = (false, unheard);
            worker.http = http;
            worker.session.replace(session)
        });
        if let Some((old, _)) = &before {
            self.by_session.remove(old);
        }
        self.set_offer(ix, offer);
        (ix, before.map(|(_, tell)| tell))
    }

    /// Whether the connected workers have changed since this was last asked.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The executions with a task that no worker has taken.
    pub(super) fn waiting_executions(&self) -> Vec<i64> {
        let waiting = self.tasks.iter();
        let waiting = waiting.filter(|(_, entry)| entry.place == Place::Waiting);
        let mut numbers: Vec<i64> = waiting.map(|((number, _), _)| *number).collect();
        numbers.dedup();
        numbers
    }

    /// Changes what a worker offers.
    pub(super) fn set_offer(&mut self, ix: WorkerIx, offer: Offer) {
        self.changed = true;
        self.leave_turns(ix);
        let Some(worker) = self.workers.get_mut(&ix) else {
            return;
        };
        worker.offer = Offer {
            worker: Arc::clone(&worker.offer.worker),
            ..offer
        };
        let lists: Vec<Option<Arc<str>>> = if worker.http {
            vec![None]
        } else {
            let roles = worker.offer.roles.iter().cloned().map(Some);
            std::iter::once(Some("".into())).chain(roles).collect()
        };
        for list in lists {
            let turns = self.turns.entry(list).or_default();
            if !turns.contains(&ix) {
                turns.push_back(ix);
            }
        }
    }

    fn leave_turns(&mut self, ix: WorkerIx) {
        self.turns.retain(|_, turns| {
            turns.retain(|other| *other != ix);
            !turns.is_empty()
        });
    }

    /// A connection broke: the worker is expected back until a time.
    pub(super) fn disconnect(&mut self, session: u64, until: Instant) {
        let Some(ix) = self.by_session.remove(&session) else {
            return;
        };
        if let Some(worker) = self.workers.get_mut(&ix) {
            worker.session_ended();
            worker.session = None;
            worker.since = None;
            worker.until = worker.until.min(until);
            self.changed = true;
        }
    }

    /// Takes a worker out; the tasks it had.
    pub(super) fn dismiss(&mut self, ix: WorkerIx) -> (Option<Worker>, Vec<(i64, Task)>) {
        self.changed = true;
        self.leave_turns(ix);
        let worker = self.workers.remove(&ix);
        if let Some(worker) = &worker {
            self.by_id.remove(&worker.offer.worker);
            if let Some((session, _)) = &worker.session {
                self.by_session.remove(session);
            }
        }
        (worker, self.tasks_with(ix))
    }

    /// The tasks a worker has.
    pub(super) fn tasks_with(&self, ix: WorkerIx) -> Vec<(i64, Task)> {
        self.tasks
            .iter()
            .filter(|(_, entry)| entry.place == Place::With(ix))
            .map(|((number, _), entry)| (*number, entry.task.clone()))
            .collect()
    }

    /// Every task that a worker has, by execution and step.
    pub(super) fn handed_out(&self) -> impl Iterator<Item = (WorkerIx, i64, &Task)> {
        let tasks = self.tasks.iter();
        tasks.filter_map(|((number, _), entry)| match entry.place {
            Place::With(ix) => Some((ix, *number, &entry.task)),
            Place::Waiting => None,
        })
    }

    /// Forgets tasks and workers: after a panic the book may contradict itself.
    pub(super) fn reset(&mut self) {
        *self = Self {
            changed: true,
            ..Self::default()
        };
    }

    /// Forgets every task; the workers stay.
    pub(super) fn forget_tasks(&mut self) {
        self.tasks.clear();
        self.waiting.clear();
        self.reports.clear();
        self.workers.values_mut().for_each(|worker| worker.held = 0);
    }

    /// How many tasks wait and since when the first of them does, by need and tenant.
    pub(super) fn lines(&self) -> Vec<(&Need, &str, usize, Instant)> {
        let mut lines = Vec::new();
        for (need, line) in &self.waiting {
            let mut tenants: BTreeMap<&str, (usize, Instant)> = BTreeMap::new();
            for (tenant, waiting) in line.iter() {
                if still_waits(&self.tasks, waiting) {
                    let (count, oldest) = tenants.entry(tenant).or_insert((0, waiting.since));
                    *count += 1;
                    *oldest = waiting.since.min(*oldest);
                }
            }
            let row = |(tenant, (count, oldest))| (need, tenant, count, oldest);
            lines.extend(tenants.into_iter().map(row));
        }
        lines
    }
}

/// Whether a task in a line has not been taken and is not over.
fn still_waits(tasks: &BTreeMap<(i64, Arc<str>), Entry>, waiting: &Waiting) -> bool {
    let key = (waiting.number, Arc::clone(&waiting.task.step));
    tasks.get(&key).is_some_and(|entry| {
        entry.place == Place::Waiting
            && entry.task == waiting.task
            && entry.branch == waiting.branch
    })
}

/// The needs that a worker meets: those of its roles first, then those without a role.
fn needs_met(worker: &Worker) -> Vec<Need> {
    if worker.http {
        return vec![Need::Http];
    }
    let anyone: Arc<str> = "".into();
    let roles = worker.offer.roles.iter().chain(std::iter::once(&anyone));
    roles
        .flat_map(|role| {
            let skills = worker.offer.skills.iter().chain(std::iter::once(&anyone));
            skills.map(move |skill| Need::Role {
                role: Arc::clone(role),
                skill: Arc::clone(skill),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
