//! How late timers fired, and which were due without being fired: no clock is punctual, and what came
//! first in the recorded run has to come first in its shadow.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Late;
use super::reader::Reader;
use crate::shadow::window::{lasts, limited};
use stateway_driver::{TimerOrder, resume};
use stateway_machine::{Event, StepAt, StepState, StepTimer, Task, Timer};

impl Reader<'_> {
    /// Whatever is open has had no answer until here.
    pub(super) fn given_up(&mut self, event: &Event) {
        let open = self.state.steps().filter(|run| run.open).map(|run| {
            let undo = run.state == StepState::Compensating;
            Task {
                step: Arc::clone(run.name),
                attempt: if undo { run.undo_attempt } else { run.attempt },
                undo,
            }
        });
        for task in open.collect::<Vec<_>>() {
            self.overdue(event, &task.step);
            self.unanswered(event, task);
        }
        if let Some(due) = self.state.deadline() {
            self.missed(event, Timer::Execution, due);
        }
    }

    /// Timers that are set when the log ends. Nobody knows what follows them.
    pub(super) fn unfired(&mut self) {
        for TimerOrder { timer, due } in resume(&self.state).timers {
            let lasts = lasts(&self.state, &self.opened, &timer, due);
            let window = self.windows.of(timer);
            self.found
                .unfired
                .extend(lasts.map(|lasts| (window, lasts)));
        }
    }

    /// Timers of a step that were due without being fired.
    pub(super) fn overdue(&mut self, event: &Event, step: &Arc<str>) {
        let Some(run) = self.state.step(step) else {
            return;
        };
        let (attempt, timers) = (run.timed_attempt, run.timers);
        // That a worker was silent for too long is recorded as its loss.
        let timers = timers.into_iter();
        for (kind, due) in timers.filter(|(kind, _)| *kind != StepTimer::Heartbeat) {
            let timer = Timer::Step {
                step: Arc::clone(step),
                attempt,
                kind,
            };
            if let Some(due) = due {
                self.missed(event, timer, due);
            }
        }
    }

    /// A timer had not fired by this event; the last such event counts.
    fn missed(&mut self, event: &Event, timer: Timer, due: Timestamp) {
        let by = event.at.duration_since(self.put_off(event, &timer, due));
        if by < SignedDuration::ZERO {
            return;
        }
        let late = Late { by, fired_at: None };
        let known = self.found.late.entry(self.windows.of(timer));
        let known = known.or_insert(late);
        if known.fired_at.is_none() && known.by < by {
            *known = late;
        }
    }

    /// When a timer is due, with the pause that an execution is in: its timeouts stand still.
    fn put_off(&self, event: &Event, timer: &Timer, due: Timestamp) -> Timestamp {
        let since = self.state.paused_since();
        match since.filter(|_| limited(timer).is_some()) {
            Some(since) => {
                let still = event.at.duration_since(since);
                due.checked_add(still).unwrap_or(due)
            }
            None => due,
        }
    }

    /// A timer was fired by this event.
    pub(super) fn fired(
        &mut self,
        event: &Event,
        step: &Arc<str>,
        kind: StepTimer,
        due: impl Fn(&StepAt<'_>) -> Option<Timestamp>,
    ) {
        let Some(run) = self.state.step(step) else {
            return;
        };
        let Some(due) = due(&run) else { return };
        let undo = matches!(
            kind,
            StepTimer::UndoTimeout | StepTimer::UndoQueue | StepTimer::UndoRetry
        );
        let timer = Timer::Step {
            step: Arc::clone(step),
            attempt: if undo { run.undo_attempt } else { run.attempt },
            kind,
        };
        let late = Late {
            by: event.at.duration_since(due),
            fired_at: Some(event.sequence),
        };
        self.found.late.insert(self.windows.of(timer), late);
        self.overdue(event, step);
    }
}
