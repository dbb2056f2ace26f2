//! What people ask of an execution, and how it answers.
//!
//! A refused ask changes nothing.

use jiff::Timestamp;
use stateway_model::Payload;

use super::{Ending, Phase, Run, StepRun, StepState};

/// The most signals that may wait for a listener.
pub(crate) const MOST_SIGNALS: usize = 100;
/// The longest history. An execution that reached it cannot be sent around again.
pub(crate) const MOST_EVENTS: usize = 50_000;

/// What someone wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    Signal {
        name: String,
        payload: Option<Payload>,
    },
    Cancel {
        comment: String,
        /// Whether completed steps are rolled back first.
        compensate: bool,
    },
    Kill {
        comment: String,
    },
    Pause {
        comment: String,
    },
    Resume,
    RetryNow {
        step: String,
    },
    RetryFrom {
        step: String,
    },
}

/// Why it does not get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    AlreadyFinished,
    BeingCompensated,
    NeitherHeldNorStuck,
    NothingBacksOff,
    NothingFailed,
    NoSuchStep,
    TooManySignals,
    HistoryFull,
}

impl Run {
    /// Does what is asked, as of `now`.
    pub(crate) fn ask(&mut self, ask: &Ask, now: Timestamp) -> Result<(), Refusal> {
        self.advance(now);
        let outcome = match ask {
            Ask::Signal { name, .. } => self.signal(name, now),
            Ask::Cancel {
                comment,
                compensate,
            } => self.cancel(comment, *compensate, now),
            Ask::Kill { comment } => self.kill(comment, now),
            Ask::Pause { comment } => self.pause(comment, now),
            Ask::Resume => self.resume(now),
            Ask::RetryNow { step } => self.retry_now(step, now),
            Ask::RetryFrom { step } => self.retry_from(step, now),
        };
        self.advance(now);
        outcome
    }

    fn signal(&mut self, name: &str, now: Timestamp) -> Result<(), Refusal> {
        self.still_goes_on()?;
        if self.signals.len() >= MOST_SIGNALS {
            return Err(Refusal::TooManySignals);
        }
        self.signals.push(name.to_owned());
        self.record(now, "SignalSent", None, format!("signal {name} sent"));
        if self.held.is_none() {
            self.deliver(now);
        }
        Ok(())
    }

    fn cancel(&mut self, comment: &str, compensate: bool, now: Timestamp) -> Result<(), Refusal> {
        match self.phase {
            Phase::Over(Ending::Stopped | Ending::Killed) | Phase::Compensating(_) => Ok(()),
            Phase::Over(Ending::Done | Ending::Broken { .. }) => Err(Refusal::AlreadyFinished),
            Phase::Scheduled { .. } | Phase::Active => {
                self.held = None;
                self.record(
                    now,
                    "CancelRequested",
                    None,
                    told("cancel requested", comment),
                );
                if compensate {
                    self.wind_up(Ending::Stopped, now);
                } else {
                    self.drop_open_steps(now);
                    self.end(Ending::Stopped, now);
                }
                Ok(())
            }
        }
    }

    fn kill(&mut self, comment: &str, now: Timestamp) -> Result<(), Refusal> {
        match self.phase {
            Phase::Over(Ending::Stopped | Ending::Killed) => Ok(()),
            Phase::Over(Ending::Done | Ending::Broken { .. }) => Err(Refusal::AlreadyFinished),
            Phase::Scheduled { .. } | Phase::Active | Phase::Compensating(_) => {
                self.held = None;
                self.record(now, "KillRequested", None, told("kill requested", comment));
                self.drop_open_steps(now);
                self.end(Ending::Killed, now);
                Ok(())
            }
        }
    }

    fn pause(&mut self, comment: &str, now: Timestamp) -> Result<(), Refusal> {
        self.still_goes_on()?;
        if self.held.is_none() {
            self.held = Some(now);
            self.record(now, "ExecutionHeld", None, told("paused", comment));
        }
        Ok(())
    }

    fn resume(&mut self, now: Timestamp) -> Result<(), Refusal> {
        self.still_goes_on()?;
        let stuck: Vec<usize> = (0..self.steps.len())
            .filter(|index| self.steps[*index].state == StepState::Stuck)
            .collect();
        if self.held.is_none() && stuck.is_empty() {
            return Err(Refusal::NeitherHeldNorStuck);
        }
        self.record(now, "ExecutionResumed", None, "resumed".into());
        if let Some(since) = self.held.take() {
            let held = now.duration_since(since).unsigned_abs();
            if let Phase::Scheduled { until } = &mut self.phase {
                *until = super::after(*until, held);
            }
            for step in &mut self.steps {
                step.state.put_off(held);
            }
        }
        for index in stuck {
            self.start_attempt(index, 1, now);
        }
        for _ in 0..self.signals.len() {
            self.deliver(now);
        }
        Ok(())
    }

    fn retry_now(&mut self, step: &str, now: Timestamp) -> Result<(), Refusal> {
        self.still_goes_on()?;
        if !step.is_empty() && !self.is_in_script(step) {
            return Err(Refusal::NoSuchStep);
        }
        let resting: Vec<usize> = (0..self.steps.len())
            .filter(|index| {
                matches!(self.steps[*index].state, StepState::Resting { .. })
                    && (step.is_empty() || self.step_script(*index).name == step)
            })
            .collect();
        if resting.is_empty() || self.held.is_some() {
            return Err(Refusal::NothingBacksOff);
        }
        for index in resting {
            self.start_attempt(index, self.steps[index].attempt + 1, now);
        }
        Ok(())
    }

    /// Goes back to the stage of a step. What was done before stays in the history.
    fn retry_from(&mut self, step: &str, now: Timestamp) -> Result<(), Refusal> {
        if self.events.len() >= MOST_EVENTS {
            return Err(Refusal::HistoryFull);
        }
        if let Phase::Compensating(_) = self.phase {
            return Err(Refusal::BeingCompensated);
        }
        let stage = if step.is_empty() {
            let compensated = |step: &&StepRun| {
                matches!(
                    step.state,
                    StepState::Broken(_)
                        | StepState::Stuck
                        | StepState::Dropped
                        | StepState::Compensated
                )
            };
            let failed = self.steps.iter().find(compensated);
            failed
                .map(|step| step.stage)
                .ok_or(Refusal::NothingFailed)?
        } else {
            let reached = |index: &usize| self.step_script(*index).name == step;
            let reached = (0..self.steps.len()).find(reached);
            let index = reached.ok_or(Refusal::NoSuchStep)?;
            self.steps[index].stage
        };
        self.steps.retain(|step| step.stage < stage);
        (self.held, self.ended, self.phase) = (None, None, Phase::Active);
        let summary = format!("run again from stage {}", stage + 1);
        self.record(now, "ExecutionSentBack", None, summary);
        self.enter_stage(stage, now);
        Ok(())
    }

    fn still_goes_on(&self) -> Result<(), Refusal> {
        match self.phase {
            Phase::Scheduled { .. } | Phase::Active => Ok(()),
            Phase::Compensating(_) => Err(Refusal::BeingCompensated),
            Phase::Over(_) => Err(Refusal::AlreadyFinished),
        }
    }

    fn is_in_script(&self, name: &str) -> bool {
        let mut steps = self.script.steps.iter().flat_map(|stage| stage.steps());
        steps.any(|step| step.name == name)
    }
}

fn told(what: &str, comment: &str) -> String {
    if comment.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {comment}")
    }
}
