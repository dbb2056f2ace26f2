//! The canonical sequence of a history: what every engine that runs a definition is held to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stateway_model::{Reason, SubState};

use stateway_machine::{Event, Plan, State, sub_state};

/// A history as a sequence of (step, attempt, sub-state, reason), without times.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trajectory {
    /// The points, in the order they were reached.
    pub points: Vec<Point>,
}

/// One point: the state of a step or of the execution changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// The step; empty for the execution itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// The attempt, from 1; 0 for the execution itself and for steps left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Where it is now.
    pub sub_state: SubState,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

impl Trajectory {
    /// The trajectory of a log.
    #[must_use]
    pub fn of<'e>(plan: Arc<Plan>, events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut tracer = Tracer {
            state: State::new(plan),
            last: BTreeMap::new(),
            points: Vec::new(),
        };
        for event in events {
            tracer.next(event);
        }
        Self {
            points: tracer.points,
        }
    }

    /// The same points step by step: parallel steps may interleave in any order, so it is this
    /// form in which two engines must agree.
    #[must_use]
    pub fn by_step(&self) -> Self {
        let mut points = self.points.clone();
        points.sort_by(|left, right| left.step.cmp(&right.step));
        Self { points }
    }
}

/// Follows a log and notes what changes.
struct Tracer {
    state: State,
    last: BTreeMap<String, Point>,
    points: Vec<Point>,
}

impl Tracer {
    fn next(&mut self, event: &Event) {
        for step in self.state.apply_touching(event) {
            if let Some(point) = self.step(&step) {
                self.note(point);
            }
        }
        let (sub_state, reason) = sub_state(&self.state);
        self.note(Point {
            step: String::new(),
            attempt: 0,
            sub_state,
            reason,
        });
    }

    fn step(&self, step: &str) -> Option<Point> {
        let (sub_state, reason) = self.state.step_sub_state(step)?;
        // A failure whose consequence follows in the same breath is not a place to be.
        if reason == Some(Reason::FailurePending) {
            return None;
        }
        Some(Point {
            step: step.to_owned(),
            attempt: self.state.step(step)?.attempt,
            sub_state,
            reason,
        })
    }

    fn note(&mut self, point: Point) {
        if self.last.get(&point.step) != Some(&point) {
            self.last.insert(point.step.clone(), point.clone());
            self.points.push(point);
        }
    }
}

const fn is_zero(attempt: &u32) -> bool {
    *attempt == 0
}

impl fmt::Display for Trajectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Point {
            step,
            attempt,
            sub_state,
            reason,
        } in &self.points
        {
            let step = if step.is_empty() { "·" } else { step };
            let reason = reason.map_or("", Reason::as_str);
            writeln!(
                f,
                "{}",
                format!("{step} {attempt} {sub_state} {reason}").trim_end()
            )?;
        }
        Ok(())
    }
}
