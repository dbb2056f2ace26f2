//! Why a value does not match a schema, in words for the author of a worker.

use boon::{ErrorKind, ValidationError};
use serde_json::Value;

/// The places in a value that do not match, as JSON Pointers, and why.
pub(super) fn violations(error: &ValidationError<'_, '_>, value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(error, value, &mut found);
    found
}

/// The first reason why a text is not a schema. Alternatives of the schema of schemas say nothing to its
/// author; what each of them requires does.
pub(super) fn mistake(error: &ValidationError<'_, '_>, schema: &Value) -> (String, String) {
    let is_open = matches!(
        error.kind,
        ErrorKind::Group
            | ErrorKind::Schema { .. }
            | ErrorKind::Reference { .. }
            | ErrorKind::AllOf
            | ErrorKind::AnyOf
    );
    match error.causes.first().filter(|_| is_open) {
        Some(cause) => mistake(cause, schema),
        None => violations(error, schema).swap_remove(0),
    }
}

fn collect(error: &ValidationError<'_, '_>, value: &Value, found: &mut Vec<(String, String)>) {
    let place = error.instance_location.to_string();
    // An error without a place of its own is about the whole value.
    let at = value.pointer(&place).unwrap_or(value);
    let mut push = |text: String| found.push((place.clone(), text));
    match &error.kind {
        ErrorKind::Group
        | ErrorKind::Schema { .. }
        | ErrorKind::Reference { .. }
        | ErrorKind::AllOf => {
            for cause in &error.causes {
                collect(cause, value, found);
            }
        }
        ErrorKind::Required { want } => {
            for name in want {
                push(format!("{} is a required property", quoted(name)));
            }
        }
        kind => push(text(kind, at)),
    }
}

/// What is wrong with one value.
fn text(kind: &ErrorKind<'_, '_>, value: &Value) -> String {
    match kind {
        ErrorKind::Type { want, .. } => {
            let types: Vec<_> = want.iter().map(|one| quoted(&one.to_string())).collect();
            let word = if types.len() == 1 { "type" } else { "types" };
            format!("{value} is not of {word} {}", types.join(", "))
        }
        ErrorKind::Enum { want } => format!("{value} is not one of {}", listed(want.iter())),
        ErrorKind::Const { want } => format!("{want} was expected"),
        ErrorKind::Format { want, .. } => format!("{value} is not a {}", quoted(want)),
        ErrorKind::Pattern { want, .. } => format!("{value} does not match {}", quoted(want)),
        ErrorKind::AdditionalProperties { got } => {
            let mut names: Vec<_> = got.iter().map(|name| quoted(name)).collect();
            names.sort_unstable();
            format!(
                "additional properties are not allowed: {}",
                names.join(", ")
            )
        }
        ErrorKind::AdditionalItems { got } => {
            format!("{got} additional items are not allowed")
        }
        ErrorKind::FalseSchema => "nothing is allowed here".to_owned(),
        ErrorKind::PropertyName { prop } => {
            format!("{} is not an allowed property name", quoted(prop))
        }
        ErrorKind::Dependency { prop, missing }
        | ErrorKind::DependentRequired { prop, missing } => {
            let missing: Vec<_> = missing.iter().map(|name| quoted(name)).collect();
            let (missing, prop) = (missing.join(", "), quoted(prop));
            format!("{missing} is required because {prop} is present")
        }
        ErrorKind::Minimum { want, .. } => format!("{value} is less than the minimum of {want}"),
        ErrorKind::Maximum { want, .. } => format!("{value} is greater than the maximum of {want}"),
        ErrorKind::ExclusiveMinimum { want, .. } => format!("{value} is not greater than {want}"),
        ErrorKind::ExclusiveMaximum { want, .. } => format!("{value} is not less than {want}"),
        ErrorKind::MultipleOf { want, .. } => format!("{value} is not a multiple of {want}"),
        ErrorKind::MinLength { want, .. } => {
            format!("{value} is shorter than {}", counted(*want, "character"))
        }
        ErrorKind::MaxLength { want, .. } => {
            format!("{value} is longer than {}", counted(*want, "character"))
        }
        ErrorKind::MinItems { got, want } => {
            format!(
                "has {}, at least {want} are required",
                counted(*got, "item")
            )
        }
        ErrorKind::MaxItems { got, want } => {
            format!("has {}, at most {want} are allowed", counted(*got, "item"))
        }
        ErrorKind::MinProperties { got, want } => {
            format!(
                "has {}, at least {want} are required",
                counted(*got, "property")
            )
        }
        ErrorKind::MaxProperties { got, want } => {
            format!(
                "has {}, at most {want} are allowed",
                counted(*got, "property")
            )
        }
        ErrorKind::Contains => "no item matches `contains`".to_owned(),
        ErrorKind::MinContains { got, want } => {
            format!(
                "{} match `contains`, at least {want} must",
                counted(got.len(), "item")
            )
        }
        ErrorKind::MaxContains { got, want } => {
            format!(
                "{} match `contains`, at most {want} may",
                counted(got.len(), "item")
            )
        }
        ErrorKind::UniqueItems {
            got: [first, second],
        } => {
            format!("the items {first} and {second} are equal")
        }
        ErrorKind::Not => format!("{value} matches the schema under `not`"),
        ErrorKind::AnyOf => format!("{value} matches no schema of `anyOf`"),
        ErrorKind::OneOf(None) => format!("{value} matches no schema of `oneOf`"),
        ErrorKind::OneOf(Some(_)) => format!("{value} matches several schemas of `oneOf`"),
        // References that lead back to themselves, and contents that are not checked.
        other => other.to_string(),
    }
}

/// A text as JSON shows it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn listed<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    let values: Vec<_> = values.map(Value::to_string).collect();
    values.join(", ")
}

/// A number of things, by the word for one of them.
fn counted(number: usize, one: &str) -> String {
    match (number, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {one}s"),
    }
}
