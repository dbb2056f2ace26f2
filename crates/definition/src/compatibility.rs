//! Whether a running execution can continue under another revision.
//!
//! The rule: a step that has begun stays as it was. Every step that is no longer pending must be
//! in the new revision, unchanged, and so must its compensation. Steps that have not begun may be
//! added, changed or removed, and so may the fields of the workflow itself, except for approvals,
//! escalation roles and budgets (`guard`). This allows the common changes (a new step at the end, a
//! longer timeout of a later step), and the work that was done is still explained by one definition.

mod difference;
mod guard;

pub use guard::{Standing, guard_conflicts};

use crate::limits::MAX_CONFLICTS;
use crate::{Compensation, Definition, Step};
use difference::{compensation_fields, differences, step_fields};

/// Why an execution cannot continue under another revision. Empty: it can.
///
/// `begun` answers whether the step of that name has left `pending`. Each conflict names the fields
/// that differ, with both values.
#[must_use]
pub fn conflicts(old: &Definition, new: &Definition, begun: &dyn Fn(&str) -> bool) -> Vec<String> {
    let found: Vec<String> = old
        .steps
        .iter()
        .filter(|step| begun(&step.name))
        .filter_map(|step| conflict(step, old, new))
        .collect();
    bounded(found, "steps that have begun")
}

fn bounded(mut found: Vec<String>, what: &str) -> Vec<String> {
    let more = found.len().saturating_sub(MAX_CONFLICTS);
    if more > 0 {
        found.truncate(MAX_CONFLICTS);
        found.push(format!("{more} more {what} are different"));
    }
    found
}

fn conflict(step: &Step, old: &Definition, new: &Definition) -> Option<String> {
    let name = &step.name;
    match new.step(name) {
        None => Some(format!(
            "step `{name}` has begun and is not in the new revision"
        )),
        Some(other) if other != step => Some(format!(
            "step `{name}` has begun and is different in the new revision: {}",
            differences(&step_fields(step), &step_fields(other))
        )),
        Some(_) => {
            compensation_conflict(name, old.compensation_of(name), new.compensation_of(name))
        }
    }
}

fn compensation_conflict(
    name: &str,
    old: Option<&Compensation>,
    new: Option<&Compensation>,
) -> Option<String> {
    match (old, new) {
        (Some(old), Some(new)) if old != new => Some(format!(
            "the compensation of step `{name}` is different in the new revision: {}",
            differences(&compensation_fields(old), &compensation_fields(new))
        )),
        (Some(_), None) => Some(format!(
            "the compensation of step `{name}` is not in the new revision"
        )),
        (None, Some(_)) => Some(format!(
            "step `{name}` has begun and has a compensation only in the new revision"
        )),
        _ => None,
    }
}
