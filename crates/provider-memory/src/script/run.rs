//! One execution of a script: what happens as time passes.
//!
//! Time acts only through [`Run::advance`]. Requests of callers are in [`ask`](super::ask).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use stateway_model::{AttemptPhase, Event, ExecutionError, Payload};

use super::{
    Cause, Ending, Phase, Script, StepRun, StepScript, StepState, WaitFor, WhenExhausted, after,
};

/// The longest delay between attempts, whatever the factor makes of it.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 24 * 3600);

/// One execution of a script, as of its last read.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) script: Arc<Script>,
    /// What it answers in the end.
    pub(crate) output: Option<Payload>,
    pub(crate) phase: Phase,
    /// Paused manually since then.
    pub(crate) held: Option<Timestamp>,
    /// The steps that were reached, in the order they were.
    pub(crate) steps: Vec<StepRun>,
    pub(super) stage: usize,
    /// Signals that no step has taken yet.
    pub(super) signals: Vec<String>,
    /// How often each step failed, by stage and place. It outlives being sent back, so that a
    /// step that fails three times does not fail three times more.
    failures: BTreeMap<(usize, usize), u32>,
    pub(crate) events: Vec<Event>,
    pub(crate) created: Timestamp,
    pub(crate) started: Option<Timestamp>,
    pub(crate) updated: Timestamp,
    pub(crate) ended: Option<Timestamp>,
}

impl Run {
    pub(crate) fn new(script: Arc<Script>, now: Timestamp, delay: Option<Duration>) -> Self {
        let until = after(now, delay.unwrap_or_default());
        let output = script.output.as_ref();
        let mut run = Self {
            output: output.map(|output| Payload::json(output.to_string())),
            script,
            phase: Phase::Scheduled { until },
            held: None,
            steps: Vec::new(),
            stage: 0,
            signals: Vec::new(),
            failures: BTreeMap::new(),
            events: Vec::new(),
            created: now,
            started: None,
            updated: now,
            ended: None,
        };
        run.record(now, "ExecutionAccepted", None, "accepted".into());
        run.advance(now);
        run
    }

    /// Changes whenever anything does.
    pub(crate) fn revision(&self) -> usize {
        self.events.len()
    }

    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// When it moves next by itself.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        if self.held.is_some() {
            return None;
        }
        match self.phase {
            Phase::Scheduled { until } => Some(until),
            Phase::Active | Phase::Compensating(_) => {
                self.steps.iter().filter_map(|step| step.state.due()).min()
            }
            Phase::Over(_) => None,
        }
    }

    /// Lets time pass. Ends because every move leaves fewer moves to make: attempts are bounded.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            if let Phase::Scheduled { .. } = self.phase {
                self.begin(due);
                continue;
            }
            let moving = self
                .steps
                .iter()
                .position(|step| step.state.due() == Some(due));
            if let Some(index) = moving {
                self.move_step(index, due);
            }
        }
    }

    fn begin(&mut self, at: Timestamp) {
        self.phase = Phase::Active;
        self.started = Some(at);
        self.record(at, "ExecutionStarted", None, "started".into());
        if self.script.pose.is_none() {
            self.enter_stage(0, at);
        }
    }

    pub(super) fn enter_stage(&mut self, stage: usize, at: Timestamp) {
        self.stage = stage;
        let script = self.script.clone();
        let first = self.steps.len();
        for (place, step) in script.steps[stage].steps().iter().enumerate() {
            self.steps.push(StepRun {
                stage,
                place,
                state: StepState::Stuck,
                attempt: 0,
                last_error: None,
                started: at,
                ended: None,
                completed_as: None,
            });
            let index = self.steps.len() - 1;
            self.record(
                at,
                "StepEntered",
                Some(index),
                format!("{} begins", step.name),
            );
        }
        for index in first..self.steps.len() {
            self.enter_step(index, at);
        }
    }

    fn enter_step(&mut self, index: usize, at: Timestamp) {
        match self.step_script(index).waits_for.clone() {
            None => self.start_attempt(index, 1, at),
            Some(WaitFor::Timer { timer }) => {
                let until = after(at, timer.0);
                self.steps[index].state = StepState::Sleeping { since: at, until };
            }
            Some(WaitFor::Capacity { capacity }) => {
                let until = after(at, capacity.0);
                self.steps[index].state = StepState::Queued { since: at, until };
            }
            Some(WaitFor::Signal { expires_after, .. }) => {
                let deadline = expires_after.map(|expiry| after(at, expiry.0));
                let since = at;
                self.steps[index].state = StepState::Listening { since, deadline };
                self.deliver(at);
            }
        }
    }

    /// Hands the oldest buffered signal that a step listens to, to the first such step.
    pub(super) fn deliver(&mut self, at: Timestamp) {
        let listening = |run: &Self| {
            run.steps.iter().enumerate().find_map(|(index, step)| {
                let StepState::Listening { .. } = step.state else {
                    return None;
                };
                let Some(WaitFor::Signal { signal, .. }) = &run.step_script(index).waits_for else {
                    return None;
                };
                let place = run.signals.iter().position(|sent| sent == signal)?;
                Some((index, place))
            })
        };
        if let Some((index, place)) = listening(self) {
            let signal = self.signals.remove(place);
            let summary = format!("signal {signal} received");
            self.record(at, "SignalReceived", Some(index), summary);
            self.start_attempt(index, 1, at);
        }
    }

    pub(super) fn start_attempt(&mut self, index: usize, attempt: u32, at: Timestamp) {
        let until = after(at, self.step_script(index).takes.0);
        let step = &mut self.steps[index];
        step.attempt = attempt;
        step.state = StepState::Working { until };
        let summary = format!("attempt {attempt} started");
        self.record(at, "AttemptStarted", Some(index), summary);
    }

    fn move_step(&mut self, index: usize, at: Timestamp) {
        match self.steps[index].state {
            StepState::Queued { .. } | StepState::Sleeping { .. } => {
                self.start_attempt(index, 1, at);
            }
            StepState::Resting { .. } => {
                self.start_attempt(index, self.steps[index].attempt + 1, at);
            }
            StepState::Working { .. } => self.end_attempt(index, at),
            StepState::Listening { .. } => {
                self.fail_attempt(index, at, "no signal in time");
                self.break_step(index, Cause::Expired, at);
            }
            StepState::Compensating { .. } => {
                self.steps[index].state = StepState::Compensated;
                self.record(at, "StepCompensated", Some(index), "compensated".into());
                self.compensate_next(at);
            }
            StepState::Stuck
            | StepState::Done
            | StepState::Broken(_)
            | StepState::Compensated
            | StepState::Dropped => {}
        }
    }

    fn end_attempt(&mut self, index: usize, at: Timestamp) {
        let script = self.step_script(index).clone();
        let key = (self.steps[index].stage, self.steps[index].place);
        if self.failures.get(&key).copied().unwrap_or(0) >= script.fails {
            return self.complete_step(index, at);
        }
        self.fail_attempt(index, at, &script.error.message);
        let attempt = self.steps[index].attempt;
        if script.error.fails_for_good {
            self.break_step(index, Cause::Refused, at);
        } else if attempt < script.retry.max_attempts {
            let delay = delay(&script, attempt);
            let until = after(at, delay);
            self.steps[index].state = StepState::Resting { until, delay };
            let summary = format!("attempt {} at {until}", attempt + 1);
            self.record(at, "AttemptScheduled", Some(index), summary);
        } else {
            match script.when_exhausted {
                WhenExhausted::Fail => self.break_step(index, Cause::Exhausted, at),
                WhenExhausted::Stick => {
                    self.steps[index].state = StepState::Stuck;
                    self.record(at, "StepStuck", Some(index), "no attempt is left".into());
                }
            }
        }
    }

    fn fail_attempt(&mut self, index: usize, at: Timestamp, message: &str) {
        let script = self.step_script(index);
        let error = ExecutionError {
            step: script.name.clone(),
            message: message.to_owned(),
            native_code: String::new(),
            category: script.error.category,
            attempt: self.steps[index].attempt,
            at: Some(at),
        };
        let step = &mut self.steps[index];
        step.last_error = Some(error);
        *self.failures.entry((step.stage, step.place)).or_default() += 1;
        self.record(at, "AttemptFailed", Some(index), message.to_owned());
    }

    fn complete_step(&mut self, index: usize, at: Timestamp) {
        let order = self.steps.iter().filter_map(|step| step.completed_as).max();
        let step = &mut self.steps[index];
        step.state = StepState::Done;
        step.ended = Some(at);
        step.completed_as = Some(order.map_or(0, |order| order + 1));
        self.record(at, "StepCompleted", Some(index), "completed".into());
        let stage_done = |step: &StepRun| step.stage != self.stage || step.state == StepState::Done;
        if !self.steps.iter().all(stage_done) {
            return;
        }
        if self.stage + 1 < self.script.steps.len() {
            self.enter_stage(self.stage + 1, at);
        } else {
            self.end(Ending::Done, at);
        }
    }

    fn break_step(&mut self, index: usize, cause: Cause, at: Timestamp) {
        self.steps[index].state = StepState::Broken(cause);
        self.steps[index].ended = Some(at);
        let summary = format!("failed: {}", cause.as_str());
        self.record(at, "StepFailed", Some(index), summary);
        self.wind_up(
            Ending::Broken {
                cause,
                compensated: false,
            },
            at,
        );
    }

    pub(crate) fn step_script(&self, index: usize) -> &StepScript {
        let step = &self.steps[index];
        &self.script.steps[step.stage].steps()[step.place]
    }

    pub(super) fn record(
        &mut self,
        at: Timestamp,
        native_type: &str,
        step: Option<usize>,
        summary: String,
    ) {
        self.updated = at;
        let (name, attempt) = step.map_or((String::new(), 0), |index| {
            (
                self.step_script(index).name.clone(),
                self.steps[index].attempt,
            )
        });
        self.events.push(Event {
            sequence: self.events.len() as u64 + 1,
            time: Some(at),
            native_type: native_type.to_owned(),
            step: name,
            attempt,
            summary,
            phase: phase(native_type),
            detail: None,
        });
    }
}

fn phase(native_type: &str) -> Option<AttemptPhase> {
    match native_type {
        "AttemptStarted" => Some(AttemptPhase::Started),
        "AttemptFailed" => Some(AttemptPhase::Failed),
        "StepCompleted" => Some(AttemptPhase::Succeeded),
        "CompensationStarted" => Some(AttemptPhase::CompensationStarted),
        "StepCompensated" => Some(AttemptPhase::Compensated),
        _ => None,
    }
}

fn delay(script: &StepScript, attempt: u32) -> Duration {
    let exponent = i32::try_from(attempt - 1).unwrap_or(i32::MAX);
    let seconds = script.retry.delay.0.as_secs_f64() * script.retry.factor.powi(exponent);
    Duration::try_from_secs_f64(seconds).map_or(LONGEST_DELAY, |delay| delay.min(LONGEST_DELAY))
}
