//! The trigger of a definition.

use jiff::Timestamp;
use serde::Serialize;
use stateway_client::v1;

use super::{Text, timestamp};

/// The trigger of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Trigger, explained there"
)]
pub struct Trigger {
    pub name: Text,
    pub event: Text,
    pub condition: Text,
    pub schedule: Text,
    pub timezone: Text,
    pub next_start_time: Option<Timestamp>,
    pub disabled: Option<DisabledTrigger>,
}

/// Who disabled a trigger, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.DisabledTrigger, explained there"
)]
pub struct DisabledTrigger {
    pub disabled_by: Text,
    pub disable_time: Option<Timestamp>,
    pub comment: Text,
}

impl Trigger {
    /// What starts executions, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        if !self.event.is_empty() {
            parts.push(format!("event {}", self.event));
        }
        if !self.condition.is_empty() {
            parts.push(format!("if {}", self.condition));
        }
        if !self.schedule.is_empty() {
            let zone = match self.timezone.raw() {
                "" => "UTC".to_owned(),
                _ => self.timezone.to_string(),
            };
            parts.push(format!("schedule {} ({zone})", self.schedule));
        }
        parts.join(", ")
    }
}

impl DisabledTrigger {
    /// One line: who disabled the trigger, when and why.
    #[must_use]
    pub fn summary(&self) -> String {
        format!("disabled {}", self.by_whom())
    }

    /// Who, when and why.
    #[must_use]
    pub fn by_whom(&self) -> String {
        let mut text = format!("by {}", self.disabled_by);
        if let Some(time) = self.disable_time {
            text = format!("{text} at {}", crate::screen::stamp(time));
        }
        if !self.comment.is_empty() {
            text = format!("{text}: {}", self.comment);
        }
        text
    }
}

impl From<&v1::Trigger> for Trigger {
    fn from(wire: &v1::Trigger) -> Self {
        Self {
            name: (&wire.name).into(),
            event: (&wire.event).into(),
            condition: (&wire.condition).into(),
            schedule: (&wire.schedule).into(),
            timezone: (&wire.timezone).into(),
            next_start_time: timestamp(wire.next_start_time.as_ref()),
            disabled: wire.disabled.as_ref().map(DisabledTrigger::from),
        }
    }
}

impl From<&v1::DisabledTrigger> for DisabledTrigger {
    fn from(wire: &v1::DisabledTrigger) -> Self {
        Self {
            disabled_by: (&wire.disabled_by).into(),
            disable_time: timestamp(wire.disable_time.as_ref()),
            comment: (&wire.comment).into(),
        }
    }
}
