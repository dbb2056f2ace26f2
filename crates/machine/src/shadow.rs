//! What would have come of a recorded run under another definition.
//!
//! The definition is run from the beginning on what the log recorded: the same answers of workers,
//! children and people, after the same time, the same signals. Nothing is done and nothing is made
//! up: a step for which no answer is recorded stays open, and is named. The recorded log is only
//! read.

mod account;
mod compare;
mod drive;
mod recorded;
mod straight;

mod limit {
    /// The most events a shadow may have; a run that has more does not end.
    pub(super) const MOST_EVENTS: usize = 200_000;
}

use std::fmt;
use std::sync::Arc;

use stateway_model::words;

use crate::plan::Plan;
use crate::replay::{ReplayError, replay};
use crate::{Event, State};

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shadow {
    /// Where the shadow is in the end.
    pub state: State,
    /// Its log.
    pub events: Vec<Event>,
    /// Where it differs from the recorded run, in the order of that run; the outcome last.
    pub divergences: Vec<Divergence>,
    /// What is open in the shadow because nothing is recorded that would end it.
    pub unrecorded: Vec<Unrecorded>,
    /// Both runs, step by step.
    pub steps: Vec<StepRow>,
    /// How the recorded run ended, in words.
    pub recorded_outcome: String,
    /// How the shadow ended, in words.
    pub derived_outcome: String,
    /// What the recorded run did that no shadow follows.
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
        /// Steps begin in another order.
        Order = "order",
        /// Something else happens to a step.
        Path = "path",
        /// A step is tried more often, or less.
        Retries = "retries",
        /// A step is tried again after another time.
        BackOff = "back_off",
        /// A step is given something else.
        Input = "input",
        /// Only the new definition has the step.
        StepAdded = "step_added",
        /// Only the old definition has the step.
        StepRemoved = "step_removed",
        /// What was done to the recorded run cannot be done to the shadow.
        Refused = "refused",
        /// The execution ends otherwise.
        Outcome = "outcome",
    }
}

/// Something without a recorded end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    /// The step; empty when the execution itself is held.
    pub step: Arc<str>,
    /// Its attempt.
    pub attempt: u32,
    /// Whether it is being undone.
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

/// Runs a plan on what the log of another plan recorded. The same log and plans always give the
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
    // What the recorded run went over to is what its later attempts were checked by.
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
    let ix = plan.find(step)?;
    plan.define(ix).output_schema.as_ref()
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
        let undo = if self.undo { ", undo" } else { "" };
        let Self {
            step, attempt, why, ..
        } = self;
        write!(f, "`{step}`{undo}, attempt {attempt}: {why}")
    }
}
