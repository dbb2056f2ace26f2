//! How an execution ends: open steps are dropped, steps with a compensation are rolled back.

use jiff::Timestamp;

use super::{Ending, Phase, Run, StepRun, StepState, after};

impl Run {
    /// Ends the execution, after rolling back the steps that can be rolled back.
    pub(super) fn wind_up(&mut self, ending: Ending, at: Timestamp) {
        self.drop_open_steps(at);
        self.phase = Phase::Compensating(ending);
        self.compensate_next(at);
    }

    /// Strictly in reverse order of completion, one at a time.
    pub(super) fn compensate_next(&mut self, at: Timestamp) {
        let Phase::Compensating(ending) = self.phase else {
            return;
        };
        let has_compensation = |(index, step): &(usize, &StepRun)| {
            step.state == StepState::Done && self.step_script(*index).compensation.is_some()
        };
        let last = self
            .steps
            .iter()
            .enumerate()
            .filter(has_compensation)
            .max_by_key(|(_, step)| step.completed_as)
            .map(|(index, _)| index);
        let Some(index) = last else {
            return self.end(self.compensated(ending), at);
        };
        let compensation = self.step_script(index).compensation.unwrap_or_default();
        let until = after(at, compensation.0);
        self.steps[index].state = StepState::Compensating { until };
        self.record(
            at,
            "CompensationStarted",
            Some(index),
            "compensation started".into(),
        );
    }

    fn compensated(&self, ending: Ending) -> Ending {
        let any = self
            .steps
            .iter()
            .any(|step| step.state == StepState::Compensated);
        match ending {
            Ending::Broken { cause, .. } => Ending::Broken {
                cause,
                compensated: any,
            },
            Ending::Done | Ending::Stopped | Ending::Killed => ending,
        }
    }

    pub(super) fn drop_open_steps(&mut self, at: Timestamp) {
        for step in self.steps.iter_mut().filter(|step| step.state.is_open()) {
            step.state = StepState::Dropped;
            step.ended = Some(at);
        }
    }

    pub(super) fn end(&mut self, ending: Ending, at: Timestamp) {
        self.phase = Phase::Over(ending);
        self.ended = Some(at);
        let (kind, summary) = match ending {
            Ending::Done => ("ExecutionCompleted", "completed"),
            Ending::Broken { .. } => ("ExecutionFailed", "failed"),
            Ending::Stopped => ("ExecutionStopped", "cancelled"),
            Ending::Killed => ("ExecutionKilled", "killed"),
        };
        self.record(at, kind, None, summary.into());
    }
}
