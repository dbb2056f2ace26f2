//! The portable definition: one file that says what a workflow does, on every engine.
//!
//! [`parse`] takes YAML or JSON and gives either a [`Definition`] with its warnings or every
//! problem together, each with file, line, column, the broken rule and a hint. The stages are:
//! source text → tree with places (`source`) → draft (`decode`) → checked draft (`validate`)
//! → definition. The result is independent of the source text.
//!
//! Beside it stand the [`Revision`] (a hash of what a definition says), [`conflicts`] (may a
//! running execution continue under another revision?), the graph as [`mermaid`] and [`dot`], and the
//! [`json_schema`] of the format, which is printed from the tables the reader itself uses.
//!
//! Nothing here does IO, reads a clock or runs a workflow; `stateway-machine` runs it. Every loop
//! and every size has a bound in [`limits`].

mod compatibility;
mod condition;
mod decode;
mod definition;
mod diagnostic;
mod duration;
mod graph;
mod header;
pub mod limits;
mod output_schema;
mod reference;
mod revision;
mod rule;
mod schedule;
mod schema;
mod shape;
mod source;
mod suggest;
mod template;
mod trigger;
mod validate;

pub use compatibility::{Standing, conflicts, guard_conflicts};
pub use condition::Condition;
pub use definition::{
    Approval, Backoff, Budget, Compensation, DEFAULT_MAX_HAND_OUTS, Definition, Escalation,
    FailurePolicy, OnExpiry, OnFailure, OnReject, OnTimeout, RetryPolicy, Step, StepKind, Then,
};
pub use diagnostic::{Diagnostic, Invalid, Position, Severity};
pub use duration::{format_duration, parse_duration};
pub use graph::{dot, mermaid};
pub use header::{is_header_name, is_header_value};
pub use output_schema::OutputSchema;
pub use reference::{Reference, Root, Segment};
pub use revision::{Revision, canonical_form, digest, hex};
pub use rule::Rule;
pub use schedule::{Schedule, ScheduleError};
pub use schema::json_schema;
pub use template::{Resolve, Template};
pub use trigger::Trigger;

use diagnostic::Problems;

/// A valid definition and its warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The definition.
    pub definition: Definition,
    /// The warnings, in the order of the lines.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a definition from YAML or JSON. `file` is only used in diagnostics.
///
/// ```
/// let parsed = stateway_definition::parse("steps: [{name: a, agent: x, timeout: 5m}]", "a.yaml");
/// assert_eq!(parsed.unwrap().definition.steps[0].name, "a");
/// ```
///
/// # Errors
/// Every problem of the source, warnings included.
pub fn parse(text: &str, file: &str) -> Result<Parsed, Invalid> {
    let mut problems = Problems::new(file);
    let Some(node) = source::load(text, &mut problems) else {
        return Err(problems.into_invalid());
    };
    let draft = decode::file(&node, &mut problems);
    if let Some(draft) = &draft {
        validate::validate(draft, &mut problems);
    }
    match (draft, problems.has_errors()) {
        (Some(draft), false) => Ok(Parsed {
            definition: draft.definition,
            warnings: problems.into_warnings()?,
        }),
        _ => Err(problems.into_invalid()),
    }
}
