//! Fires timers: of executions in memory by the list of their timers, of other executions by their rows.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stateway_driver::{TimerOrder, timers};
use stateway_machine::{ExecutionState, StepTimer, Timer, Verb, later, seeking};

use super::pace::Cursor;
use super::{Keeper, Live};
use crate::cause;
use crate::clock::Moment;
use crate::store::{ExecutionRow, OpenWork};

/// How many due executions are read at a time.
const MOST_AT_ONCE: usize = 1_000;
/// A clock that differs from the steady one by more than this has been moved.
const JUMP: Duration = Duration::from_secs(5);
/// How long timers wait that the core rejected.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The most executions that a turn loads to check when they are due.
const MOST_LOADED: usize = 200;

impl Keeper {
    /// Takes the time of a new turn, and notices that the wall clock was moved.
    pub(super) fn set_time(&mut self, now: Moment) {
        let before = std::mem::replace(&mut self.now, now);
        let Some(by) = jump(before, now) else { return };
        // Tests advance the manual clock; that is no jump.
        if self.config.clock.is_manual() && by.is_positive() {
            return;
        }
        tracing::warn!(
            seconds = by.as_secs_f64(),
            "the system's clock was moved; timers were recalculated"
        );
        metrics::counter!("stateway_engine_clock_jumps_total").increment(1);
        self.executions.notice_jump(now.wall, by);
        self.dispatch.notice_jump(by);
        let moved = self.upkeep.moved_forward.saturating_add(by);
        self.upkeep.moved_forward = moved.max(SignedDuration::ZERO);
        if by.is_negative() {
            self.check_sleeping();
            if let Err(error) = self.read_triggers() {
                tracing::error!("schedules cannot be read: {error}");
            }
        }
    }

    /// Begins to check every execution that is due later: the log of some may be ahead of the clock.
    pub(super) fn check_sleeping(&mut self) {
        self.upkeep.sleeping = Some((Some(self.now.wall), i64::MAX));
        self.executions.next_wake = Some(self.now.wall);
    }

    /// Loads the next executions that are due later. The end of the turn writes when each is due by
    /// the wall clock.
    pub(super) fn check_next_sleeping(&mut self) {
        let Some(after) = self.upkeep.sleeping else {
            return;
        };
        let page = match self.store.due(Timestamp::MAX, after, MOST_LOADED) {
            Ok(page) => page,
            Err(error) => {
                tracing::error!("executions that sleep cannot be read: {error}");
                return;
            }
        };
        let last = page.last();
        self.upkeep.sleeping = last.map(|last| (last.status.wake_at, last.origin.number));
        for kept in page {
            let (number, id) = (kept.origin.number, Arc::clone(&kept.origin.id));
            if !self.executions.contains(number)
                && let Err(error) = self.load_row(kept)
            {
                self.set_aside(number, &id, &error);
            }
        }
    }

    /// When the next timer of an execution fires, by the wall clock.
    pub(super) fn alarm_of(&self, live: &Live, under_way: &OpenWork) -> Option<Timestamp> {
        match live.state.state() {
            ExecutionState::Created => return live.postponed(under_way.due),
            state if state.is_terminal() => return None,
            _ => {}
        }
        let due = if under_way.heartbeats {
            let timers = timers(&live.state).into_iter();
            timers
                .map(|TimerOrder { timer, due }| self.due_of(live, &timer, due))
                .min()
        } else {
            under_way.due
        };
        live.postponed(due.map(|due| live.wall_time(due)))
    }

    /// When a timer is due by the time of its log. Heartbeats are not in the log.
    fn due_of(&self, live: &Live, timer: &Timer, due: Timestamp) -> Timestamp {
        let Timer::Step {
            step,
            kind: StepTimer::Heartbeat,
            ..
        } = timer
        else {
            return due;
        };
        let entry = self.dispatch.entry(live.origin.number, step);
        let heard = entry.and_then(|entry| entry.heard);
        let define = live.state.plan().step_definition(step);
        let timeout = define.and_then(|define| define.heartbeat_timeout);
        match (heard, timeout) {
            (Some(heard), Some(timeout)) => due.max(later(live.log_time(heard), timeout)),
            _ => due,
        }
    }

    /// Fires what is due.
    pub(super) fn ring(&mut self) {
        while !self.pace.is_full() {
            let Some(number) = self.executions.take_due(self.now.wall) else {
                break;
            };
            self.fire(number);
        }
        let wake = self.executions.next_wake;
        if wake.is_some_and(|wake| wake <= self.now.wall) {
            self.look_up_due();
        }
    }

    /// Fires the due timers of one execution in memory.
    pub(super) fn fire(&mut self, number: i64) {
        self.executions.touch(number);
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let cause: Arc<str> = cause::TIMER.into();
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
        let now = live.time(self.now.wall);
        let due: Vec<_> = timers(&live.state)
            .into_iter()
            .filter(|set| self.due_of(live, &set.timer, set.due) <= now)
            .map(|set| set.timer)
            .collect();
        let (mut fired, mut rejected) = (false, false);
        for timer in due {
            let note = self.note(number, &timer);
            match self.command(number, &cause, Verb::FireTimer { timer, note }) {
                Ok(_) => fired = true,
                // One timer may make another pointless; the core rejects that one.
                Err(error) => {
                    tracing::trace!(number, "a timer was no longer needed: {error}");
                    rejected = true;
                }
            }
        }
        if rejected && !fired {
            tracing::warn!(
                number,
                "the timers of an execution are rejected and are tried later"
            );
            self.postpone_timers(number);
        }
        self.do_work();
    }

    /// Timers that cannot be fired are tried again after a while.
    fn postpone_timers(&mut self, number: i64) {
        let later = later(self.now.wall, TRY_AGAIN);
        if let Some(live) = self.executions.get_mut(number) {
            live.timers_after = Some(later);
        }
    }

    /// The message about a task that no worker took: how many workers are connected.
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

    /// Queues an execution whose start was delayed.
    fn release(&mut self, number: i64) {
        let by: Arc<str> = cause::TIMER.into();
        let verb = Verb::Trigger {
            by: Arc::clone(&by),
        };
        if let Err(error) = self.command(number, &by, verb) {
            tracing::warn!(number, "a delayed start was rejected: {error}");
            self.postpone_timers(number);
        }
        self.do_work();
    }

    /// Brings in executions that are not in memory and have something due, page by page: executions that
    /// cannot be loaded stay due, and must not hide those behind them.
    fn look_up_due(&mut self) {
        let none: Cursor = (Some(Timestamp::UNIX_EPOCH), i64::MAX);
        let mut after = self.executions.due_after.take().unwrap_or(none);
        loop {
            let found = match self.store.due(self.now.wall, after, MOST_AT_ONCE) {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!("due executions cannot be read: {error}");
                    let later = jiff::SignedDuration::from_secs(1);
                    self.executions.next_wake = self.now.wall.checked_add(later).ok();
                    return;
                }
            };
            let last = found.last();
            let last = last.map(|kept| (kept.status.wake_at, kept.origin.number));
            let whole = found.len() == MOST_AT_ONCE;
            self.bring_due(found);
            match last.filter(|_| whole) {
                Some(last) if self.pace.is_full() => {
                    self.executions.due_after = Some(last);
                    self.executions.next_wake = Some(self.now.wall);
                    return;
                }
                Some(last) => after = last,
                None => break,
            }
        }
        self.executions.next_wake = self.store.next_wake(self.now.wall).unwrap_or_else(|error| {
            tracing::error!("the next due execution cannot be read: {error}");
            Some(self.now.wall)
        });
    }

    fn bring_due(&mut self, found: Vec<ExecutionRow>) {
        for kept in found {
            let (number, id) = (kept.origin.number, Arc::clone(&kept.origin.id));
            if self.executions.contains(number) {
                continue;
            }
            match self.load_row(kept) {
                Ok(()) => self.fire(number),
                Err(error) => self.set_aside(number, &id, &error),
            }
        }
    }
}

/// How far the wall clock was moved between two moments, where it was.
fn jump(before: Moment, now: Moment) -> Option<SignedDuration> {
    let passed = now.steady.saturating_duration_since(before.steady);
    let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
    let by = now.wall.duration_since(before.wall).saturating_sub(passed);
    (by.unsigned_abs() > JUMP).then_some(by)
}
