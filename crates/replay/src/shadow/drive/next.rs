//! What comes next: the earliest act, answer or timer; of those at the same time, the one that the
//! recorded log has first.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Rerun, later};
use crate::shadow::recorded::{Deed, Late, RecordedAnswer};
use stateway_driver::{TimerOrder, open_keys, resume};
use stateway_machine::{Awaited, StepTimer, Task, Timer, awaited};

/// An action that is due.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub(super) at: Timestamp,
    /// Its position in the recorded log, which decides the order of actions of the same time.
    pub(super) sequence: u64,
    pub(super) what: ShadowAction,
}

/// The actions, in the order in which they are taken if time and position are the same.
#[derive(Debug, Clone)]
pub(super) enum ShadowAction {
    Act,
    HandOut(Task),
    Answer(Task),
    Decision(Task),
    Resolution(Arc<str>),
    Resume,
    Hurry(Task),
    /// A timer, and the time it is set for.
    Fire(Timer, Timestamp),
}

impl ShadowAction {
    const fn rank(&self) -> u8 {
        match self {
            Self::Act => 0,
            Self::HandOut(_) => 1,
            Self::Answer(_) => 2,
            Self::Decision(_) => 3,
            Self::Resolution(_) => 4,
            Self::Resume => 5,
            Self::Hurry(_) => 6,
            Self::Fire(..) => 7,
        }
    }
}

impl Rerun<'_> {
    /// What comes next.
    pub(super) fn next(&self) -> Option<Due> {
        let mut found = self.replies();
        found.extend(self.timers());
        let act = self.recorded.acts.front();
        let next = act.map(|act| due(act.at, act.sequence, ShadowAction::Act));
        // Time stands still before a branch: only what the log has before it comes before it.
        let branch = act.filter(|act| matches!(act.deed, Deed::Branch(..)));
        if let Some(branch) = branch {
            found.retain(|due| due.sequence < branch.sequence);
            if found.is_empty() {
                return next;
            }
        } else {
            found.extend(next);
        }
        let order = |due: &Due| (due.at, due.sequence, due.what.rank());
        found.into_iter().min_by_key(order)
    }

    /// Answers to what is open.
    fn replies(&self) -> Vec<Due> {
        let mut found = Vec::new();
        for task in self.tasks() {
            let since = self.opened.get(&task).copied().unwrap_or(self.clock);
            let hand_outs = self.recorded.hand_outs.get(&task);
            if let Some(reply) = hand_outs.and_then(|hand_outs| hand_outs.front()) {
                let at = later(since, reply.after);
                found.push(due(at, reply.sequence, ShadowAction::HandOut(task.clone())));
            }
            if let Some(reply) = self.recorded.results.get(&task)
                && self.usable(&task)
            {
                let at = later(since, reply.after);
                found.push(due(at, reply.sequence, ShadowAction::Answer(task)));
            }
        }
        let outside = awaited(&self.state).into_iter();
        found.extend(outside.filter_map(|awaited| self.reaction(awaited)));
        found
    }

    /// What a person does about what the execution waits for.
    fn reaction(&self, awaited: Awaited) -> Option<Due> {
        match awaited {
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
                Some(due(at, reply.sequence, ShadowAction::Resolution(step)))
            }
            Awaited::Resume => {
                let reply = self.recorded.resumes.front()?;
                let at = later(self.paused.unwrap_or(self.clock), reply.after);
                Some(due(at, reply.sequence, ShadowAction::Resume))
            }
            Awaited::Trigger | Awaited::Signal { .. } => None,
        }
    }

    pub(super) fn decision(&self, task: Task, role: &Arc<str>) -> Option<Due> {
        let reply = self.recorded.decisions.get(&task)?.front()?;
        // Nobody of another role has decided.
        if reply.what.role != *role {
            return None;
        }
        let since = self.opened.get(&task).copied().unwrap_or(self.clock);
        let at = later(since, reply.after);
        Some(due(at, reply.sequence, ShadowAction::Decision(task)))
    }

    /// The attempts that wait for workers, or that workers and children are busy with.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let open = open_keys(&self.state).into_iter();
        open.map(|key| key.task).collect()
    }

    /// An output that the old schema refused was not stored; the new schema might accept it.
    pub(super) fn usable(&self, task: &Task) -> bool {
        let reply = self.recorded.results.get(task);
        match reply.map(|reply| &reply.what) {
            Some(RecordedAnswer::Refused(..)) => (self.same_schema)(&task.step),
            Some(RecordedAnswer::Completed(..) | RecordedAnswer::Failed(..)) => true,
            None => false,
        }
    }

    fn timers(&self) -> Vec<Due> {
        let mut found = Vec::new();
        for TimerOrder { timer, due } in resume(&self.state).timers {
            let spent = self.without_effect.contains(&(timer.clone(), due));
            if !spent && self.known(&timer, due) {
                found.extend(self.hurried(&timer));
                found.push(self.fire(timer, due));
            }
        }
        found
    }

    /// Someone who asks for the next attempt before its time.
    fn hurried(&self, timer: &Timer) -> Option<Due> {
        let Timer::Step {
            step,
            attempt,
            kind,
        } = timer
        else {
            return None;
        };
        let next = match kind {
            StepTimer::Retry => Task::of(Arc::clone(step), attempt + 1),
            StepTimer::UndoRetry => Task::undo(Arc::clone(step), attempt + 1),
            _ => return None,
        };
        let reply = self.recorded.hurried.get(&next)?;
        let since = self.state.step(step)?.since.unwrap_or(self.clock);
        let at = later(since, reply.after);
        Some(due(at, reply.sequence, ShadowAction::Hurry(next)))
    }

    fn fire(&self, timer: Timer, set_for: Timestamp) -> Due {
        let late = self.recorded.late.get(&self.windows.of(timer.clone()));
        let punctual = Late {
            by: SignedDuration::ZERO,
            fired_at: None,
        };
        let late = late.copied().unwrap_or(punctual);
        let sequence = late.fired_at.unwrap_or(u64::MAX);
        due(
            later(set_for, late.by),
            sequence,
            ShadowAction::Fire(timer, set_for),
        )
    }
}

const fn due(at: Timestamp, sequence: u64, what: ShadowAction) -> Due {
    Due { at, sequence, what }
}
