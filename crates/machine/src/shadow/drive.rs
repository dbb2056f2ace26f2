//! Running a definition on what was recorded: no worker, no person, no clock. Whatever comes next,
//! by its time, is decided about like anything that ever happened; where nothing is recorded that
//! would move a step on, the step stays where it is and is named.

mod known;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::recorded::{Recorded, Taken};
use super::{Unrecorded, limit::MOST_EVENTS};
use crate::event::{Task, WaitFor};
use crate::plan::Plan;
use crate::timer::{StepTimer, Timer};
use crate::{
    Awaited, Command, Event, Fact, Obligation, Rejection, State, Verb, VerbName, awaited, decide,
    obligations,
};

/// What a run led to.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) state: State,
    pub(super) events: Vec<Event>,
    pub(super) refused: Vec<Refused>,
    pub(super) unrecorded: Vec<Unrecorded>,
    /// It was stopped because it did not come to an end.
    pub(super) endless: bool,
}

/// Something that was done in the recorded run and could not be done here.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) sequence: u64,
    pub(super) verb: VerbName,
    pub(super) why: Rejection,
}

/// Something that comes next.
#[derive(Debug, Clone)]
struct Due {
    at: Timestamp,
    /// Where the recorded log has it: what came first there comes first here.
    sequence: u64,
    what: What,
}

/// In the order in which they come when time and place are the same.
#[derive(Debug, Clone)]
enum What {
    Act,
    Heartbeat(Task),
    Answer(Task),
    Decision(Task),
    Resolution(Arc<str>),
    Resume,
    Hurry(Task),
    Fire(Timer),
}

impl What {
    const fn rank(&self) -> u8 {
        match self {
            Self::Act => 0,
            Self::Heartbeat(_) => 1,
            Self::Answer(_) => 2,
            Self::Decision(_) => 3,
            Self::Resolution(_) => 4,
            Self::Resume => 5,
            Self::Hurry(_) => 6,
            Self::Fire(_) => 7,
        }
    }
}

/// Runs a plan on what was recorded of another. `same_schema` says whether a step checks its
/// output as it did then.
pub(super) fn drive(
    plan: &Arc<Plan>,
    recorded: Recorded,
    same_schema: impl Fn(&str) -> bool,
) -> Driven {
    let mut driver = Driver {
        state: State::new(Arc::clone(plan)),
        clock: recorded
            .acts
            .front()
            .map_or(Timestamp::UNIX_EPOCH, |act| act.at),
        recorded,
        events: Vec::new(),
        opened: BTreeMap::new(),
        escalated: BTreeMap::new(),
        paused: None,
        spent: BTreeSet::new(),
        refused: Vec::new(),
        same_schema: &same_schema,
    };
    while driver.events.len() < MOST_EVENTS {
        let Some(due) = driver.next() else { break };
        driver.carry(due);
    }
    let unrecorded = driver.unrecorded();
    Driven {
        endless: driver.events.len() >= MOST_EVENTS,
        state: driver.state,
        events: driver.events,
        refused: driver.refused,
        unrecorded,
    }
}

struct Driver<'s> {
    state: State,
    clock: Timestamp,
    recorded: Recorded,
    events: Vec<Event>,
    opened: BTreeMap<Task, Timestamp>,
    escalated: BTreeMap<Arc<str>, Timestamp>,
    paused: Option<Timestamp>,
    /// Timers that fired and changed nothing.
    spent: BTreeSet<Timer>,
    refused: Vec<Refused>,
    same_schema: &'s dyn Fn(&str) -> bool,
}

impl Driver<'_> {
    /// What comes next.
    fn next(&self) -> Option<Due> {
        let mut found = self.replies();
        found.extend(self.timers());
        let act = self.recorded.acts.front().map(|act| Due {
            at: act.at,
            sequence: act.sequence,
            what: What::Act,
        });
        // Time stands still before a branch: only what the log has before it comes before it.
        let branch = self.recorded.acts.front();
        let branch = branch.filter(|act| act.verb.name() == VerbName::OpenBranch);
        if let Some(branch) = branch {
            found.retain(|due| due.sequence < branch.sequence);
            if found.is_empty() {
                return act;
            }
        } else {
            found.extend(act);
        }
        let order = |due: &Due| (due.at, due.sequence, due.what.rank());
        found.into_iter().min_by_key(order)
    }

    /// Answers to what is open.
    fn replies(&self) -> Vec<Due> {
        let mut found = Vec::new();
        for task in self.tasks() {
            let since = self.opened.get(&task).copied().unwrap_or(self.clock);
            if let Some(reply) = self.recorded.results.get(&task)
                && self.usable(&task)
            {
                let at = later(since, reply.after);
                found.push(due(at, reply.sequence, What::Answer(task.clone())));
            }
            let signs = self.recorded.heartbeats.get(&task);
            if let Some(sign) = signs.and_then(|signs| signs.front())
                && self.recorded.went_silent.contains(&task)
            {
                let at = later(since, sign.after);
                found.push(due(at, sign.sequence, What::Heartbeat(task)));
            }
        }
        found.extend(
            awaited(&self.state)
                .into_iter()
                .filter_map(|awaited| match awaited {
                    Awaited::Approval {
                        step,
                        attempt,
                        role,
                        ..
                    } => self.decision(Task::of(step, attempt), &role),
                    Awaited::Person { step, .. } => {
                        let reply = self.recorded.resolutions.get(&step)?.front()?;
                        let since = self.escalated.get(&step).copied().unwrap_or(self.clock);
                        let at = later(since, reply.after);
                        Some(due(at, reply.sequence, What::Resolution(step)))
                    }
                    Awaited::Resume => {
                        let reply = self.recorded.resumes.front()?;
                        let at = later(self.paused.unwrap_or(self.clock), reply.after);
                        Some(due(at, reply.sequence, What::Resume))
                    }
                    Awaited::Trigger | Awaited::Signal { .. } => None,
                }),
        );
        found
    }

    fn decision(&self, task: Task, role: &Arc<str>) -> Option<Due> {
        let reply = self.recorded.decisions.get(&task)?;
        // Nobody of another role has said anything.
        if reply.what.role != *role {
            return None;
        }
        let since = self.opened.get(&task).copied().unwrap_or(self.clock);
        let at = later(since, reply.after);
        Some(due(at, reply.sequence, What::Decision(task)))
    }

    /// The attempts that are out with workers or children.
    fn tasks(&self) -> Vec<Task> {
        let owed = obligations(&self.state).into_iter();
        owed.filter_map(|owed| match owed {
            Obligation::Task(order) => Some(order.key.task),
            Obligation::Child(order) => Some(order.key.task),
            Obligation::Slot | Obligation::Timer { .. } => None,
        })
        .collect()
    }

    /// An output that an old schema refused was not kept; a new one might have taken it.
    fn usable(&self, task: &Task) -> bool {
        let reply = self.recorded.results.get(task);
        match reply.map(|reply| &reply.what) {
            Some(Taken::Refused(..)) => (self.same_schema)(&task.step),
            Some(Taken::Completed(..) | Taken::Failed(..)) => true,
            None => false,
        }
    }

    fn timers(&self) -> Vec<Due> {
        let owed = obligations(&self.state).into_iter();
        let timers = owed.filter_map(|owed| match owed {
            Obligation::Timer { timer, due } => Some((timer, due)),
            _ => None,
        });
        let live =
            timers.filter(|(timer, due)| !self.spent.contains(timer) && self.known(timer, *due));
        live.map(|(timer, at)| self.timer(timer, at)).collect()
    }

    fn timer(&self, timer: Timer, at: Timestamp) -> Due {
        if let Timer::Step {
            step,
            attempt,
            kind: StepTimer::Retry,
        } = &timer
        {
            let next = Task::of(Arc::clone(step), attempt + 1);
            let since = self
                .state
                .plan()
                .find(step)
                .and_then(|ix| self.state.run(ix).since);
            if let Some(reply) = self.recorded.hurried.get(&next) {
                let hurried = later(since.unwrap_or(self.clock), reply.after);
                if hurried < at {
                    return due(hurried, reply.sequence, What::Hurry(next));
                }
            }
        }
        let late = self.recorded.late.get(&timer).copied();
        let (late, sequence) = late.unwrap_or((SignedDuration::ZERO, u64::MAX));
        let at = self.silence(&timer).map_or_else(
            || later(at, late),
            // Signs of life move it on, and may come when it is due already.
            |until| until.max(at),
        );
        due(at, sequence, What::Fire(timer))
    }

    /// Lets something happen. Whatever was used is not there a second time.
    fn carry(&mut self, next: Due) {
        let Some((verb, cause)) = self.take(&next) else {
            return;
        };
        self.clock = self.clock.max(next.at);
        let name = verb.name();
        match decide(&self.state, Command::new(cause, verb), self.clock) {
            Ok(events) => {
                if let (true, What::Fire(timer)) = (events.is_empty(), next.what) {
                    self.spent.insert(timer);
                }
                for event in events {
                    self.apply(event);
                }
            }
            Err(why) => {
                if let What::Fire(timer) = next.what {
                    self.spent.insert(timer);
                } else {
                    self.refused.push(Refused {
                        sequence: next.sequence,
                        verb: name,
                        why,
                    });
                }
            }
        }
    }

    fn take(&mut self, next: &Due) -> Option<(Verb, Arc<str>)> {
        match &next.what {
            What::Act => self
                .recorded
                .acts
                .pop_front()
                .map(|act| (act.verb, act.cause)),
            What::Heartbeat(task) => {
                let sign = self.recorded.heartbeats.get_mut(task)?.pop_front()?;
                let verb = Verb::heartbeat(Arc::clone(&task.step), task.attempt);
                Some((verb, sign.cause))
            }
            What::Answer(task) => {
                let reply = self.recorded.results.remove(task)?;
                Some((self.answer(task.clone(), reply.what), reply.cause))
            }
            What::Decision(task) => {
                let reply = self.recorded.decisions.remove(task)?;
                let verb = Verb::DecideApproval {
                    step: Arc::clone(&task.step),
                    attempt: task.attempt,
                    grant: reply.what.grant,
                    by: reply.what.by,
                    roles: vec![reply.what.role],
                    comment: reply.what.comment,
                };
                Some((verb, reply.cause))
            }
            What::Resolution(step) => {
                let reply = self.recorded.resolutions.get_mut(step)?.pop_front()?;
                let ix = self.state.plan().find(step)?;
                let run = self.state.run(ix);
                let role = run.escalation_role.clone().unwrap_or_default();
                let verb = Verb::ResolveEscalation {
                    step: Arc::clone(step),
                    attempt: run.attempt,
                    resolution: reply.what.resolution,
                    by: reply.what.by,
                    roles: vec![Arc::clone(&role)],
                    operators: vec![role],
                    comment: reply.what.comment,
                };
                Some((verb, reply.cause))
            }
            What::Resume => {
                let reply = self.recorded.resumes.pop_front()?;
                Some((Verb::Resume { by: reply.what }, reply.cause))
            }
            What::Hurry(task) => {
                let reply = self.recorded.hurried.remove(task)?;
                let step = Arc::clone(&task.step);
                let by = "".into();
                Some((Verb::RetryNow { step, by }, reply.cause))
            }
            What::Fire(timer) => Some((Verb::fire(timer.clone()), "timer".into())),
        }
    }

    fn answer(&self, task: Task, taken: Taken) -> Verb {
        let ix = self.state.plan().find(&task.step);
        let wait = ix.and_then(|ix| self.state.run(ix).wait.as_ref());
        let child = matches!(wait, Some(WaitFor::Child(_)));
        match taken {
            Taken::Completed(output, usage) if child => Verb::FinishChild {
                step: task.step,
                attempt: task.attempt,
                outcome: Ok(output),
                usage: usage.unwrap_or_default(),
            },
            Taken::Failed(failure, usage) | Taken::Refused(failure, usage) if child => {
                Verb::FinishChild {
                    step: task.step,
                    attempt: task.attempt,
                    outcome: Err(failure),
                    usage: usage.unwrap_or_default(),
                }
            }
            Taken::Completed(output, usage) => Verb::CompleteTask {
                task,
                output,
                usage,
            },
            Taken::Failed(failure, usage) | Taken::Refused(failure, usage) => Verb::FailTask {
                task,
                failure,
                usage,
            },
        }
    }

    fn apply(&mut self, event: Event) {
        match &event.fact {
            Fact::StepStarted { step, attempt, .. }
            | Fact::StepWaiting { step, attempt, .. }
            | Fact::CorrectionRequested { step, attempt, .. } => {
                self.opened
                    .insert(Task::of(Arc::clone(step), *attempt), event.at);
            }
            Fact::StepCompensationStarted { step, attempt, .. } => {
                self.opened
                    .insert(Task::undo(Arc::clone(step), *attempt), event.at);
            }
            Fact::ExecutionEscalated { step, .. } => {
                self.escalated.insert(Arc::clone(step), event.at);
            }
            Fact::ExecutionPaused { .. } => self.paused = Some(event.at),
            Fact::BranchOpened { .. } => self.stand_still(event.at),
            _ => {}
        }
        self.state.apply(&event);
        self.events.push(event);
    }

    fn stand_still(&mut self, now: Timestamp) {
        let Some(last) = self.state.times().updated else {
            return;
        };
        let lost = now.duration_since(last);
        let times = self.opened.values_mut();
        let times = times.chain(self.escalated.values_mut());
        for at in times.chain(self.paused.as_mut()) {
            *at = later(*at, lost);
        }
    }
}

const fn due(at: Timestamp, sequence: u64, what: What) -> Due {
    Due { at, sequence, what }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(at)
}
