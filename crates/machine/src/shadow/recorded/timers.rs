//! How late timers fired, and which had come without being fired: no clock is punctual, and what came
//! first in the recorded run has to come first in its shadow.

use std::sync::Arc;

use jiff::Timestamp;

use super::Reader;
use crate::event::{Task, WaitFor};
use crate::plan::StepIx;
use crate::timer::{StepTimer, Timer};
use crate::{Event, StepState};

impl Reader<'_> {
    /// Whatever is open has had no answer until here.
    pub(super) fn given_up(&mut self, event: &Event) {
        for ix in self.state.head.open.clone() {
            let (step, run) = (self.state.plan().name(ix), self.state.run(ix));
            let undo = run.state == StepState::Compensating;
            let attempt = if undo { run.undo_attempt } else { run.attempt };
            self.overdue(event, ix);
            let task = Task {
                step,
                attempt,
                undo,
            };
            self.unanswered(event, task);
        }
        if let Some(due) = self.state.deadline() {
            self.missed(event, Timer::Execution, due);
        }
    }

    /// Timers of a step whose time had come without their being fired.
    pub(super) fn overdue(&mut self, event: &Event, ix: StepIx) {
        let step = self.state.plan().name(ix);
        let run = self.state.run(ix);
        let undo = run.state == StepState::Compensating;
        let attempt = if undo { run.undo_attempt } else { run.attempt };
        let limit = match (&run.wait, undo) {
            (Some(WaitFor::Approval(_)), _) => StepTimer::Expiry,
            (_, true) => StepTimer::UndoTimeout,
            _ => StepTimer::Timeout,
        };
        let again = match (run.state, undo) {
            (_, true) => StepTimer::UndoRetry,
            (StepState::BackingOff, _) => StepTimer::Retry,
            _ => StepTimer::Sleep,
        };
        let timers = [
            (limit, run.due),
            (StepTimer::Heartbeat, run.heartbeat_due),
            (again, run.resume_at),
        ];
        for (kind, due) in timers {
            let timer = Timer::Step {
                step: Arc::clone(&step),
                attempt,
                kind,
            };
            if let Some(due) = due {
                self.missed(event, timer, due);
            }
        }
    }

    fn missed(&mut self, event: &Event, timer: Timer, due: Timestamp) {
        if due <= event.at {
            let late = (event.at.duration_since(due), u64::MAX);
            self.found.late.entry(timer).or_insert(late);
        }
    }

    /// A timer had come by the time of this event.
    pub(super) fn fired(
        &mut self,
        event: &Event,
        step: &Arc<str>,
        kind: StepTimer,
        due: impl Fn(&crate::state::StepRun) -> Option<Timestamp>,
    ) {
        let Some(ix) = self.find(step) else { return };
        let run = self.state.run(ix);
        let Some(due) = due(run) else { return };
        let undo = matches!(kind, StepTimer::UndoTimeout | StepTimer::UndoRetry);
        let timer = Timer::Step {
            step: Arc::clone(step),
            attempt: if undo { run.undo_attempt } else { run.attempt },
            kind,
        };
        let late = (event.at.duration_since(due), event.sequence);
        self.found.late.insert(timer, late);
        self.overdue(event, ix);
    }
}
