//! Timers: those of executions in memory by the book, the others by what their rows say.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use stateway_machine::{ExecutionState, Obligation, StepTimer, Timer, Verb, obligations, seeking};

use super::Keeper;
use crate::clock::Moment;

/// The most timers a turn fires, so that a flood of them does not keep others waiting.
const MOST_AT_ONCE: usize = 1_000;
/// A clock that differs from the steady one by more than this has been moved.
const JUMP: Duration = Duration::from_secs(5);

impl Keeper {
    /// Takes the time of a new turn, and notices that the wall clock was moved.
    pub(super) fn set_time(&mut self, now: Moment) {
        let before = std::mem::replace(&mut self.upkeep.before, now);
        self.now = now;
        if self.config.clock.is_manual() {
            return;
        }
        if let Some(seconds) = jump(before, now) {
            tracing::warn!(
                seconds,
                "the system's clock was moved; timers follow it, leases do not"
            );
            metrics::counter!("stateway_engine_clock_jumps_total").increment(1);
            // A clock that went back may have left the next look too far away.
            self.executions.next_wake = Some(now.wall);
        }
    }

    /// Fires what is due.
    pub(super) fn ring(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Some(number) = self.executions.take_due(self.now.wall) else {
                break;
            };
            self.fire(number);
        }
        if self
            .executions
            .next_wake
            .is_some_and(|wake| wake <= self.now.wall)
        {
            self.look_up_due();
        }
    }

    /// Fires the due timers of one execution in memory.
    pub(super) fn fire(&mut self, number: i64) {
        self.executions.touch(number);
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let cause: Arc<str> = "timer".into();
        if live.state.state() == ExecutionState::Created {
            if live
                .origin
                .not_before
                .is_none_or(|due| due <= self.now.wall)
            {
                self.release(number);
            }
            return;
        }
        let due: Vec<_> = obligations(&live.state)
            .into_iter()
            .filter_map(|obligation| match obligation {
                Obligation::Timer { timer, due } if due <= self.now.wall => Some(timer),
                _ => None,
            })
            .collect();
        for timer in due {
            let note = self.note(number, &timer);
            // One timer may make another pointless; the core rejects that one.
            if let Err(error) = self.carry(number, &cause, Verb::FireTimer { timer, note }) {
                tracing::trace!(number, "a timer was over: {error}");
            }
        }
        self.work_off();
    }

    /// What is known about a task that no worker took: how many workers are connected.
    fn note(&self, number: i64, timer: &Timer) -> Arc<str> {
        let step = match timer {
            Timer::Execution => None,
            Timer::Step {
                step,
                kind: StepTimer::Queue | StepTimer::UndoQueue,
                ..
            } => Some(step),
            Timer::Step { .. } => return "".into(),
        };
        let Some(live) = self.executions.get(number) else {
            return "".into();
        };
        let waiting = seeking(&live.state);
        let task = waiting
            .iter()
            .find(|task| step.is_none_or(|step| task.step == *step));
        task.map_or_else(
            || "".into(),
            |task| {
                self.connected
                    .coverage()
                    .words(task, live.origin.tenant())
                    .into()
            },
        )
    }

    /// Lets an execution that was put off take its place in the queue.
    fn release(&mut self, number: i64) {
        let by: Arc<str> = "timer".into();
        let verb = Verb::Trigger {
            by: Arc::clone(&by),
        };
        if let Err(error) = self.carry(number, &by, verb) {
            tracing::warn!(number, "a start that was put off is over: {error}");
        }
        self.work_off();
    }

    /// Brings in executions that are not in memory and have something due.
    fn look_up_due(&mut self) {
        let found = self.store.due(
            self.now.wall,
            (Some(Timestamp::UNIX_EPOCH), i64::MAX),
            MOST_AT_ONCE,
        );
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::error!("due executions cannot be read: {error}");
                self.executions.next_wake = self
                    .now
                    .wall
                    .checked_add(jiff::SignedDuration::from_secs(1))
                    .ok();
                return;
            }
        };
        let more = found.len() == MOST_AT_ONCE;
        for kept in found {
            let (number, id) = (kept.origin.number, Arc::clone(&kept.origin.id));
            if self.executions.contains(number) {
                continue;
            }
            match self.bring_kept(kept) {
                Ok(()) => self.fire(number),
                Err(error) => self.set_aside(number, &id, &error),
            }
        }
        self.executions.next_wake = if more {
            Some(self.now.wall)
        } else {
            self.store.next_wake(self.now.wall).unwrap_or_else(|error| {
                tracing::error!("the next due execution cannot be read: {error}");
                Some(self.now.wall)
            })
        };
    }
}

/// How many seconds the wall clock was moved between two moments, where it was.
fn jump(before: Moment, now: Moment) -> Option<f64> {
    let passed = now.steady.duration_since(before.steady).as_secs_f64();
    let shown = now.wall.duration_since(before.wall).as_secs_f64();
    let off = shown - passed;
    (off.abs() > JUMP.as_secs_f64()).then_some(off)
}
