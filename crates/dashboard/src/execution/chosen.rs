//! What the address of the page has chosen: a step, one of its attempts, an event.

use crate::executions::ExecutionPath;
use crate::fields::{Fields, link};

/// Nothing, a step, an attempt of a step, or an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) step: String,
    /// The number of the attempt; 0 for the step as a whole.
    pub(super) attempt: i32,
    /// The number of the event; 0 for none.
    pub(super) event: i64,
}

impl Chosen {
    pub(super) fn of(fields: &Fields) -> Self {
        Self {
            step: fields.get("step").to_owned(),
            attempt: fields.get("attempt").parse().unwrap_or_default(),
            event: fields.get("event").parse().unwrap_or_default(),
        }
    }

    /// The fields of an address that chooses the same.
    pub(super) fn address(&self, path: &str, events: &str) -> String {
        let number = |number: i64| match number {
            0 => String::new(),
            number => number.to_string(),
        };
        link(
            path,
            &[
                ("events", events),
                ("step", &self.step),
                ("attempt", &number(self.attempt.into())),
                ("event", &number(self.event)),
            ],
        )
    }
}

/// The page of a step, or of one of its attempts (0: of the step as a whole).
pub(super) fn step_link(path: &ExecutionPath, step: &str, attempt: i32) -> String {
    let chosen = Chosen {
        step: step.to_owned(),
        attempt,
        event: 0,
    };
    format!("{}#step", chosen.address(&path.path(), ""))
}

/// The page of an event. `events` is the page of the history that stays open.
pub(super) fn event_link(path: &ExecutionPath, event: i64, events: &str) -> String {
    let chosen = Chosen {
        event,
        ..Chosen::default()
    };
    format!("{}#event", chosen.address(&path.path(), events))
}
