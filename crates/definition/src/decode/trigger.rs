//! The `trigger` block.

use super::fields::Fields;
use crate::diagnostic::Problems;
use crate::reference::Root;
use crate::rule::Rule;
use crate::shape::TRIGGER;
use crate::source::Node;
use crate::{Condition, Schedule, ScheduleError, Trigger};

pub(super) fn trigger(node: &Node, problems: &mut Problems) -> Option<Trigger> {
    let fields = Fields::read(node, &TRIGGER, problems)?;
    let trigger = Trigger {
        event: fields.text("event", problems).unwrap_or_default(),
        condition: condition(&fields, problems),
        schedule: schedule(&fields, problems),
    };
    for (needless, needed) in [("timezone", "schedule"), ("condition", "event")] {
        if let Some(node) = fields.get(needless).filter(|_| !fields.has(needed)) {
            let message = format!("`{needless}` has no effect without `{needed}`");
            let hint = format!("Add `{needed}`, or remove `{needless}`.");
            problems.warning(Rule::Contradiction, node.at, message, hint);
        }
    }
    Some(trigger)
}

fn condition(fields: &Fields<'_>, problems: &mut Problems) -> Option<Condition> {
    let node = fields.get("condition")?;
    let source = fields.text("condition", problems)?;
    let hint = "Compare what the event carries: `${event.total} > 100`.";
    let condition = match Condition::parse(&source) {
        Ok(condition) => condition,
        Err(reason) => {
            problems.error(Rule::BadCondition, node.at, reason, hint);
            return None;
        }
    };
    let other = condition
        .references()
        .into_iter()
        .find(|reference| reference.root != Root::Event)
        .map(ToString::to_string);
    if let Some(other) = other {
        let message = format!("`${{{other}}}` is not known before an execution has started");
        problems.error(Rule::BadReference, node.at, message, hint);
        return None;
    }
    Some(condition)
}

fn schedule(fields: &Fields<'_>, problems: &mut Problems) -> Option<Schedule> {
    let node = fields.get("schedule")?;
    let source = fields.text("schedule", problems)?;
    let zone = match fields.get("timezone") {
        Some(_) => Some(fields.text("timezone", problems)?),
        None => None,
    };
    match Schedule::parse(&source, zone.as_deref()) {
        Ok(schedule) => Some(schedule),
        Err(error) => {
            let (at, hint) = match &error {
                ScheduleError::Fields(_) => (
                    node.at,
                    "Write minute, hour, day of month, month and day of week: `30 9 * * mon-fri`.",
                ),
                ScheduleError::TimeZone(_) => (
                    fields.get("timezone").map_or(node.at, |node| node.at),
                    "Use an IANA name such as `Europe/Berlin` or `America/New_York`.",
                ),
            };
            problems.error(Rule::BadSchedule, at, error.to_string(), hint);
            None
        }
    }
}
