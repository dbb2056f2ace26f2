//! The result of a recorded run under another definition.
//!
//! The definition is run from the beginning on what the log recorded: the same workers take the same
//! attempts after the same time, lose them or answer them, and children, people and policy rules
//! decide as they did; the same signals come. No work is done and no answer is invented: a step for
//! which no answer is recorded stays open, and is named. The recorded log is only read.
//!
//! Known limit: the cost of a branch that was left counts against a budget from the command after the
//! branch on. A child that starts with the last command before it is not limited by that cost.

mod account;
mod compare;
mod drive;
mod recorded;
mod straight;
mod window;

mod limit {
    /// The most events a shadow may have; a run that has more does not end.
    pub(super) const MOST_EVENTS: usize = 200_000;
}

use std::fmt;
use std::sync::Arc;

use stateway_model::words;

use stateway_machine::{Event, Plan, ReplayError, State, replay};

/// A shadow run and how it compares.
#[derive(Debug, Clone, PartialEq)]
pub struct Shadow {
    /// Where the shadow is in the end.
    pub state: State,
    /// Its log.
    pub events: Vec<Event>,
    /// Where it differs from the recorded run, in the order of that run; the outcome last.
    pub divergences: Vec<Divergence>,
    /// Steps that are open in the shadow because nothing is recorded that would end them.
    pub unrecorded: Vec<Unrecorded>,
    /// Both runs, step by step.
    pub steps: Vec<StepRow>,
    /// How the recorded run ended, in words.
    pub recorded_outcome: String,
    /// How the shadow ended, in words.
    pub derived_outcome: String,
    /// Events of the recorded run that no shadow follows.
    pub notes: Vec<String>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// What differs.
    pub kind: DivergenceKind,
    /// The recorded event where it shows first; 0 when it shows at none.
    pub sequence: u64,
    /// The step; empty for the execution as a whole.
    pub step: Arc<str>,
    /// What the recorded run did.
    pub recorded: String,
    /// What the shadow does.
    pub derived: String,
}

words! {
    /// What differs.
    pub enum DivergenceKind as "kind of divergence" {
        /// Steps start in another order.
        Order = "order",
        /// Something else happens to a step.
        Path = "path",
        /// A step is retried more often, or less often.
        Retries = "retries",
        /// A step is retried after another delay.
        BackOff = "back_off",
        /// A step has another input.
        Input = "input",
        /// Only the new definition has the step.
        StepAdded = "step_added",
        /// Only the old definition has the step.
        StepRemoved = "step_removed",
        /// The shadow rejects a command that the recorded run accepted.
        Refused = "refused",
        /// The execution ends differently.
        Outcome = "outcome",
    }
}

/// Something without a recorded end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    /// The step; empty when the execution itself is paused.
    pub step: Arc<str>,
    /// Its attempt.
    pub attempt: u32,
    /// Whether the step is being compensated.
    pub undo: bool,
    /// What is missing.
    pub why: String,
}

/// One step in both runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    /// The step.
    pub step: Arc<str>,
    /// What the recorded run did with it; empty when nothing.
    pub recorded: String,
    /// What the shadow does with it; empty when nothing.
    pub derived: String,
}

/// Runs a definition on the results that the log of another revision recorded. The same log and plans always give the
/// same answer.
///
/// # Errors
/// A log that is not whole, or not of the plan it was recorded with.
pub fn rederive(
    recorded_with: &Arc<Plan>,
    events: &[Event],
    plan: &Arc<Plan>,
) -> Result<Shadow, ReplayError> {
    let last = replay(Arc::clone(recorded_with), events)?;
    let events = &straight::straight(events)[..];
    let found = recorded::of(recorded_with, events);
    // A revision that the recorded run adopted is the one that checked its later attempts.
    let (old, new) = (last.plan(), plan);
    let same_schema = |step: &str| schema(old, step) == schema(new, step);
    let driven = drive::drive(plan, found, same_schema);
    let was = account::of(recorded_with, events);
    let is = account::of(plan, &driven.events);
    let sides = compare::Sides {
        was: &was,
        is: &is,
        old,
        new,
        driven: &driven,
    };
    let mut notes = compare::notes(events);
    if driven.endless {
        notes.push(format!(
            "the shadow was stopped after {} events",
            driven.events.len()
        ));
    }
    Ok(Shadow {
        divergences: compare::divergences(&sides),
        steps: compare::rows(&sides),
        recorded_outcome: compare::ending(&was, &[]),
        derived_outcome: compare::ending(&is, &driven.unrecorded),
        notes,
        state: driven.state,
        events: driven.events,
        unrecorded: driven.unrecorded,
    })
}

fn schema<'p>(plan: &'p Plan, step: &str) -> Option<&'p serde_json::Value> {
    plan.step_definition(step)?.output_schema.as_ref()
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            step,
            recorded,
            derived,
            ..
        } = self;
        if step.is_empty() {
            return write!(f, "{kind}: {recorded}; in the shadow: {derived}");
        }
        write!(
            f,
            "{kind} of `{step}`: {recorded}; in the shadow: {derived}"
        )
    }
}

impl fmt::Display for Unrecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.step.is_empty() {
            return f.write_str(&self.why);
        }
        let undo = if self.undo { ", compensation" } else { "" };
        let Self {
            step, attempt, why, ..
        } = self;
        write!(f, "`{step}`{undo}, attempt {attempt}: {why}")
    }
}
