//! Hands tasks to workers and takes their results.

use std::sync::Arc;
use std::time::Duration;

use stateway_definition::StepKind;
use stateway_machine::{Data, State, Task, TaskOrder, Verb, Withdrawal, is_settled, task_order};
use stateway_model::{Progress, Usage};
use tokio::sync::mpsc;

use super::dispatch::{Need, Place, WorkerIx};
use super::{Keeper, Work};
use crate::bug::Bug;
use crate::cause;
use crate::worker::{Offer, Outcome, TaskToken, WorkerMessage, WorkerTask};
use crate::{Fate, Write};

/// How often leases are checked.
const LEASE_CHECK: Duration = Duration::from_millis(250);
/// The reason of an answer that came too late or twice.
const STALE: &str = "STALE_TASK";
/// The most executions that a turn loads to find out whether a result that is sent again counted.
const MOST_RESULTS_CHECKED: usize = 1_024;

impl Keeper {
    /// Queues a task for workers, or records the worker that has it by the log.
    pub(super) fn place(&mut self, number: i64, order: TaskOrder) {
        let (task, branch) = (order.key.task, order.key.branch);
        if self.dispatch.knows(number, &task, branch) {
            return;
        }
        if let Some(worker) = order.worker {
            let until = self.now.steady + self.config.lease;
            let worker = self.dispatch.expect(&worker, until);
            self.dispatch
                .enter_held(number, (task, branch, order.hand_out), worker, self.now);
            return;
        }
        let Some(live) = self.executions.get(number) else {
            return;
        };
        if live.state.state().is_held() {
            // It is owed again when the execution is resumed.
            return;
        }
        if self.config.faults.fate(Write::TaskPlaced) != Fate::Done {
            return;
        }
        let need = need(&live.state, &task, &order.role);
        let tenant = live.origin.tenant();
        let now = self.now.steady;
        let entered = self
            .dispatch
            .enter(number, (task.clone(), branch), (&need, tenant), now);
        if let Some(worker) = entered {
            self.work.push_back(Work::Assign {
                number,
                task,
                worker,
            });
        }
    }

    /// Gives a task to the worker it is entered for, unless a policy or a budget is in the way.
    pub(super) fn assign(&mut self, number: i64, task: Task, worker: WorkerIx) {
        let entered = self.dispatch.entry(number, &task.step);
        if entered.is_none_or(|entry| entry.task != task || entry.place != Place::With(worker)) {
            return;
        }
        // A policy's decision puts the task up again while it is being handed out.
        if self.is_assigned(number, &task) {
            return;
        }
        // It is entered again once it is assigned.
        self.dispatch.remove(number, &task.step);
        let Some(taker) = self.dispatch.worker(worker) else {
            return;
        };
        let (id, identity) = (
            Arc::clone(&taker.offer.worker),
            Arc::clone(&taker.offer.identity),
        );
        let mut input = None;
        if self.is_ready(number) && self.is_permitted(number, &task) {
            input = self.fitting_input(number, &task, worker);
        }
        if input.is_some() {
            let verb = Verb::AssignTask {
                task: task.clone(),
                worker: id,
                identity,
            };
            let cause: Arc<str> = cause::HAND_OUT.into();
            if let Err(error) = self.command(number, &cause, verb) {
                tracing::warn!(number, step = %task.step, "a task cannot be handed out: {error}");
            }
        }
        let entered = self.dispatch.entry(number, &task.step);
        let entered = entered.filter(|entry| entry.task == task);
        let is_entered = entered.is_some_and(|entry| entry.place == Place::With(worker));
        match input.filter(|_| is_entered) {
            Some(input) => self.send_task(number, (task, input), worker),
            None => self.work.push_back(Work::Feed(worker)),
        }
    }

    /// Whether a worker has the task by the log.
    fn is_assigned(&self, number: i64, task: &Task) -> bool {
        let live = self.executions.get(number);
        let order = live.and_then(|live| task_order(&live.state, task));
        order.is_some_and(|order| order.worker.is_some())
    }

    /// Whether tasks of an execution are handed out now.
    fn is_ready(&mut self, number: i64) -> bool {
        self.load_number(number).is_ok()
            && self
                .executions
                .get(number)
                .is_some_and(|live| !live.state.state().is_held())
    }

    fn send_task(&mut self, number: i64, (task, input): (Task, Data), worker: WorkerIx) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let session = self
            .dispatch
            .worker(worker)
            .and_then(|worker| worker.session.as_ref());
        let Some((_, tell)) = session else { return };
        let message = worker_task(live, task, input);
        self.outbox
            .tell(tell, WorkerMessage::Task(Box::new(message)));
    }

    /// Hands a worker with room the next tasks it can do.
    pub(super) fn feed(&mut self, worker: WorkerIx) {
        while !self.pace.is_full() {
            let Some((number, task)) = self.dispatch.next_for(worker) else {
                return;
            };
            self.assign(number, task, worker);
        }
        self.pace.put_off(Work::Feed(worker));
    }

    /// Asks the worker that has a task to stop; its answer is awaited.
    pub(super) fn ask_to_cancel(&mut self, number: i64, order: &TaskOrder) {
        let entry = self.dispatch.entry(number, &order.key.task.step);
        let Some(Place::With(worker)) = entry.map(|entry| entry.place) else {
            return;
        };
        let session = self
            .dispatch
            .worker(worker)
            .and_then(|worker| worker.session.as_ref());
        if let Some((_, tell)) = session {
            let token = TaskToken {
                number,
                branch: order.key.branch,
                task: order.key.task.clone(),
                hand_out: order.hand_out,
            };
            let message = WorkerMessage::Cancel { token };
            self.outbox.tell(tell, message);
        }
    }

    /// Takes a task out of the book, and back from the worker that has it.
    pub(super) fn withdraw(&mut self, number: i64, step: &Arc<str>, why: Withdrawal) {
        if self.config.faults.fate(Write::TaskWithdrawn) != Fate::Done {
            return;
        }
        let Some((entry, Some(holder))) = self.dispatch.remove(number, step) else {
            return;
        };
        if why == Withdrawal::WorkerLost {
            self.dispatch.silence(holder);
        }
        self.work.push_back(Work::Feed(holder));
        let session = self
            .dispatch
            .worker(holder)
            .and_then(|worker| worker.session.as_ref());
        if let Some((_, tell)) = session {
            let token = TaskToken {
                number,
                branch: entry.branch,
                task: entry.task,
                hand_out: entry.hand_out,
            };
            let reason = why.as_str();
            let message = WorkerMessage::Withdrawn { token, reason };
            self.outbox.tell(tell, message);
        }
    }

    pub(super) fn connect(
        &mut self,
        session: (u64, mpsc::UnboundedSender<WorkerMessage>),
        offer: Offer,
        http: bool,
    ) {
        let until = self.now.steady + self.config.lease;
        let (worker, before) = self.dispatch.connect(offer, session, (until, http));
        if let Some(connected) = self.dispatch.worker_mut(worker) {
            connected.since = Some(self.now.wall);
        }
        if let Some(before) = before {
            let reason = "REPLACED";
            let closed = WorkerMessage::Closed { reason };
            self.outbox.tell(&before, closed);
        }
        // A worker may have lost the tasks it has by the log, so they are sent again; a worker drops
        // a task that it is running already.
        self.relieve(worker);
        for (number, task) in self.dispatch.tasks_with(worker) {
            self.send_again(number, task);
        }
        self.work.push_back(Work::Feed(worker));
    }

    /// Sends a task again to the connected worker that has it by the log.
    pub(super) fn send_again(&mut self, number: i64, task: Task) {
        let entry = self.dispatch.entry(number, &task.step);
        let Some(Place::With(worker)) = entry.map(|entry| entry.place) else {
            return;
        };
        let connected = self.dispatch.worker(worker);
        if connected.is_none_or(|worker| worker.session.is_none())
            || self.load_number(number).is_err()
            // A task that is about to be assigned is sent when it is.
            || !self.is_assigned(number, &task)
        {
            return;
        }
        if self.has_other_identity(number, &task, worker) {
            self.lose(number, task);
            return;
        }
        let Some(input) = self.fitting_input(number, &task, worker) else {
            return;
        };
        let order = self
            .executions
            .get(number)
            .and_then(|live| task_order(&live.state, &task));
        self.send_task(number, (task, input), worker);
        if let Some(order) = order.filter(|order| order.cancel) {
            self.ask_to_cancel(number, &order);
        }
    }

    /// Whether a task was handed out to another identity than the worker of the same id has now.
    fn has_other_identity(&self, number: i64, task: &Task, worker: WorkerIx) -> bool {
        let live = self.executions.get(number);
        let order = live.and_then(|live| task_order(&live.state, task));
        let before = order.and_then(|order| order.identity);
        let now = self.dispatch.worker(worker);
        match (before, now) {
            (Some(before), Some(now)) => !before.eq_ignore_ascii_case(&now.offer.identity),
            _ => false,
        }
    }

    /// A task goes to another worker, because the one that has it is gone.
    pub(super) fn lose(&mut self, number: i64, task: Task) {
        let cause: Arc<str> = cause::LEASE.into();
        self.dispatch.remove(number, &task.step);
        if let Err(error) = self.command(number, &cause, Verb::ReleaseTask { task, lost: true }) {
            tracing::debug!(
                number,
                "the task of a silent worker had already ended: {error}"
            );
        }
    }

    pub(super) fn offer(&mut self, session: u64, offer: Offer) {
        if let Some(worker) = self.alive(session) {
            let present = self.dispatch.worker(worker);
            let identity = present.map(|worker| Arc::clone(&worker.offer.identity));
            let offer = Offer {
                identity: identity.unwrap_or_default(),
                ..offer
            };
            self.dispatch.set_offer(worker, offer);
            self.work.push_back(Work::Feed(worker));
        }
    }

    pub(super) fn gone(&mut self, session: u64) {
        let until = self.now.steady + self.config.reconnect;
        self.dispatch.disconnect(session, until);
    }

    pub(super) fn heartbeat(
        &mut self,
        session: u64,
        token: Option<&TaskToken>,
        progress: Option<Progress>,
    ) {
        let Some(worker) = self.alive(session) else {
            return;
        };
        if let Some(token) = token {
            self.take_up_early(token.number);
        }
        let Some(token) = token.filter(|token| self.dispatch.has(worker, token)) else {
            return;
        };
        let key = (token.number, &token.task.step);
        if let Some(progress) = self.dispatch.heard(key, progress, self.now) {
            self.record_progress(token.number, &token.task, progress);
        }
    }

    /// Records progress that workers reported a moment ago. A heartbeat itself is no event: it is
    /// known until the process ends, and counts from the start of the next one.
    pub(super) fn record_reports(&mut self) {
        while let Some((number, task, progress)) = self.dispatch.take_report(self.now.steady) {
            self.record_progress(number, &task, progress);
        }
    }

    fn record_progress(&mut self, number: i64, task: &Task, progress: Progress) {
        if task.undo {
            return;
        }
        let cause: Arc<str> = cause::HEARTBEAT.into();
        let verb = Verb::RecordHeartbeat {
            step: Arc::clone(&task.step),
            attempt: task.attempt,
            progress: Some(progress),
        };
        // A withdrawal that crossed the report means that the report came too late.
        let _ = self.command(number, &cause, verb);
    }

    /// The worker of the session that has sent a message. The message renews the lease of the worker.
    fn alive(&mut self, session: u64) -> Option<WorkerIx> {
        let worker = self.dispatch.of_session(session)?;
        let until = self.now.steady + self.config.lease;
        if self.dispatch.worker_mut(worker)?.heard(until) {
            self.work.push_back(Work::Feed(worker));
        }
        Some(worker)
    }

    /// A worker reports the result of an attempt.
    pub(super) fn settle(
        &mut self,
        session: u64,
        token: &TaskToken,
        (outcome, usage): (Outcome, Option<Usage>),
    ) {
        let Some(worker) = self.alive(session) else {
            return;
        };
        let (number, task) = (token.number, &token.task);
        self.take_up_early(number);
        let has = self.dispatch.has(worker, token) || self.config.has(Bug::AcceptsEveryToken);
        let verb = verb_of(task.clone(), outcome, usage);
        if !has && self.has_result(worker, token, &verb) {
            self.accept(worker, token);
            return;
        }
        if !has {
            self.refuse(
                worker,
                token,
                STALE,
                "this worker does not have the attempt",
            );
            return;
        }
        let cause: Arc<str> = cause::WORKER.into();
        self.dispatch.remove(number, &task.step);
        match self.command(number, &cause, verb) {
            Ok(_) => self.accept(worker, token),
            Err(error) => {
                self.refuse(worker, token, error.reason, &error.message);
                // The attempt is open by the log, and in no book: another worker gets it.
                if self.is_assigned(number, task) {
                    self.lose(number, task.clone());
                }
            }
        }
        self.work.push_back(Work::Feed(worker));
    }

    /// Whether the log has this result of this hand-out: the worker sends it again because it did not
    /// see the acceptance.
    fn has_result(&mut self, worker: WorkerIx, token: &TaskToken, result: &Verb) -> bool {
        let worker = self.dispatch.worker(worker);
        let Some(id) = worker.map(|worker| Arc::clone(&worker.offer.worker)) else {
            return false;
        };
        if !self.executions.contains(token.number) {
            if self.results_checked >= MOST_RESULTS_CHECKED {
                return false;
            }
            self.results_checked += 1;
        }
        if self.load_number(token.number).is_err() {
            return false;
        }
        let live = self.executions.get(token.number);
        let hand_out = (token.branch, token.hand_out);
        live.is_some_and(|live| is_settled(&live.state, result, hand_out, &id))
    }

    fn accept(&mut self, worker: WorkerIx, token: &TaskToken) {
        let worker = self.dispatch.worker(worker);
        if let Some((_, tell)) = worker.and_then(|worker| worker.session.as_ref()) {
            let token = token.clone();
            self.outbox.tell(tell, WorkerMessage::Accepted { token });
        }
    }

    fn refuse(&mut self, worker: WorkerIx, token: &TaskToken, reason: &'static str, why: &str) {
        let session = self
            .dispatch
            .worker(worker)
            .and_then(|worker| worker.session.as_ref());
        let Some((_, tell)) = session else { return };
        let message = WorkerMessage::Refused {
            token: token.clone(),
            reason,
            message: why.to_owned(),
        };
        self.outbox.tell(tell, message);
    }

    /// Takes back the tasks of workers that have been silent for too long.
    pub(super) fn check_leases(&mut self) {
        let now = self.now.steady;
        if now.duration_since(self.upkeep.leases_checked) < LEASE_CHECK {
            return;
        }
        self.upkeep.leases_checked = now;
        let silent: Vec<WorkerIx> = self
            .dispatch
            .workers()
            .filter(|(_, worker)| worker.until <= now)
            .map(|(ix, _)| ix)
            .collect();
        if self.config.has(Bug::PassesTasksToLostWorkers) {
            for worker in &silent {
                let lost = self.dismiss(*worker);
                lost.into_iter()
                    .for_each(|(number, task)| self.lose(number, task));
            }
        }
        // All of them leave first: a task of one must not go to another one that leaves too.
        let lost: Vec<_> = silent
            .into_iter()
            .flat_map(|worker| self.dismiss(worker))
            .collect();
        for (number, task) in lost {
            self.lose(number, task);
        }
        self.do_work();
    }

    /// Takes out a worker whose lease has expired; the tasks it had.
    fn dismiss(&mut self, worker: WorkerIx) -> Vec<(i64, Task)> {
        let (dismissed, had) = self.dispatch.dismiss(worker);
        if let Some((_, tell)) = dismissed.and_then(|worker| worker.session) {
            let reason = "LEASE_EXPIRED";
            let closed = WorkerMessage::Closed { reason };
            self.outbox.tell(&tell, closed);
        }
        had
    }
}

/// The command that an outcome is to the core.
fn verb_of(task: Task, outcome: Outcome, usage: Option<Usage>) -> Verb {
    match outcome {
        Outcome::Completed { output } => Verb::CompleteTask {
            task,
            output,
            usage,
        },
        Outcome::Failed(failure) => Verb::FailTask {
            task,
            failure,
            usage,
        },
        Outcome::Released { begun } => Verb::ReleaseTask { task, lost: begun },
    }
}

/// The kind of worker that a task needs.
fn need(state: &State, task: &Task, role: &Arc<str>) -> Need {
    let define = state.plan().step_definition(&task.step);
    match define.map(|define| &define.kind) {
        Some(StepKind::Http { .. }) if !task.undo => Need::Http,
        Some(StepKind::Task { skill, .. }) if !task.undo => Need::Role {
            role: Arc::clone(role),
            skill: skill.as_str().into(),
        },
        _ => Need::Role {
            role: Arc::clone(role),
            skill: "".into(),
        },
    }
}

/// The message that hands a task with this input to a worker.
pub(super) fn worker_task(live: &super::Live, task: Task, input: Data) -> WorkerTask {
    let state = &live.state;
    let define = state.plan().step_definition(&task.step);
    let (mut action, mut model_policy) = ("", "");
    if let Some(StepKind::Task {
        action: act,
        model_policy: policy,
        ..
    }) = define.map(|define| &define.kind)
    {
        (action, model_policy) = (act, policy);
    }
    if task.undo
        && let Some(undo) = state.plan().undo_of(&task.step)
    {
        action = &undo.action;
    }
    // A person may have given the step to another role than its definition names.
    let order = task_order(state, &task);
    let unknown = order.as_ref().is_some_and(|order| order.unknown);
    let hand_out = order.as_ref().map_or(0, |order| order.hand_out);
    let (role, feedback, due) = order.map_or_else(
        || ("".into(), None, None),
        |order| (order.role, order.feedback, order.due),
    );
    WorkerTask {
        token: TaskToken {
            number: live.origin.number,
            branch: state.branch(),
            task: task.clone(),
            hand_out,
        },
        execution: Arc::clone(&live.origin.id),
        action: action.into(),
        model_policy: model_policy.into(),
        role,
        input,
        feedback,
        due,
        unknown,
        heartbeat_timeout: define.and_then(|define| define.heartbeat_timeout),
        http: http_request(state, &task),
        task,
    }
}

/// What an HTTP step calls. The core checked it before it opened the attempt.
fn http_request(state: &State, task: &Task) -> Option<stateway_machine::HttpRequest> {
    if task.undo {
        return None;
    }
    stateway_machine::task_request(state, &task.step)
        .ok()
        .flatten()
}
