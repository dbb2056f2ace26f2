//! How many steps there are, and that no two share a name.

use std::collections::BTreeMap;

use crate::decode::Draft;
use crate::diagnostic::Problems;
use crate::limits::MAX_STEPS;
use crate::rule::Rule;

pub(super) fn check(draft: &Draft, problems: &mut Problems) {
    let steps = &draft.definition.steps;
    if steps.is_empty() {
        let hint = "Add at least one step under `steps:`.";
        problems.error(Rule::NoSteps, draft.at, "the workflow has no steps", hint);
    }
    if steps.len() > MAX_STEPS {
        problems.error(
            Rule::TooManySteps,
            draft.steps[MAX_STEPS].name,
            format!(
                "the workflow has {} steps, more than {MAX_STEPS}",
                steps.len()
            ),
            "Split it and call the parts with `workflow:` steps.",
        );
    }
    let mut first = BTreeMap::new();
    for (step, places) in steps.iter().zip(&draft.steps) {
        if step.name.is_empty() {
            continue;
        }
        if let Some(line) = first.get(&step.name) {
            problems.error(
                Rule::DuplicateStep,
                places.name,
                format!(
                    "`{}` is already the name of the step in line {line}",
                    step.name
                ),
                "Give one of the two another name.",
            );
        } else {
            first.insert(step.name.clone(), places.name.line);
        }
    }
}
