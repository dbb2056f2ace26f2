//! How far what is recorded reaches: an attempt of which nothing is known must not be taken for one
//! that was too slow, nor for one that was done.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::Unrecorded;
use super::{Driver, later};
use crate::event::{Task, WaitFor};
use crate::timer::{StepTimer, Timer};
use crate::{Awaited, Verb, awaited};

impl Driver<'_> {
    /// When a worker was given up that went silent.
    pub(super) fn silence(&self, timer: &Timer) -> Option<Timestamp> {
        let Timer::Step {
            step,
            attempt,
            kind: StepTimer::Heartbeat,
        } = timer
        else {
            return None;
        };
        let task = Task::of(Arc::clone(step), *attempt);
        let lasted = self.recorded.silent.get(&task)?;
        Some(later(*self.opened.get(&task)?, *lasted))
    }

    /// Whether what is recorded reaches as far as this timer. An attempt of which nothing is known
    /// must not be taken for one that was too slow.
    pub(super) fn known(&self, timer: &Timer, at: Timestamp) -> bool {
        let Timer::Step {
            step,
            attempt,
            kind,
        } = timer
        else {
            return !self.blind(at);
        };
        let task = match kind {
            StepTimer::Retry | StepTimer::Sleep | StepTimer::UndoRetry => return true,
            StepTimer::Heartbeat => {
                let task = Task::of(Arc::clone(step), *attempt);
                return self.recorded.went_silent.contains(&task);
            }
            StepTimer::UndoTimeout | StepTimer::UndoQueue => Task::undo(Arc::clone(step), *attempt),
            StepTimer::Timeout | StepTimer::Expiry | StepTimer::Queue => {
                Task::of(Arc::clone(step), *attempt)
            }
        };
        let since = self.opened.get(&task).copied().unwrap_or(self.clock);
        let lasted = at.duration_since(since);
        let silent = self.recorded.silent.get(&task);
        let answered = self.recorded.results.get(&task).map(|reply| reply.after);
        let decided = self.recorded.decisions.get(&task).map(|reply| reply.after);
        let known = silent.copied().max(answered).max(decided);
        // A signal that came to this step ends what is known of its wait.
        known.is_some_and(|known| lasted <= known)
            || (self.signals(step) && self.recorded.opened.contains_key(step))
    }

    /// Whether something is open of which nothing is known at this time.
    fn blind(&self, at: Timestamp) -> bool {
        let until = self.recorded.until.unwrap_or(self.clock);
        self.unrecorded().into_iter().any(|open| {
            let ix = self.state.plan().find(&open.step);
            let wait = ix.and_then(|ix| self.state.run(ix).wait.as_ref());
            if open.attempt == 0 || wait == Some(&WaitFor::Person) {
                return at > until;
            }
            let task = Task {
                step: open.step,
                attempt: open.attempt,
                undo: open.undo,
            };
            match (self.opened.get(&task), self.recorded.silent.get(&task)) {
                (Some(since), Some(lasted)) => later(*since, *lasted) < at,
                _ => true,
            }
        })
    }

    fn signals(&self, step: &str) -> bool {
        let waits = |awaited: &Awaited| matches!(awaited, Awaited::Signal { step: waits, name } if **waits == *step && self.signal_to_come(name));
        awaited(&self.state).iter().any(waits)
    }

    fn signal_to_come(&self, wanted: &str) -> bool {
        let mut acts = self.recorded.acts.iter();
        acts.any(|act| matches!(&act.verb, Verb::SendSignal { name, .. } if **name == *wanted))
    }

    /// What is open and has nothing recorded that would end it.
    pub(super) fn unrecorded(&self) -> Vec<Unrecorded> {
        let told = |task: Task, why: &str| Unrecorded {
            step: task.step,
            attempt: task.attempt,
            undo: task.undo,
            why: why.to_owned(),
        };
        let mut found = Vec::new();
        for task in self.tasks() {
            if !self.answerable(&task) {
                let refused = self.recorded.results.contains_key(&task);
                let why = if refused {
                    "its output was refused by the schema of then and not kept"
                } else {
                    "no answer is recorded"
                };
                found.push(told(task, why));
            }
        }
        for awaited in awaited(&self.state) {
            match awaited {
                Awaited::Approval {
                    step,
                    attempt,
                    role,
                    ..
                } => {
                    let task = Task::of(step, attempt);
                    if self.decision(task.clone(), &role).is_none() && !self.expires(&task) {
                        found.push(told(task, &format!("no decision of a {role} is recorded")));
                    }
                }
                Awaited::Signal { step, name } => {
                    let attempt = self.attempt(&step);
                    let task = Task::of(step, attempt);
                    if !self.signal_to_come(&name) && !self.expires(&task) {
                        found.push(told(task, &format!("no signal `{name}` is recorded")));
                    }
                }
                Awaited::Person { step, .. } => {
                    let words = self.recorded.resolutions.get(&step);
                    if words.is_none_or(std::collections::VecDeque::is_empty) {
                        let attempt = self.attempt(&step);
                        let why = "it is escalated, and nobody's word on it is recorded";
                        found.push(told(Task::of(step, attempt), why));
                    }
                }
                Awaited::Resume if self.recorded.resumes.is_empty() => {
                    let why = "it is held, and nobody let it go on";
                    found.push(told(Task::of("", 0), why));
                }
                Awaited::Resume | Awaited::Trigger => {}
            }
        }
        found
    }

    fn attempt(&self, step: &str) -> u32 {
        let ix = self.state.plan().find(step);
        ix.map_or(0, |ix| self.state.run(ix).attempt)
    }

    fn answerable(&self, task: &Task) -> bool {
        self.usable(task) || self.falls_silent(task) || self.expires(task)
    }

    /// Whether its worker went silent, and the definition minds.
    fn falls_silent(&self, task: &Task) -> bool {
        let ix = self.state.plan().find(&task.step);
        let minds = ix.is_some_and(|ix| self.state.run(ix).heartbeat_due.is_some());
        minds && self.recorded.went_silent.contains(task)
    }

    /// Whether its own time limit ends it within what is recorded.
    fn expires(&self, task: &Task) -> bool {
        let Some(ix) = self.state.plan().find(&task.step) else {
            return false;
        };
        let run = self.state.run(ix);
        let kind = match (&run.wait, task.undo) {
            (Some(WaitFor::Approval(_)), _) => StepTimer::Expiry,
            (_, true) => StepTimer::UndoTimeout,
            _ => StepTimer::Timeout,
        };
        let timer = Timer::Step {
            step: Arc::clone(&task.step),
            attempt: task.attempt,
            kind,
        };
        run.due.is_some_and(|due| self.known(&timer, due))
    }
}
