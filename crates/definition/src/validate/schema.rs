//! An `outputSchema` is a JSON Schema, and corrections have something to be judged by.

use crate::decode::Draft;
use crate::diagnostic::Problems;
use crate::output_schema::OutputSchema;
use crate::rule::Rule;

pub(super) fn check(draft: &Draft, problems: &mut Problems) {
    for (step, places) in draft.definition.steps.iter().zip(&draft.steps) {
        if let Some(schema) = &step.output_schema
            && let Err(reason) = OutputSchema::compile(schema)
        {
            problems.error(
                Rule::BadSchema,
                places.output_schema,
                format!(
                    "the output schema of `{}` is not a valid JSON Schema: {reason}",
                    step.name
                ),
                "Check the keywords and types; references to other files are not followed.",
            );
        }
    }
}
