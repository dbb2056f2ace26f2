//! `then` follows a rollback, so it needs one.

use crate::decode::Draft;
use crate::definition::{FailurePolicy, OnFailure, Step};
use crate::diagnostic::Problems;
use crate::rule::Rule;

pub(super) fn check(draft: &Draft, problems: &mut Problems) {
    let policy = draft.definition.failure_policy;
    for (step, places) in draft.definition.steps.iter().zip(&draft.steps) {
        if step.then.is_some() && !compensates(step, policy) {
            problems.error(
                Rule::Contradiction,
                places.then,
                format!(
                    "`then` of `{}` has no effect: its failure does not compensate",
                    step.name
                ),
                "Add `onFailure: compensate`, or remove `then`.",
            );
        }
    }
}

/// Whether the step's failure leads to compensation, by its own word or the workflow's.
fn compensates(step: &Step, policy: FailurePolicy) -> bool {
    match step.on_failure {
        Some(action) => action == OnFailure::Compensate,
        None => policy == FailurePolicy::Compensate,
    }
}
