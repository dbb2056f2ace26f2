//! Reading a log: what workers, children and clocks did. What people did is read by `people`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_definition::StepKind;
use stateway_model::Usage;

use super::{Act, Deed, HandOut, Recorded, RecordedAnswer, Reply};
use crate::shadow::window::Windows;
use stateway_machine::{
    Data, Event, Fact, Failure, FailureCause, Plan, PolicyDecision, State, StepTimer, Task, Verb,
    WaitFor,
};

/// Reads the input from outside out of a log.
pub(in crate::shadow) fn of(plan: &Arc<Plan>, events: &[Event]) -> Recorded {
    let mut reader = Reader {
        state: State::new(Arc::clone(plan)),
        found: Recorded::default(),
        opened: BTreeMap::new(),
        escalated: BTreeMap::new(),
        paused: None,
        usage: BTreeMap::new(),
        windows: Windows::default(),
        last: None,
        next: None,
        begun: BTreeSet::new(),
        early: 0,
    };
    for (at, event) in events.iter().enumerate() {
        reader.begun.extend(event.fact.begins().map(|step| &**step));
        reader.next = events.get(at + 1);
        reader.read(event);
        reader.windows.count(&event.fact);
        reader.state.apply(event);
        reader.last = Some(event);
    }
    if let Some(last) = events.last() {
        reader.found.until = Some(last.at);
        reader.given_up(last);
        reader.unfired();
    }
    reader.found
}

pub(super) struct Reader<'e> {
    /// Before the event that is read.
    pub(super) state: State,
    pub(super) found: Recorded,
    pub(super) opened: BTreeMap<Task, Timestamp>,
    pub(super) escalated: BTreeMap<Arc<str>, Timestamp>,
    pub(super) paused: Option<Timestamp>,
    usage: BTreeMap<Task, Usage>,
    pub(super) windows: Windows,
    pub(super) last: Option<&'e Event>,
    pub(super) next: Option<&'e Event>,
    pub(super) begun: BTreeSet<&'e str>,
    /// How many branches were put at the beginning.
    pub(super) early: usize,
}

impl Reader<'_> {
    fn read(&mut self, event: &Event) {
        match &event.fact {
            Fact::ExecutionCreated {
                execution,
                initiator,
                input,
                redone_by,
                ..
            } => self.act(
                event,
                Verb::Create {
                    execution: Arc::clone(execution),
                    correlation: Arc::clone(&event.correlation),
                    initiator: Arc::clone(initiator),
                    input: Arc::clone(input),
                    redone_by: redone_by.clone(),
                },
            ),
            Fact::ExecutionQueued { by } => self.act(event, Verb::Trigger { by: Arc::clone(by) }),
            Fact::ExecutionStarted { .. } => self.act(event, Verb::GrantSlot),
            Fact::StepStarted { step, attempt, .. }
            | Fact::StepWaiting { step, attempt, .. }
            | Fact::CorrectionRequested { step, attempt, .. } => self.begun(event, step, *attempt),
            Fact::StepCompensationStarted { step, attempt, .. } => {
                let task = Task::undo(Arc::clone(step), *attempt);
                self.tried_again(event, &task, StepTimer::UndoRetry);
                self.open(event, task);
            }
            Fact::UsageReported { task, usage } => {
                self.usage.insert(task.clone(), *usage);
            }
            // The request follows from a resolved escalation.
            Fact::PolicyDecided { task, .. } if self.asks_again(&task.step) => {}
            Fact::TaskAssigned { .. } | Fact::TaskReleased { .. } | Fact::PolicyDecided { .. } => {
                self.handed_out(event);
            }
            _ => self.read_end_of_attempt(event),
        }
    }

    fn read_end_of_attempt(&mut self, event: &Event) {
        match &event.fact {
            Fact::StepCompleted { step, output, .. } => self.completed(event, step, output),
            Fact::AttemptFailed { step, failure, .. } => self.failed(event, step, failure),
            Fact::OutcomeUnknown { step, attempt, .. } => {
                if !self.was_released() {
                    self.fired(event, step, StepTimer::Timeout, |run| run.due);
                    self.unanswered(event, Task::of(Arc::clone(step), *attempt));
                }
            }
            Fact::StepCompensated { step, attempt } => {
                let task = Task::undo(Arc::clone(step), *attempt);
                let usage = self.usage.remove(&task);
                self.answered(
                    event,
                    task,
                    RecordedAnswer::Completed(Data::default(), usage),
                );
            }
            Fact::StepCompensationFailed {
                step,
                attempt,
                failure,
                ..
            } => self.not_compensated(event, Task::undo(Arc::clone(step), *attempt), failure),
            _ => self.read_person(event),
        }
    }

    fn starts_child(&self, step: &str) -> bool {
        let step = self.state.plan().step_definition(step);
        step.is_some_and(|step| matches!(step.kind, StepKind::Workflow { .. }))
    }

    fn asks_again(&self, step: &str) -> bool {
        self.state.step(step).is_some_and(|run| run.asks_again)
    }

    /// Whether the event before is the loss of a worker, from which this one follows.
    fn was_released(&self) -> bool {
        let last = self.last.map(|last| &last.fact);
        matches!(last, Some(Fact::TaskReleased { lost: true, .. }))
    }

    pub(super) fn act(&mut self, event: &Event, verb: Verb) {
        self.deed(event, Deed::Command(verb));
    }

    pub(super) fn deed(&mut self, event: &Event, deed: Deed) {
        self.found.acts.push_back(Act {
            at: event.at,
            sequence: event.sequence,
            cause: Arc::clone(&event.causation),
            deed,
        });
    }

    fn open(&mut self, event: &Event, task: Task) {
        self.opened.insert(task, event.at);
    }

    fn begun(&mut self, event: &Event, step: &Arc<str>, attempt: u32) {
        let task = Task::of(Arc::clone(step), attempt);
        self.tried_again(event, &task, StepTimer::Retry);
        let most = self.found.opened.entry(Arc::clone(step)).or_default();
        *most = attempt.max(*most);
        self.open(event, task);
    }

    /// A step or a compensation between attempts starts again when its time has come, or earlier
    /// because someone asked for it.
    fn tried_again(&mut self, event: &Event, task: &Task, kind: StepTimer) {
        let Some(run) = self.state.step(&task.step) else {
            return;
        };
        let asked = |due: Timestamp| due > event.at || !event.actor.is_empty();
        if run.resume_at.is_some_and(asked) {
            let reply = reply(event, run.since, Arc::clone(&event.actor));
            self.found.hurried.insert(task.clone(), reply);
            self.overdue(event, &task.step);
        } else {
            self.fired(event, &task.step, kind, |run| run.resume_at);
        }
    }

    /// An attempt changes hands. A timer of the hands before may have been due by then.
    fn handed_out(&mut self, event: &Event) {
        let (task, hand_out) = match &event.fact {
            Fact::TaskAssigned {
                task,
                worker,
                identity,
                ..
            } => {
                let (worker, identity) = (Arc::clone(worker), Arc::clone(identity));
                (task, HandOut::Assigned { worker, identity })
            }
            Fact::TaskReleased { task, lost, .. } => (task, HandOut::Released { lost: *lost }),
            Fact::PolicyDecided {
                task,
                rule,
                decision,
            } => {
                let lasts = match decision {
                    PolicyDecision::RequireApproval { due: Some(due), .. } => {
                        Some(due.duration_since(event.at))
                    }
                    _ => None,
                };
                let policy = HandOut::Policy {
                    rule: Arc::clone(rule),
                    decision: decision.clone(),
                    lasts,
                };
                (task, policy)
            }
            _ => return,
        };
        self.hand_out(event, task.clone(), hand_out);
    }

    fn hand_out(&mut self, event: &Event, task: Task, hand_out: HandOut) {
        self.overdue(event, &task.step);
        let reply = reply(event, self.opened.get(&task).copied(), hand_out);
        let queue = self.found.hand_outs.entry(task).or_default();
        queue.push_back(reply);
    }

    fn completed(&mut self, event: &Event, step: &Arc<str>, output: &Data) {
        let Some(run) = self.state.step(step) else {
            return;
        };
        let task = Task::of(Arc::clone(step), run.attempt);
        match run.wait {
            Some(WaitFor::Timer) => self.fired(event, step, StepTimer::Sleep, |run| run.resume_at),
            Some(WaitFor::Signal(_) | WaitFor::Approval(_) | WaitFor::Person) => {
                self.overdue(event, step);
            }
            Some(WaitFor::Child(_)) | None => {
                let usage = self.usage.remove(&task);
                self.answered(
                    event,
                    task,
                    RecordedAnswer::Completed(Arc::clone(output), usage),
                );
            }
        }
    }

    fn failed(&mut self, event: &Event, step: &Arc<str>, failure: &Failure) {
        let Some(run) = self.state.step(step) else {
            return;
        };
        let task = Task::of(Arc::clone(step), run.attempt);
        let answers = matches!(run.wait, None | Some(WaitFor::Child(_)));
        // An attempt of version 1 had its time before a worker took it. No shadow counts like that,
        // so the end of that time is replayed as an answer.
        let timed = run.wait.is_some() || run.timed;
        match failure.cause {
            FailureCause::TimedOut if timed => {
                self.fired(event, step, StepTimer::Timeout, |run| run.due);
                self.unanswered(event, task);
            }
            FailureCause::QueueTimedOut => {
                self.fired(event, step, StepTimer::Queue, |run| run.queue_due);
                self.unanswered(event, task);
            }
            FailureCause::InvalidOutput if answers => {
                let usage = self.usage.remove(&task);
                self.answered(event, task, RecordedAnswer::Refused(failure.clone(), usage));
            }
            FailureCause::Reported | FailureCause::TimedOut | FailureCause::WentSilent
                if answers =>
            {
                let usage = self.usage.remove(&task);
                self.answered(event, task, RecordedAnswer::Failed(failure.clone(), usage));
            }
            // A worker was refused the attempt when it asked for it. A child follows from the rest.
            FailureCause::BudgetExceeded if !self.starts_child(step) => {
                let (worker, identity) = (Arc::clone(&event.actor), "".into());
                self.hand_out(event, task, HandOut::Assigned { worker, identity });
            }
            // These follow from something else that is recorded.
            FailureCause::WorkerLost
            | FailureCause::BudgetExceeded
            | FailureCause::PolicyDenied
            | FailureCause::TimedOut
            | FailureCause::WentSilent
            | FailureCause::InvalidOutput
            | FailureCause::Reported
            | FailureCause::BadInput
            | FailureCause::Rejected
            | FailureCause::Expired => {}
        }
    }

    fn not_compensated(&mut self, event: &Event, task: Task, failure: &Failure) {
        let timed = self.state.step(&task.step).is_some_and(|run| run.timed);
        match failure.cause {
            FailureCause::TimedOut if timed => {
                self.fired(event, &task.step, StepTimer::UndoTimeout, |run| run.due);
                self.unanswered(event, task);
            }
            FailureCause::QueueTimedOut => {
                self.fired(event, &task.step, StepTimer::UndoQueue, |run| run.queue_due);
                self.unanswered(event, task);
            }
            FailureCause::WorkerLost => {}
            _ => {
                let usage = self.usage.remove(&task);
                self.answered(event, task, RecordedAnswer::Failed(failure.clone(), usage));
            }
        }
    }

    fn answered(&mut self, event: &Event, task: Task, taken: RecordedAnswer) {
        // An answer may come between the time of a timer and its firing.
        self.overdue(event, &task.step);
        let reply = reply(event, self.opened.get(&task).copied(), taken);
        self.found.results.insert(task, reply);
    }

    pub(super) fn unanswered(&mut self, event: &Event, task: Task) {
        if let Some(since) = self.opened.get(&task) {
            let lasted = event.at.duration_since(*since);
            let known = self.found.silent.entry(task).or_insert(lasted);
            *known = lasted.max(*known);
        }
    }
}

pub(super) fn reply<T>(event: &Event, since: Option<Timestamp>, what: T) -> Reply<T> {
    Reply {
        after: since.map_or(SignedDuration::ZERO, |since| event.at.duration_since(since)),
        sequence: event.sequence,
        cause: Arc::clone(&event.causation),
        what,
    }
}
