//! One request on one execution: commands through the driver, then everything that is written.

mod child;
mod redo;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stateway_definition::StepKind;
use stateway_driver::{UnknownCoverage, View, handle, next_timer, resume, timers};
use stateway_machine::{
    Command, Event, ExecutionState, MAX_EVENT_BYTES, Plan, State, TaskOrder, Verb, Withdrawn,
    encode_into, is_settled, restore, snapshot, task_input, task_order, task_request,
};
use stateway_model::{ErrorKind, ExecutionId, Labels};

use super::kept::{Lease, ObjectRecord, Repetition};
use super::{
    DEFINITION, INPUT, MAX_CLAIM_BYTES, MAX_VALUE_BYTES, Message, OUTPUT, STATE, Turn, VIEW, Write,
    events_key,
};
use crate::Plans;
use crate::definition_object::SCHEDULE;
use crate::message::{
    Claim, ClaimedTask, Done, HandOut, ObjectAnswer, ObjectRequest, OpenTask, Refusal, StartWork,
    StoredView, WithdrawnTask, Work,
};

/// Timers that cannot be fired are tried again after this long.
const TRY_AGAIN: SignedDuration = SignedDuration::from_millis(500);
/// The most labels of an execution.
const MOST_LABELS: usize = 64;
/// The longest id, so that the ids of children are ids too.
const LONGEST_ID: usize = 128;

/// An execution in memory while a request is carried out.
pub(super) struct Execution {
    kept: ObjectRecord,
    state: State,
    events: Vec<Event>,
    withdrawn: Vec<WithdrawnTask>,
    claimed: Vec<ClaimedTask>,
    messages: Vec<Message>,
    /// The source of the definition, if it is to be written.
    source: Option<Arc<str>>,
    changed: bool,
    purged: bool,
}

impl Execution {
    /// A new execution.
    pub(super) fn start(
        object: &str,
        request: &ObjectRequest,
        start: StartWork,
        plans: &Plans,
    ) -> Result<Self, Refusal> {
        // The ids of children and of scheduled starts contain a `~`.
        let is_scheduled = *start.by == *SCHEDULE
            && object
                .strip_prefix(&*start.definition)
                .is_some_and(|rest| rest.starts_with('~'));
        check_id(object, start.child.is_some() || is_scheduled)?;
        check_labels(&start.labels)?;
        let plan = plans.of_source(&start.source, &start.definition);
        let plan = plan.map_err(|why| invalid("INVALID_DEFINITION", why))?;
        if let Some(reason) = crate::portability::impossible(plan.definition()).first() {
            return Err(invalid("DEFINITION_NOT_PORTABLE", reason.clone())
                .hint("{ValidateDefinition} lists everything that a host cannot do."));
        }
        let id: Arc<str> = object.into();
        let body = request.body.clone().unwrap_or_default();
        let not_before = start.not_before.filter(|due| *due > request.at);
        let kept = ObjectRecord::new(
            (Arc::clone(&id), start.definition),
            (Arc::clone(&request.id), body),
            start.labels,
            (request.at, not_before),
        );
        let mut execution = Self::of(kept, State::new(plan));
        execution.kept.child.clone_from(&start.child);
        execution.source = Some(start.source);
        let by = Arc::clone(&start.by);
        let (correlation, redone_by) = match start.child {
            Some(child) => (child.correlation, child.redone_by),
            None => (Arc::clone(&id), Vec::new()),
        };
        let create = Verb::Create {
            correlation,
            execution: id,
            initiator: start.by,
            input: start.input,
            redone_by,
        };
        execution.command(request, create)?;
        if not_before.is_none() {
            execution.begin(request, by)?;
        }
        Ok(execution)
    }

    /// An execution of which this is stored.
    pub(super) fn load(
        kept: ObjectRecord,
        plan: Arc<Plan>,
        snapshot: &[u8],
    ) -> Result<Self, String> {
        let state = restore(plan, snapshot).map_err(|error| error.to_string())?;
        Ok(Self::of(kept, state))
    }

    fn of(kept: ObjectRecord, state: State) -> Self {
        Self {
            kept,
            state,
            events: Vec::new(),
            withdrawn: Vec::new(),
            claimed: Vec::new(),
            messages: Vec::new(),
            source: None,
            changed: false,
            purged: false,
        }
    }

    /// Carries out what is wanted.
    pub(super) fn work(
        &mut self,
        request: &ObjectRequest,
        work: Work,
        plans: &Plans,
    ) -> Result<(), Refusal> {
        if let Some(body) = &request.body {
            match self.kept.seen(&request.id, body)? {
                Repetition::Repeated => return Ok(()),
                Repetition::First => {}
            }
        }
        match work {
            Work::Start(_) | Work::Fork(_) => {
                let message = format!("there is an execution `{}` already", self.kept.id);
                return Err(Refusal::new(
                    ErrorKind::AlreadyExists,
                    "EXECUTION_ALREADY_EXISTS",
                    message,
                )
                .hint("Choose another id, or leave the id out."));
            }
            Work::Verb(verb) => self.command(request, *verb)?,
            Work::Asked => {
                let message = "the object does not remember the request";
                return Err(Refusal::new(ErrorKind::NotFound, "NOT_ASKED", message));
            }
            Work::Redo(redo) => self.redo(request, *redo, plans)?,
            Work::Decide { branch, verb } => self.decide(request, branch, *verb)?,
            Work::FinishChild {
                child,
                outcome,
                usage,
            } => self.finish_child(request, child, outcome, usage),
            Work::EndChild { kill } => self.end_child(request, kill)?,
            Work::Settle { hand_out, verb } => self.settle(request, &hand_out, *verb)?,
            Work::Adopt { source, by } => self.adopt(request, source, by, plans)?,
            Work::Alarm { armed } => self.alarm(request, armed),
            Work::Claim => {}
            Work::Renew { worker, lease } => self.renew(request, &worker, lease),
            Work::Purge => self.purge()?,
        }
        if let Some(body) = &request.body {
            self.kept.remember(&request.id, body);
            self.changed = true;
        }
        Ok(())
    }

    fn command(&mut self, request: &ObjectRequest, verb: Verb) -> Result<(), Refusal> {
        let now = self.now(request);
        let command = Command::new(Arc::clone(&request.id), verb);
        let step = handle(&mut self.state, command, now);
        let mut step = step.map_err(|why| Refusal::from(&why))?;
        self.withdraw(std::mem::take(&mut step.withdraw));
        self.changed |= !step.events.is_empty();
        self.events.extend(std::mem::take(&mut step.events));
        self.carry_out_children(request, &step);
        Ok(())
    }

    /// Notes the tasks that are taken from workers.
    fn withdraw(&mut self, withdrawn: Vec<Withdrawn>) {
        let withdrawn = withdrawn.into_iter().filter_map(|withdrawn| {
            Some(WithdrawnTask {
                branch: withdrawn.key.branch,
                task: withdrawn.key.task,
                worker: withdrawn.worker?,
                why: withdrawn.why,
            })
        });
        self.withdrawn.extend(withdrawn);
    }

    /// A decision of a person about a request of a branch.
    fn decide(&mut self, request: &ObjectRequest, branch: u32, verb: Verb) -> Result<(), Refusal> {
        if branch == self.state.branch() {
            return self.command(request, verb);
        }
        let (reason, hint) = match verb {
            Verb::ResolveEscalation { .. } => (
                "STALE_ESCALATION",
                "{ListEscalations} shows what is pending.",
            ),
            _ => ("STALE_APPROVAL", "{ListApprovals} shows what is pending."),
        };
        let message = "the request belongs to a branch that the execution has left";
        Err(Refusal::new(ErrorKind::FailedPrecondition, reason, message).hint(hint))
    }

    /// The time of a request, never before the newest event.
    fn now(&self, request: &ObjectRequest) -> Timestamp {
        let newest = self.state.times().updated;
        newest.map_or(request.at, |newest| newest.max(request.at))
    }

    /// Puts the execution into the queue and out of it: a host has no slots.
    fn begin(&mut self, request: &ObjectRequest, by: Arc<str>) -> Result<(), Refusal> {
        self.command(request, Verb::Trigger { by })?;
        self.command(request, Verb::GrantSlot)
    }

    /// Takes the result of a hand-out, if that hand-out has the attempt.
    fn settle(
        &mut self,
        request: &ObjectRequest,
        hand_out: &HandOut,
        verb: Verb,
    ) -> Result<(), Refusal> {
        let order = task_order(&self.state, &hand_out.task);
        let order = order.filter(|order| order.key.branch == hand_out.branch);
        let has = order.is_some_and(|order| {
            order.hand_out == hand_out.number && order.worker.as_ref() == Some(&hand_out.worker)
        });
        if has {
            return self.command(request, verb);
        }
        let number = (hand_out.branch, hand_out.number);
        // The worker did not see that its result was accepted, and sends it again.
        if is_settled(&self.state, &verb, number, &hand_out.worker) {
            return Ok(());
        }
        Err(Refusal::new(
            ErrorKind::FailedPrecondition,
            "STALE_TASK",
            "this worker does not have the attempt",
        ))
    }

    fn adopt(
        &mut self,
        request: &ObjectRequest,
        source: Arc<str>,
        by: Arc<str>,
        plans: &Plans,
    ) -> Result<(), Refusal> {
        let plan = plans.of_source(&source, &self.kept.definition);
        let plan = plan.map_err(|why| invalid("INVALID_DEFINITION", why))?;
        if let Some(reason) = crate::portability::impossible(plan.definition()).first() {
            return Err(invalid("DEFINITION_NOT_PORTABLE", reason.clone()));
        }
        let definition = Arc::new(plan.definition().clone());
        self.command(request, Verb::OfferDefinition { definition, by })?;
        if self.state.plan().revision() == plan.revision() {
            self.source = Some(source);
        }
        Ok(())
    }

    /// Fires every timer that is due. A timer may have become obsolete because of another timer:
    /// the core rejects it.
    fn alarm(&mut self, request: &ObjectRequest, armed: Timestamp) {
        let now = self.now(request);
        if self.kept.armed.is_some_and(|it| it == armed || it <= now) {
            self.kept.armed = None;
            self.changed = true;
        }
        if self.state.state() == ExecutionState::Created {
            if self.kept.not_before.is_none_or(|due| due <= now) {
                let by = Arc::clone(self.state.initiator());
                // A refusal leaves the execution where it is; its view says so.
                let _ = self.begin(request, by);
            }
            return;
        }
        let due = timers(&self.state).into_iter();
        let due: Vec<_> = due.filter(|set| set.due <= now).collect();
        for set in due {
            let _ = self.command(request, Verb::fire(set.timer));
        }
        self.release_lost(request, now);
    }

    /// Takes tasks from workers whose lease has ended.
    fn release_lost(&mut self, request: &ObjectRequest, now: Timestamp) {
        let leases = self.kept.leases.clone().into_iter();
        for lease in leases.filter(|lease| lease.until <= now) {
            let task = lease.hand_out.task.clone();
            let release = Verb::ReleaseTask { task, lost: true };
            // The attempt may have ended since.
            let _ = self.settle(request, &lease.hand_out, release);
        }
    }

    /// Begins the leases of a worker's tasks again.
    fn renew(&mut self, request: &ObjectRequest, worker: &Arc<str>, lease: Duration) {
        for order in orders(&self.state) {
            if order.worker.as_ref() == Some(worker) {
                self.lease(request, &order, lease);
            }
        }
    }

    fn lease(&mut self, request: &ObjectRequest, order: &TaskOrder, lease: Duration) {
        let Some(hand_out) = open_task(&self.state, order).hand_out() else {
            return;
        };
        let now = self.now(request);
        let until = SignedDuration::try_from(lease).ok();
        let until = until.and_then(|lease| now.checked_add(lease).ok());
        let Some(until) = until else { return };
        self.kept.leases.retain(|lease| lease.hand_out != hand_out);
        self.kept.leases.push(Lease { hand_out, until });
        self.changed = true;
    }

    /// Forgets the leases of hand-outs that have ended.
    fn drop_ended_leases(&mut self) {
        let open = orders(&self.state);
        let state = &self.state;
        self.kept.leases.retain(|lease| {
            open.iter()
                .any(|order| open_task(state, order).hand_out().as_ref() == Some(&lease.hand_out))
        });
    }

    fn purge(&mut self) -> Result<(), Refusal> {
        if !self.state.state().is_terminal() {
            let message = format!("the execution `{}` has not finished", self.kept.id);
            return Err(
                Refusal::new(ErrorKind::FailedPrecondition, "NOT_FINISHED", message)
                    .hint("Cancel it first, or wait for its end."),
            );
        }
        self.purged = true;
        Ok(())
    }

    /// Hands open tasks to a worker.
    fn claim(&mut self, request: &ObjectRequest, claim: &Claim) {
        let mut bytes = 0;
        let most_bytes = claim.most_bytes.unwrap_or(MAX_CLAIM_BYTES);
        let most_bytes = most_bytes.min(MAX_CLAIM_BYTES);
        if claim.again {
            for order in orders(&self.state) {
                if order.worker.as_ref() != Some(&claim.worker) {
                    continue;
                }
                self.lease(request, &order, claim.lease);
                let hand_out = open_task(&self.state, &order).hand_out();
                let has = hand_out.is_some_and(|hand_out| claim.has.contains(&hand_out));
                if !has && self.fits(&order, &mut bytes, most_bytes) {
                    self.claimed.extend(claimed(&self.state, &order));
                }
            }
        }
        if self.state.state().is_held() {
            return;
        }
        let tenant = self.kept.labels.get("tenant").cloned();
        let tenant = tenant.unwrap_or_default();
        let mut left = claim.most;
        for order in orders(&self.state) {
            let open = open_task(&self.state, &order);
            if left == 0 || open.worker.is_some() || !claim.takes(&open, &tenant) {
                continue;
            }
            if !self.fits(&order, &mut bytes, most_bytes) {
                break;
            }
            let assign = Verb::AssignTask {
                task: open.task.clone(),
                worker: Arc::clone(&claim.worker),
                identity: Arc::clone(&claim.identity),
            };
            // A budget that is used up, for example, fails the task instead of handing it out.
            if self.command(request, assign).is_err() {
                continue;
            }
            let taken = task_order(&self.state, &open.task);
            let taken = taken.filter(|order| order.worker.as_ref() == Some(&claim.worker));
            if let Some(order) = taken {
                self.claimed.extend(claimed(&self.state, &order));
                self.lease(request, &order, claim.lease);
                left -= 1;
            }
        }
    }

    /// Whether the input of a task fits into the answer beside the inputs before it; then it is counted.
    /// The first one always fits.
    fn fits(&self, order: &TaskOrder, bytes: &mut usize, most: usize) -> bool {
        let input = task_input(&self.state, &order.key.task);
        let more = input.map_or(0, |input| json(&*input).len());
        let fits = *bytes == 0 || *bytes + more <= most;
        if fits {
            *bytes += more;
        }
        fits
    }

    /// Everything that is to be written, the alarm and the answer.
    pub(super) fn finish(mut self, request: &ObjectRequest) -> Result<Turn, Refusal> {
        if let Some(claim) = &request.claim {
            self.claim(request, claim);
        }
        self.drop_ended_leases();
        self.drop_ended_children();
        let alarm = self.next_alarm(request);
        let seen = self.stored_view();
        let mut writes = Vec::new();
        if self.purged {
            writes.push(Write::ClearAll);
        } else if self.changed {
            self.write(&seen, &mut writes)?;
        }
        let done = Done {
            seen,
            claimed: self.claimed,
            withdrawn: self.withdrawn,
        };
        Ok(Turn {
            writes,
            alarm: alarm.filter(|_| !self.purged),
            messages: self.messages,
            answer: super::encode(&ObjectAnswer::Done(Box::new(done))),
        })
    }

    /// The time of an alarm that has to be armed; it is noted as armed.
    fn next_alarm(&mut self, request: &ObjectRequest) -> Option<Timestamp> {
        let due = match self.state.state() {
            state if state.is_terminal() => None,
            ExecutionState::Created => self.kept.not_before,
            _ => {
                let lease = self.kept.leases.iter().map(|lease| lease.until).min();
                let timer = next_timer(&self.state).map(|timer| timer.due);
                lease.into_iter().chain(timer).min()
            }
        }?;
        // A timer that is due and that the core rejects is tried again later.
        let now = self.now(request);
        let due = if due <= now {
            now.checked_add(TRY_AGAIN).unwrap_or(due)
        } else {
            due
        };
        // An alarm of the past was refused or is late: it is no reason not to arm another one.
        let is_armed = |armed: Timestamp| now < armed && armed <= due;
        if self.kept.armed.is_some_and(is_armed) {
            return None;
        }
        self.kept.armed = Some(due);
        self.changed = true;
        Some(due)
    }

    fn stored_view(&self) -> StoredView {
        let view = View::of(&self.kept.origin(), &self.state, &UnknownCoverage);
        let tasks: Vec<_> = orders(&self.state)
            .iter()
            .map(|order| open_task(&self.state, order))
            .collect();
        let waits = !self.state.state().is_held() && tasks.iter().any(|it| it.worker.is_none());
        let open = if waits {
            1
        } else if tasks.iter().any(|task| task.worker.is_some()) {
            2
        } else {
            0
        };
        StoredView {
            n: self.kept.created,
            o: open,
            s: Some(view.sub_state),
            tasks,
            parent: self.kept.child.as_ref().map(|it| Arc::clone(&it.of.parent)),
            view,
        }
    }

    fn write(&self, seen: &StoredView, writes: &mut Vec<Write>) -> Result<(), Refusal> {
        let mut set = |key: String, value: Vec<u8>| {
            if value.len() > MAX_VALUE_BYTES {
                return Err(too_large(&key, value.len(), MAX_VALUE_BYTES));
            }
            writes.push(Write::Set { key, value });
            Ok(())
        };
        if let Some(source) = &self.source {
            set(DEFINITION.to_owned(), source.as_bytes().to_vec())?;
        }
        let mut ended = false;
        if let Some(first) = self.events.first() {
            let mut lines = Vec::new();
            for event in &self.events {
                let begin = lines.len();
                encode_into(event, &mut lines);
                if lines.len() - begin > MAX_EVENT_BYTES {
                    return Err(too_large("event", lines.len() - begin, MAX_EVENT_BYTES));
                }
                lines.push(b'\n');
            }
            set(events_key(self.state.branch(), first.sequence), lines)?;
            if first.sequence <= 1 {
                let input = json(self.state.input());
                set(INPUT.to_owned(), input)?;
            }
            ended = self.state.output().is_some();
        }
        if let Some(output) = self.state.output().filter(|_| ended) {
            set(OUTPUT.to_owned(), json(output))?;
        }
        set(VIEW.to_owned(), json(seen))?;
        set(STATE.to_owned(), self.kept.encode(&snapshot(&self.state)))
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it has only text keys, so it is always JSON")
}

/// The tasks that are open.
fn orders(state: &State) -> Vec<TaskOrder> {
    resume(state).start
}

fn open_task(state: &State, order: &TaskOrder) -> OpenTask {
    let task = &order.key.task;
    let define = state.plan().step_definition(&task.step);
    let http = !task.undo && matches!(define.map(|it| &it.kind), Some(StepKind::Http { .. }));
    let skill = match define.map(|define| &define.kind) {
        Some(StepKind::Task { skill, .. }) if !task.undo => skill.as_str().into(),
        _ => "".into(),
    };
    OpenTask {
        branch: order.key.branch,
        task: task.clone(),
        role: Arc::clone(&order.role),
        skill,
        http,
        worker: order.worker.clone(),
        identity: order.identity.clone(),
        hand_out: order.hand_out,
        cancel: order.cancel,
    }
}

/// What a worker needs to do a task.
fn claimed(state: &State, order: &TaskOrder) -> Option<ClaimedTask> {
    let task = &order.key.task;
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
    Some(ClaimedTask {
        open: open_task(state, order),
        action: action.into(),
        // The references of an open attempt have values: the core checked before it opened it.
        input: task_input(state, task).ok()?,
        http: if task.undo {
            None
        } else {
            task_request(state, &task.step).ok().flatten()
        },
        feedback: order.feedback.clone(),
        due: order.due,
        unknown: order.unknown,
        heartbeat_timeout: define.and_then(|define| define.heartbeat_timeout),
        model_policy: model_policy.into(),
    })
}

fn invalid(reason: &str, message: String) -> Refusal {
    Refusal::new(ErrorKind::InvalidArgument, reason, message)
}

fn too_large(what: &str, bytes: usize, most: usize) -> Refusal {
    let message =
        format!("the execution would store {bytes} bytes under `{what}`, more than {most}");
    Refusal::new(
        ErrorKind::FailedPrecondition,
        "EXECUTION_TOO_LARGE",
        message,
    )
    .hint("Store large data elsewhere and pass a reference.")
}

fn check_labels(labels: &Labels) -> Result<(), Refusal> {
    if labels.len() <= MOST_LABELS {
        return Ok(());
    }
    let message = format!("an execution has at most {MOST_LABELS} labels");
    Err(invalid("TOO_MANY_LABELS", message))
}

/// Ids with a `~` are those of children, which are derived from the ids of their parents.
fn check_id(id: &str, is_child: bool) -> Result<(), Refusal> {
    let why = if is_child && ExecutionId::new(id).is_ok() {
        return Ok(());
    } else if id.len() > LONGEST_ID {
        format!("an execution id has at most {LONGEST_ID} bytes")
    } else if id.contains('~') {
        "an execution id must not contain `~`: the engine uses it in the ids of children".to_owned()
    } else if let Err(error) = ExecutionId::new(id) {
        error.to_string()
    } else {
        return Ok(());
    };
    Err(invalid("INVALID_EXECUTION_ID", why))
}
