//! A compensation names an existing step that changes something; a step has at most one.

use std::collections::BTreeSet;

use super::graph::meant;
use crate::decode::Draft;
use crate::diagnostic::Problems;
use crate::rule::Rule;

pub(super) fn check(draft: &Draft, problems: &mut Problems) {
    let definition = &draft.definition;
    let mut seen = BTreeSet::new();
    for (compensation, at) in definition.compensation.iter().zip(&draft.compensation) {
        let name = &compensation.step;
        let Some(step) = definition.step(name) else {
            problems.error(
                Rule::CompensationStep,
                *at,
                format!("a compensation is for step `{name}`, which does not exist"),
                meant(
                    name,
                    definition.steps.iter().map(|step| step.name.as_str()),
                    problems,
                ),
            );
            continue;
        };
        if !seen.insert(name) {
            let hint = "Keep one; a step is compensated once.";
            let message = format!("`{name}` has two compensations");
            problems.error(Rule::DuplicateCompensation, *at, message, hint);
        }
        if step.read_only {
            problems.warning(
                Rule::UselessCompensation,
                *at,
                format!("`{name}` is read-only, so its compensation never runs"),
                "Remove the compensation, or `readOnly` if the step does change something.",
            );
        }
    }
}
