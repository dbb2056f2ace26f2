//! Timers: those of executions in memory by the book, the others by what their rows say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_machine::{ExecutionState, Obligation, StepTimer, Timer, Verb, obligations, seeking};

use super::Keeper;

/// The most timers a turn fires, so that a flood of them does not keep others waiting.
const MOST_AT_ONCE: usize = 1_000;
/// A clock that differs from the steady one by more than this has been moved.
const JUMP: Duration = Duration::from_secs(5);

/// Compares the clock with one that cannot be moved.
#[derive(Debug)]
pub(super) struct ClockWatch {
    wall: Timestamp,
    steady: Instant,
}

impl ClockWatch {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            wall: now,
            steady: Instant::now(),
        }
    }

    /// How far the clock was moved since the last look, where it was.
    fn jump(&mut self, now: Timestamp) -> Option<f64> {
        let passed = self.steady.elapsed().as_secs_f64();
        let shown = now.duration_since(self.wall).as_secs_f64();
        *self = Self::new(now);
        let off = shown - passed;
        (off.abs() > JUMP.as_secs_f64()).then_some(off)
    }
}

impl Keeper {
    /// Reads the clock.
    pub(super) fn tell_time(&mut self) {
        self.now = self.config.clock.now();
        if self.config.clock.is_manual() {
            return;
        }
        if let Some(off) = self.clock_watch.jump(self.now) {
            tracing::warn!(
                seconds = off,
                "the system's clock was moved; timers follow it, leases do not"
            );
            metrics::counter!("stateway_engine_clock_jumps_total").increment(1);
            // A clock that went back may have left the next look too far away.
            self.next_wake = Some(self.now);
        }
    }

    /// Fires what is due.
    pub(super) fn ring(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Some((due, number)) = self.alarms.first().copied() else {
                break;
            };
            if due > self.now {
                break;
            }
            self.alarms.remove(&(due, number));
            if let Some(live) = self.hot.get_mut(&number) {
                live.alarm = None;
            }
            self.fire(number);
        }
        if self.next_wake.is_some_and(|wake| wake <= self.now) {
            self.look_up_due();
        }
    }

    /// Fires the due timers of one execution in memory.
    pub(super) fn fire(&mut self, number: i64) {
        self.touch(number);
        let Some(live) = self.hot.get(&number) else {
            return;
        };
        let cause: Arc<str> = "timer".into();
        if live.state.state() == ExecutionState::Created {
            if live.origin.not_before.is_none_or(|due| due <= self.now) {
                self.release(number);
            }
            return;
        }
        let due: Vec<_> = obligations(&live.state)
            .into_iter()
            .filter_map(|obligation| match obligation {
                Obligation::Timer { timer, due } if due <= self.now => Some(timer),
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
        let Some(live) = self.hot.get(&number) else {
            return "".into();
        };
        let waiting = seeking(&live.state);
        let task = waiting
            .iter()
            .find(|task| step.is_none_or(|step| task.step == *step));
        task.map_or_else(
            || "".into(),
            |task| self.coverage.words(task, live.origin.tenant()).into(),
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
            self.now,
            (Some(Timestamp::UNIX_EPOCH), i64::MAX),
            MOST_AT_ONCE,
        );
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::error!("due executions cannot be read: {error}");
                self.next_wake = self
                    .now
                    .checked_add(jiff::SignedDuration::from_secs(1))
                    .ok();
                return;
            }
        };
        let more = found.len() == MOST_AT_ONCE;
        for kept in found {
            let (number, id) = (kept.origin.number, Arc::clone(&kept.origin.id));
            if self.hot.contains_key(&number) {
                continue;
            }
            match self.bring_kept(kept) {
                Ok(()) => self.fire(number),
                Err(error) => self.set_aside(number, id, &error),
            }
        }
        self.next_wake = if more {
            Some(self.now)
        } else {
            self.store.next_wake(self.now).unwrap_or_else(|error| {
                tracing::error!("the next due execution cannot be read: {error}");
                Some(self.now)
            })
        };
    }
}
