//! How far the recording reaches: an attempt of which nothing is known must not be taken for one that
//! was too slow, nor for one that completed.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::super::Unrecorded;
use super::super::recorded::{Deed, Reply};
use super::super::window::{lasts, limited};
use super::{Rerun, later};
use stateway_driver::{TimerOrder, resume};
use stateway_machine::{Awaited, StepTimer, Task, Timer, Verb, WaitFor, awaited};

impl Rerun<'_> {
    /// Whether the recording reaches as far as this timer. That a worker was silent for too long is
    /// recorded as the loss of the worker, so that timer never fires in a shadow.
    pub(super) fn known(&self, timer: &Timer, at: Timestamp) -> bool {
        if self.unfired(timer, at) {
            return false;
        }
        let (Timer::Step { step, kind, .. }, Some(task)) = (timer, limited(timer)) else {
            return *timer != Timer::Execution || !self.blind(at);
        };
        if *kind == StepTimer::Heartbeat {
            return false;
        }
        let since = self.opened.get(&task).copied().unwrap_or(self.clock);
        let lasted = at.duration_since(since);
        let silent = self.recorded.silent.get(&task).copied();
        let answered = self.recorded.results.get(&task).map(|reply| reply.after);
        let decided = front(self.recorded.decisions.get(&task));
        let handed_out = front(self.recorded.hand_outs.get(&task));
        let known = silent.max(answered).max(decided).max(handed_out);
        // A signal that came to this step ends what is known of its wait.
        known.is_some_and(|known| lasted <= known)
            || (self.signals(step) && self.recorded.opened.contains_key(step))
    }

    /// Whether the recording ends before this timer fires.
    fn unfired(&self, timer: &Timer, at: Timestamp) -> bool {
        let recorded = self.recorded.unfired.get(&self.windows.of(timer.clone()));
        let lasts = lasts(&self.state, &self.opened, timer, at);
        recorded.is_some_and(|recorded| lasts >= Some(*recorded))
    }

    /// Whether something is open of which nothing is known at this time.
    fn blind(&self, at: Timestamp) -> bool {
        let until = self.recorded.until.unwrap_or(self.clock);
        self.unrecorded().into_iter().any(|open| {
            let wait = self.state.step(&open.step).and_then(|run| run.wait);
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
        acts.any(|act| {
            matches!(
                &act.deed,
                Deed::Command(Verb::SendSignal { name, .. }) if **name == *wanted
            )
        })
    }

    /// What is open and has nothing recorded that would end it.
    pub(super) fn unrecorded(&self) -> Vec<Unrecorded> {
        let tasks = self.tasks().into_iter();
        let mut found: Vec<_> = tasks
            .filter(|task| !self.answerable(task))
            .map(|task| {
                let why = if self.recorded.results.contains_key(&task) {
                    "its output was refused by the old schema and not stored"
                } else {
                    "no answer is recorded"
                };
                unrecorded(task, why)
            })
            .collect();
        let outside = awaited(&self.state).into_iter();
        found.extend(outside.filter_map(|awaited| self.unanswered(awaited)));
        found.extend(self.unfinished());
        found
    }

    /// Steps that wait for a time that the recording does not reach.
    fn unfinished(&self) -> Vec<Unrecorded> {
        let mut found = Vec::new();
        for TimerOrder { timer, due } in resume(&self.state).timers {
            if let Timer::Step {
                step,
                attempt,
                kind,
            } = &timer
                && limited(&timer).is_none()
                && self.unfired(&timer, due)
            {
                let task = Task {
                    step: Arc::clone(step),
                    attempt: *attempt,
                    undo: *kind == StepTimer::UndoRetry,
                };
                found.push(unrecorded(task, "the recording ends before its time"));
            }
        }
        found
    }

    fn unanswered(&self, awaited: Awaited) -> Option<Unrecorded> {
        match awaited {
            Awaited::Approval {
                step,
                attempt,
                role,
                ..
            } => {
                let task = Task::of(step, attempt);
                let decided = self.decision(task.clone(), &role).is_some();
                let why = format!("no decision by the role `{role}` is recorded");
                (!decided && !self.expires(&task)).then(|| unrecorded(task, &why))
            }
            Awaited::Signal { step, name } => {
                let attempt = self.attempt(&step);
                let task = Task::of(step, attempt);
                let comes = self.signal_to_come(&name) || self.expires(&task);
                let why = format!("no signal `{name}` is recorded");
                (!comes).then(|| unrecorded(task, &why))
            }
            Awaited::Person { step, attempt, .. } => {
                let resolved = front(self.recorded.resolutions.get(&step)).is_some();
                let why = "it is escalated, and no decision about it is recorded";
                (!resolved).then(|| unrecorded(Task::of(step, attempt), why))
            }
            Awaited::Resume => {
                let why = "the execution is paused, and no resumption is recorded";
                let resumed = !self.recorded.resumes.is_empty();
                (!resumed).then(|| unrecorded(Task::of("", 0), why))
            }
            Awaited::Trigger => None,
        }
    }

    fn attempt(&self, step: &str) -> u32 {
        self.state.step(step).map_or(0, |run| run.attempt)
    }

    fn answerable(&self, task: &Task) -> bool {
        let handed_out = front(self.recorded.hand_outs.get(task)).is_some();
        self.usable(task) || handed_out || self.expires(task)
    }

    /// Whether one of its own time limits ends it within what is recorded.
    fn expires(&self, task: &Task) -> bool {
        let Some(run) = self.state.step(&task.step) else {
            return false;
        };
        run.timers.into_iter().any(|(kind, due)| {
            let timer = Timer::Step {
                step: Arc::clone(&task.step),
                attempt: task.attempt,
                kind,
            };
            let ends = limited(&timer).is_some() && kind != StepTimer::Heartbeat;
            ends && due.is_some_and(|due| self.known(&timer, due))
        })
    }
}

/// When the next of several answers came.
fn front<T>(replies: Option<&VecDeque<Reply<T>>>) -> Option<SignedDuration> {
    replies.and_then(VecDeque::front).map(|reply| reply.after)
}

fn unrecorded(task: Task, why: &str) -> Unrecorded {
    Unrecorded {
        step: task.step,
        attempt: task.attempt,
        undo: task.undo,
        why: why.to_owned(),
    }
}
