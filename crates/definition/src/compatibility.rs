//! May a running execution go on with another revision?
//!
//! The rule: whatever has begun stays as it was. Every step that is no longer pending must be in
//! the new revision, unchanged, and so must its compensation. Steps that have not begun may be
//! added, changed or removed. That covers what people do all the time (adding a step at the end,
//! raising a timeout ahead) and leaves what was done explainable by one definition.

use crate::{Definition, Step};

/// Why an execution cannot go on with another revision. Empty: it can.
///
/// `begun` tells whether the step of that name has left `pending`.
#[must_use]
pub fn conflicts(old: &Definition, new: &Definition, begun: &dyn Fn(&str) -> bool) -> Vec<String> {
    old.steps
        .iter()
        .filter(|step| begun(&step.name))
        .filter_map(|step| conflict(step, old, new))
        .collect()
}

fn conflict(step: &Step, old: &Definition, new: &Definition) -> Option<String> {
    let name = &step.name;
    match new.step(name) {
        None => Some(format!(
            "step `{name}` has begun and is not in the new revision"
        )),
        Some(other) if other != step => Some(format!(
            "step `{name}` has begun and is different in the new revision"
        )),
        Some(_) if old.compensation_of(name) != new.compensation_of(name) => Some(format!(
            "the compensation of `{name}` is different in the new revision"
        )),
        Some(_) => None,
    }
}
