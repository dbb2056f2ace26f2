//! What came from outside in a recorded run: who did what when, and how long each answer took.
//!
//! Everything else in a log follows from this and the definition, so this is all that a shadow is
//! given. What someone did in answer to something (a worker to a task, a person to a request) is
//! kept with the time since it was asked for; what they did by themselves (a signal, a pause)
//! keeps its own time.

mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_model::{Reason, Usage};

use super::straight::{begins, opens_early};
use crate::event::{Data, PauseCause, Redo, Resolution, Task, TurnCause, WaitFor};
use crate::plan::{Plan, StepIx};
use crate::timer::{StepTimer, Timer};
use crate::{CancelMode, Event, Fact, Failure, FailureCause, State, Verb};

/// What came from outside.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// What was done at a time of its own, in order.
    pub(super) acts: VecDeque<Act>,
    /// What became of each attempt that was handed out.
    pub(super) results: BTreeMap<Task, Reply<Taken>>,
    /// For how long an attempt or a wait is known to have got no answer.
    pub(super) silent: BTreeMap<Task, SignedDuration>,
    /// Attempts whose worker went silent, and the signs of life before.
    pub(super) heartbeats: BTreeMap<Task, VecDeque<Reply<()>>>,
    pub(super) went_silent: Vec<Task>,
    pub(super) decisions: BTreeMap<Task, Reply<Vote>>,
    pub(super) resolutions: BTreeMap<Arc<str>, VecDeque<Reply<Word>>>,
    pub(super) resumes: VecDeque<Reply<Arc<str>>>,
    /// Attempts that were begun before their time because someone asked for it.
    pub(super) hurried: BTreeMap<Task, Reply<()>>,
    /// How late each timer fired.
    pub(super) late: BTreeMap<Timer, (SignedDuration, u64)>,
    /// How many attempts of each step were opened.
    pub(super) opened: BTreeMap<Arc<str>, u32>,
    /// When the last event happened.
    pub(super) until: Option<Timestamp>,
}

/// Something done at a time of its own.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) at: Timestamp,
    pub(super) sequence: u64,
    pub(super) cause: Arc<str>,
    pub(super) verb: Verb,
}

/// An answer to something, and how long it took.
#[derive(Debug, Clone)]
pub(super) struct Reply<T> {
    pub(super) after: SignedDuration,
    pub(super) sequence: u64,
    pub(super) cause: Arc<str>,
    pub(super) what: T,
}

/// What a worker or a child answered.
#[derive(Debug, Clone)]
pub(super) enum Taken {
    Completed(Data, Option<Usage>),
    Failed(Failure, Option<Usage>),
    /// The output did not fit its schema and was not kept.
    Refused(Failure, Option<Usage>),
}

/// A person's yes or no.
#[derive(Debug, Clone)]
pub(super) struct Vote {
    pub(super) grant: bool,
    pub(super) role: Arc<str>,
    pub(super) by: Arc<str>,
    pub(super) comment: Arc<str>,
}

/// A person's word on an escalated step.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) resolution: Resolution,
    pub(super) by: Arc<str>,
    pub(super) comment: Arc<str>,
}

/// Reads what came from outside out of a log.
pub(super) fn of(plan: &Arc<Plan>, events: &[Event]) -> Recorded {
    let mut reader = Reader {
        state: State::new(Arc::clone(plan)),
        found: Recorded::default(),
        opened: BTreeMap::new(),
        escalated: BTreeMap::new(),
        paused: None,
        usage: BTreeMap::new(),
        last: None,
        begun: BTreeSet::new(),
        early: 0,
    };
    for event in events {
        reader.begun.extend(begins(&event.fact));
        reader.read(event);
        reader.state.apply(event);
        reader.last = Some(event);
    }
    if let Some(last) = events.last() {
        reader.found.until = Some(last.at);
        reader.given_up(last);
    }
    reader.found
}

struct Reader<'e> {
    /// Before the event that is read.
    state: State,
    found: Recorded,
    opened: BTreeMap<Task, Timestamp>,
    escalated: BTreeMap<Arc<str>, Timestamp>,
    paused: Option<Timestamp>,
    usage: BTreeMap<Task, Usage>,
    last: Option<&'e Event>,
    begun: BTreeSet<&'e str>,
    /// How many branches were put at the beginning.
    early: usize,
}

impl Reader<'_> {
    fn read(&mut self, event: &Event) {
        match &event.fact {
            Fact::ExecutionCreated {
                execution,
                initiator,
                input,
                ..
            } => self.act(
                event,
                Verb::Create {
                    execution: Arc::clone(execution),
                    correlation: Arc::clone(&event.correlation),
                    initiator: Arc::clone(initiator),
                    input: Arc::clone(input),
                },
            ),
            Fact::ExecutionQueued { by } => self.act(event, Verb::Trigger { by: Arc::clone(by) }),
            Fact::ExecutionStarted { .. } => self.act(event, Verb::GrantSlot),
            Fact::StepStarted { step, attempt, .. }
            | Fact::StepWaiting { step, attempt, .. }
            | Fact::CorrectionRequested { step, attempt, .. } => self.begun(event, step, *attempt),
            Fact::StepCompensationStarted { step, attempt, .. } => {
                let kind = StepTimer::UndoRetry;
                self.fired(event, step, kind, |run| run.resume_at);
                self.open(event, Task::undo(Arc::clone(step), *attempt));
            }
            Fact::HeartbeatRecorded { step, attempt, .. } => self.heartbeat(event, step, *attempt),
            Fact::UsageReported { task, usage } => {
                self.usage.insert(task.clone(), *usage);
            }
            Fact::StepCompleted { step, output, .. } => self.completed(event, step, output),
            Fact::AttemptFailed { step, failure, .. } => self.failed(event, step, failure),
            Fact::StepCompensated { step, attempt } => {
                let task = Task::undo(Arc::clone(step), *attempt);
                let usage = self.usage.remove(&task);
                self.answered(event, task, Taken::Completed(Data::default(), usage));
            }
            Fact::StepCompensationFailed {
                step,
                attempt,
                failure,
                ..
            } => self.not_undone(event, Task::undo(Arc::clone(step), *attempt), failure),
            _ => self.read_person(event),
        }
    }

    /// What people and other systems did.
    fn read_person(&mut self, event: &Event) {
        match &event.fact {
            Fact::SignalReceived { name, id, payload } => self.act(
                event,
                Verb::SendSignal {
                    name: Arc::clone(name),
                    id: Arc::clone(id),
                    payload: Arc::clone(payload),
                    by: Arc::clone(&event.actor),
                },
            ),
            Fact::ApprovalGranted {
                step, by, comment, ..
            } => self.voted(event, step, (true, by, comment)),
            Fact::ApprovalRejected {
                step, by, comment, ..
            } => self.voted(event, step, (false, by, comment)),
            Fact::ApprovalExpired { step, attempt } => {
                self.fired(event, step, StepTimer::Expiry, |run| run.due);
                self.unanswered(event, Task::of(Arc::clone(step), *attempt));
            }
            Fact::ExecutionPaused { cause } => {
                self.paused = Some(event.at);
                if let PauseCause::ByHand { by, comment } = cause {
                    let (by, comment) = (Arc::clone(by), Arc::clone(comment));
                    self.act(event, Verb::Pause { by, comment });
                }
            }
            Fact::ExecutionResumed { by } => self.resumed(event, by),
            Fact::ExecutionEscalated { step, .. } => {
                self.escalated.insert(Arc::clone(step), event.at);
            }
            Fact::EscalationResolved {
                step,
                attempt: _,
                resolution,
                by,
                comment,
            } => {
                let since = self.escalated.remove(step);
                let word = Word {
                    resolution: resolution.clone(),
                    by: Arc::clone(by),
                    comment: Arc::clone(comment),
                };
                let reply = reply(event, since, word);
                let queue = self.found.resolutions.entry(Arc::clone(step)).or_default();
                queue.push_back(reply);
            }
            _ => self.read_end(event),
        }
    }

    /// What ended or turned the execution, and where its log begins anew.
    fn read_end(&mut self, event: &Event) {
        let ends = matches!(
            event.fact,
            Fact::CompensationStarted { .. }
                | Fact::ExecutionFailed { .. }
                | Fact::ExecutionCancelled { .. }
        );
        if ends {
            self.given_up(event);
        }
        match &event.fact {
            Fact::CompensationStarted {
                cause:
                    TurnCause::Cancelled {
                        by,
                        comment,
                        reason: None,
                    },
                ..
            } if !self.follows() => self.cancelled(event, CancelMode::Compensate, by, comment),
            Fact::CompensationStarted {
                cause: TurnCause::TimedOut,
                ..
            }
            | Fact::ExecutionFailed {
                step: None,
                reason: Reason::TimedOut,
                ..
            } => {
                if let Some(due) = self.state.deadline() {
                    let late = (event.at.duration_since(due), event.sequence);
                    self.found.late.insert(Timer::Execution, late);
                }
            }
            Fact::ExecutionCancelled {
                by,
                reason: Reason::Killed,
                comment,
                ..
            } => self.cancelled(event, CancelMode::Kill, by, comment),
            Fact::ExecutionCancelled {
                by,
                reason: Reason::Cancelled,
                comment,
                ..
            }
            | Fact::CancellationStarted {
                by,
                reason: Reason::Cancelled,
                comment,
                ..
            } if !self.follows() => self.cancelled(event, CancelMode::Stop, by, comment),
            Fact::BranchOpened {
                branch,
                cutoff,
                by,
                redo,
                ..
            } => self.branched(event, (*branch, *cutoff), by, redo.clone()),
            _ => {}
        }
    }

    /// Whether a cancellation is the consequence of something else.
    fn follows(&self) -> bool {
        let resolved = self.last.is_some_and(|last| {
            let fact = &last.fact;
            matches!(fact, Fact::EscalationResolved { resolution, .. } if *resolution == Resolution::Cancel)
        });
        resolved || self.state.state().is_ending()
    }

    fn act(&mut self, event: &Event, verb: Verb) {
        self.found.acts.push_back(Act {
            at: event.at,
            sequence: event.sequence,
            cause: Arc::clone(&event.causation),
            verb,
        });
    }

    fn cancelled(&mut self, event: &Event, mode: CancelMode, by: &Arc<str>, comment: &Arc<str>) {
        let (by, comment) = (Arc::clone(by), Arc::clone(comment));
        self.act(event, Verb::Cancel { mode, by, comment });
    }

    /// Time stood still between the event before and this one, as `evolve` has it.
    fn branched(
        &mut self,
        event: &Event,
        (branch, cutoff): (u32, u64),
        by: &Arc<str>,
        redo: Option<Box<Redo>>,
    ) {
        if let Some(last) = self.last {
            let lost = event.at.duration_since(last.at);
            let times = self.opened.values_mut();
            let times = times.chain(self.escalated.values_mut());
            for at in times.chain(self.paused.as_mut()) {
                *at = at.checked_add(lost).unwrap_or(*at);
            }
        }
        let by = Arc::clone(by);
        let verb = Verb::OpenBranch {
            branch,
            cutoff,
            by,
            redo,
            reopened: None,
            spent: Usage::default(),
        };
        self.act(event, verb);
        // What a step is given counts from its first attempt on, which the shadow may begin before
        // the time of this event.
        if opens_early(&event.fact, &self.begun)
            && let (Some(mut act), Some(created)) =
                (self.found.acts.pop_back(), self.found.acts.front())
        {
            (act.at, act.sequence) = (created.at, created.sequence);
            self.early += 1;
            self.found.acts.insert(self.early, act);
        }
    }

    fn open(&mut self, event: &Event, task: Task) {
        self.opened.insert(task, event.at);
    }

    fn begun(&mut self, event: &Event, step: &Arc<str>, attempt: u32) {
        if let Some(ix) = self.find(step) {
            let run = self.state.run(ix);
            match run.resume_at {
                Some(due) if due > event.at => {
                    let reply = reply(event, run.since, ());
                    let task = Task::of(Arc::clone(step), attempt);
                    self.found.hurried.insert(task, reply);
                }
                _ => self.fired(event, step, StepTimer::Retry, |run| run.resume_at),
            }
        }
        let most = self.found.opened.entry(Arc::clone(step)).or_default();
        *most = attempt.max(*most);
        self.open(event, Task::of(Arc::clone(step), attempt));
    }

    fn heartbeat(&mut self, event: &Event, step: &Arc<str>, attempt: u32) {
        let task = Task::of(Arc::clone(step), attempt);
        let reply = reply(event, self.opened.get(&task).copied(), ());
        let queue = self.found.heartbeats.entry(task).or_default();
        queue.push_back(reply);
    }

    fn completed(&mut self, event: &Event, step: &Arc<str>, output: &Data) {
        let Some(ix) = self.find(step) else { return };
        let run = self.state.run(ix);
        let task = Task::of(Arc::clone(step), run.attempt);
        match run.wait {
            Some(WaitFor::Timer) => self.fired(event, step, StepTimer::Sleep, |run| run.resume_at),
            Some(WaitFor::Signal(_) | WaitFor::Approval(_) | WaitFor::Person) => {
                self.overdue(event, ix);
            }
            Some(WaitFor::Child(_)) | None => {
                let usage = self.usage.remove(&task);
                self.answered(event, task, Taken::Completed(Arc::clone(output), usage));
            }
        }
    }

    fn failed(&mut self, event: &Event, step: &Arc<str>, failure: &Failure) {
        let Some(ix) = self.find(step) else { return };
        let run = self.state.run(ix);
        let task = Task::of(Arc::clone(step), run.attempt);
        let told = matches!(run.wait, None | Some(WaitFor::Child(_)));
        match failure.cause {
            FailureCause::TimedOut => {
                self.fired(event, step, StepTimer::Timeout, |run| run.due);
                self.unanswered(event, task);
            }
            FailureCause::WentSilent => {
                self.fired(event, step, StepTimer::Heartbeat, |run| run.heartbeat_due);
                self.found.went_silent.push(task.clone());
                self.unanswered(event, task);
            }
            FailureCause::InvalidOutput if told => {
                let usage = self.usage.remove(&task);
                self.answered(event, task, Taken::Refused(failure.clone(), usage));
            }
            FailureCause::Reported if told => {
                let usage = self.usage.remove(&task);
                self.answered(event, task, Taken::Failed(failure.clone(), usage));
            }
            FailureCause::QueueTimedOut => {
                self.fired(event, step, StepTimer::Queue, |run| run.queue_due);
                self.unanswered(event, task);
            }
            FailureCause::WorkerLost
            | FailureCause::PolicyDenied
            | FailureCause::BudgetExceeded => {}
            FailureCause::InvalidOutput
            | FailureCause::Reported
            | FailureCause::BadInput
            | FailureCause::Rejected
            | FailureCause::Expired => {}
        }
    }

    fn not_undone(&mut self, event: &Event, task: Task, failure: &Failure) {
        if failure.cause == FailureCause::TimedOut {
            self.fired(event, &task.step, StepTimer::UndoTimeout, |run| run.due);
            return self.unanswered(event, task);
        }
        let usage = self.usage.remove(&task);
        self.answered(event, task, Taken::Failed(failure.clone(), usage));
    }

    fn voted(
        &mut self,
        event: &Event,
        step: &Arc<str>,
        (grant, by, comment): (bool, &Arc<str>, &Arc<str>),
    ) {
        let Some(ix) = self.find(step) else { return };
        let run = self.state.run(ix);
        let Some(WaitFor::Approval(role)) = &run.wait else {
            return;
        };
        let vote = Vote {
            grant,
            role: Arc::clone(role),
            by: Arc::clone(by),
            comment: Arc::clone(comment),
        };
        let task = Task::of(Arc::clone(step), run.attempt);
        let reply = reply(event, self.opened.get(&task).copied(), vote);
        self.found.decisions.insert(task, reply);
    }

    fn resumed(&mut self, event: &Event, by: &Arc<str>) {
        let since = self.paused.take();
        // Held for another revision, which no shadow is ever offered.
        if !matches!(self.state.hold(), Some(PauseCause::RevisionMismatch { .. })) {
            let reply = reply(event, since, Arc::clone(by));
            self.found.resumes.push_back(reply);
        }
    }

    fn answered(&mut self, event: &Event, task: Task, taken: Taken) {
        // An answer may come between the time of a timer and its firing.
        if let Some(ix) = self.find(&task.step) {
            self.overdue(event, ix);
        }
        let reply = reply(event, self.opened.get(&task).copied(), taken);
        self.found.results.insert(task, reply);
    }

    fn unanswered(&mut self, event: &Event, task: Task) {
        if let Some(since) = self.opened.get(&task) {
            let lasted = event.at.duration_since(*since);
            self.found.silent.entry(task).or_insert(lasted);
        }
    }

    fn find(&self, step: &str) -> Option<StepIx> {
        self.state.plan().find(step)
    }
}

fn reply<T>(event: &Event, since: Option<Timestamp>, what: T) -> Reply<T> {
    Reply {
        after: since.map_or(SignedDuration::ZERO, |since| event.at.duration_since(since)),
        sequence: event.sequence,
        cause: Arc::clone(&event.causation),
        what,
    }
}
