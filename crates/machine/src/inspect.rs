//! Access to the steps of a state for crates that follow a log event by event, such as
//! `stateway-replay`. A host does not need this: it works with obligations.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use stateway_model::{Reason, SubState, Usage};

use crate::event::WaitFor;
use crate::evolve::spent;
use crate::plan::StepIx;
use crate::state::tidy;
use crate::view::step_sub_state;
use crate::{Event, State, StepState, StepTimer};

/// One step at one point of the log.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // Fields without a comment are named after their content.
pub struct StepAt<'s> {
    pub name: &'s Arc<str>,
    pub state: StepState,
    /// The newest attempt; 0 before the first.
    pub attempt: u32,
    /// The newest attempt to compensate the step; 0 before the first.
    pub undo_attempt: u32,
    /// Failed attempts since the step was last started afresh.
    pub failures: u32,
    /// When the step entered its present state.
    pub since: Option<Timestamp>,
    /// The attempt that the timers belong to: the newest one, or the newest one to compensate.
    pub timed_attempt: u32,
    /// The timers of the step and the times they are set for, whether or not the execution lets them
    /// fire now: the time limit, the limit of the queue, the heartbeat, the next start.
    pub timers: [(StepTimer, Option<Timestamp>); 4],
    /// When the attempt or the wait times out.
    pub due: Option<Timestamp>,
    /// Whether `due` was set when a worker took the attempt.
    pub timed: bool,
    /// When the attempt fails if no worker takes it.
    pub queue_due: Option<Timestamp>,
    /// When the next attempt starts, or a sleep ends.
    pub resume_at: Option<Timestamp>,
    pub wait: Option<&'s WaitFor>,
    pub worker: Option<&'s Arc<str>>,
    /// The role that decides while the step is escalated.
    pub escalation_role: Option<&'s Arc<str>>,
    /// A policy rule's request expired; the next attempt asks for the approval again.
    pub asks_again: bool,
    pub skipped_by_failure: bool,
    /// The compensation of the step has begun.
    pub undoing: bool,
    /// It is unknown whether the step completed.
    pub unknown: bool,
    /// Something of the step is under way.
    pub open: bool,
    /// The step failed and the consequence of the failure is not decided.
    pub unsettled: bool,
    /// The execution is paused because the step failed.
    pub parked: bool,
}

impl State {
    /// A step at this point of the log.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<StepAt<'_>> {
        self.plan().find(name).map(|ix| self.step_at(ix))
    }

    /// Every step at this point of the log, in the order of the definition.
    pub fn steps(&self) -> impl Iterator<Item = StepAt<'_>> {
        self.plan().steps().map(|(ix, _)| self.step_at(ix))
    }

    /// The sub-state of a step, with its reason; none before the step starts.
    #[must_use]
    pub fn step_sub_state(&self, name: &str) -> Option<(SubState, Option<Reason>)> {
        step_sub_state(self, self.plan().find(name)?)
    }

    /// Applies an event. Returns the steps that the event may have changed, in the order of the
    /// definition.
    pub fn apply_touching(&mut self, event: &Event) -> Vec<Arc<str>> {
        let mut touched = self.astir();
        self.apply(event);
        let named = event.fact.step().and_then(|step| self.plan().find(step));
        touched.extend(named);
        tidy(&mut touched, self);
        touched.iter().map(|ix| self.plan().name(*ix)).collect()
    }

    /// Since when the execution is paused or escalated.
    #[must_use]
    pub const fn paused_since(&self) -> Option<Timestamp> {
        self.head.paused_since
    }

    /// Replaces the list of people who had a part of the execution run again. Only for a shadow of
    /// the execution: the log does not record the change.
    pub fn set_redone_by(&mut self, people: Vec<Arc<str>>) {
        self.head.redone_by = people;
    }

    /// Sets the time of the newest event. Only for a shadow of the execution: the log does not
    /// record the change.
    pub const fn set_updated(&mut self, at: Timestamp) {
        self.head.times.updated = Some(at);
    }

    /// Adds the usage of an abandoned branch. Only for a shadow of the execution: the log does not
    /// record the change.
    pub fn add_spent(&mut self, whole: Usage, by_step: &BTreeMap<Arc<str>, Usage>) {
        spent(self, whole, by_step);
    }

    /// Removes all usage, as a fork does. Only for a shadow of the execution: the log does not record
    /// the change.
    pub fn clear_usage(&mut self) {
        (self.head.spent, self.head.usage) = (Usage::default(), Usage::default());
        for run in &mut self.steps {
            (run.usage, run.spent) = (Usage::default(), Usage::default());
        }
    }

    fn step_at(&self, ix: StepIx) -> StepAt<'_> {
        let (head, run) = (&self.head, self.run(ix));
        let listed = |list: &[StepIx]| list.binary_search(&ix).is_ok();
        StepAt {
            name: &self.head.plan.step(ix).name,
            state: run.state,
            attempt: run.attempt,
            undo_attempt: run.undo_attempt,
            failures: run.failures,
            since: run.since,
            timed_attempt: run.timed_attempt(),
            timers: run.timers(),
            due: run.due,
            timed: run.timed,
            queue_due: run.queue_due,
            resume_at: run.resume_at,
            wait: run.wait.as_ref(),
            worker: run.worker.as_ref(),
            escalation_role: run.escalation_role.as_ref(),
            asks_again: run.ask_again.is_some(),
            skipped_by_failure: run.skipped_by_failure,
            undoing: run.undoing,
            unknown: run.unknown,
            open: listed(&head.open),
            unsettled: listed(&head.unsettled),
            parked: listed(&head.parked),
        }
    }
}
