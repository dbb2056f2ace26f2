//! The fields of executions that a filter may name, and the values that each takes.

use jiff::Timestamp;
use stateway_model::{MappingBasis, Reason, SubState, WaitKind};

use super::condition::{Condition, Mismatch};
use super::{
    Comparison, DefinitionPattern, Equality, NumberField, Pattern, Term, TextField, TimeField,
};

/// Every field, as documentation and error messages list them.
pub const FIELDS: &[&str] = &[
    "sub_state",
    "name",
    "definition",
    "reason",
    "native_state",
    "mapping_basis",
    "waits",
    "waits.kind",
    "retry.attempt",
    "retry.retry_count",
    "retry.max_attempt_count",
    "retry.next_attempt_time",
    "create_time",
    "start_time",
    "update_time",
    "end_time",
    "labels.<key>",
];

impl Condition for Term {
    const FIELDS: &'static [&'static str] = FIELDS;

    fn new(field: &str, operator: &'static str, value: &str) -> Result<Self, Mismatch> {
        term(field, operator, value)
    }
}

/// The typed condition behind `name operator value`, for a known field.
fn term(name: &str, operator: &'static str, value: &str) -> Result<Term, Mismatch> {
    let equality = || Equality::new(name, operator);
    let number = |field| {
        Ok(Term::Number(
            field,
            Comparison::new(name, operator)?,
            count(value)?,
        ))
    };
    let time = |field| {
        Ok(Term::Time(
            field,
            Comparison::new(name, operator)?,
            timestamp(value)?,
        ))
    };
    let text = |field| Ok(Term::Text(field, equality()?, Pattern::new(value)));
    match name {
        "sub_state" => {
            let known = SubState::ALL.iter().map(|known| (*known, known.as_str()));
            Ok(Term::SubState(
                equality()?,
                enum_value("SUB_STATE_", value, known)?,
            ))
        }
        "reason" => {
            let known = Reason::ALL.iter().map(|known| (*known, known.as_str()));
            Ok(Term::Reason(
                equality()?,
                enum_value("REASON_", value, known)?,
            ))
        }
        "mapping_basis" => {
            let known = MappingBasis::ALL
                .iter()
                .map(|known| (*known, known.as_str()));
            let value = enum_value("MAPPING_BASIS_", value, known)?;
            Ok(Term::MappingBasis(equality()?, value))
        }
        "waits" | "waits.kind" if operator != ":" => Err(Mismatch::operator(
            format!("`{name}` takes `:`, not `{operator}`"),
            "Write `waits.kind:SIGNAL` or `waits:*`.",
        )),
        "waits" | "waits.kind" if value == "*" => Ok(Term::HasWait),
        "waits" => Err(Mismatch::value(
            format!("`{value}` is not `*`"),
            "Write `waits:*`, or `waits.kind:SIGNAL`.",
        )),
        "waits.kind" => {
            let known = WaitKind::ALL.iter().map(|known| (*known, known.as_str()));
            Ok(Term::WaitKind(enum_value("", value, known)?))
        }
        "name" => text(TextField::Name),
        "definition" => Ok(Term::Definition(equality()?, DefinitionPattern::new(value))),
        "native_state" => text(TextField::NativeState),
        "retry.attempt" => number(NumberField::Attempt),
        "retry.retry_count" => number(NumberField::RetryCount),
        "retry.max_attempt_count" => number(NumberField::MaxAttempts),
        "retry.next_attempt_time" => time(TimeField::NextAttempt),
        "create_time" => time(TimeField::Create),
        "start_time" => time(TimeField::Start),
        "update_time" => time(TimeField::Update),
        "end_time" => time(TimeField::End),
        "labels" if operator == ":" && value == "*" => Ok(Term::HasLabels),
        "labels" if operator == ":" => Ok(Term::HasLabel(value.to_owned())),
        "labels" => Err(Mismatch::operator(
            format!("`labels` takes `:`, not `{operator}`"),
            "Write `labels:key` or `labels.key = \"value\"`.",
        )),
        _ => {
            let key = name.strip_prefix("labels.").unwrap_or(name).to_owned();
            if operator == ":" && value == "*" {
                return Ok(Term::HasLabel(key));
            }
            Ok(Term::Label(key, equality()?, Pattern::new(value)))
        }
    }
}

/// The value of an enum field: the name of the value (`BACKING_OFF`), with or without the prefix of the
/// API, or its label (`backing-off`).
///
/// # Errors
/// There is no such value; the hint lists the known ones.
pub fn enum_value<T: Copy>(
    prefix: &str,
    value: &str,
    known: impl Iterator<Item = (T, &'static str)>,
) -> Result<T, Mismatch> {
    let wanted = value.strip_prefix(prefix).unwrap_or(value);
    let mut names = Vec::new();
    for (value, label) in known {
        let name = label.to_ascii_uppercase().replace('-', "_");
        if wanted == name || wanted == label {
            return Ok(value);
        }
        names.push(name);
    }
    let message = format!("`{value}` is not a value of this field");
    let hint = format!("Known: {}.", names.join(", "));
    Err(Mismatch::value(message, &hint))
}

fn count(value: &str) -> Result<u32, Mismatch> {
    value
        .parse()
        .map_err(|_| Mismatch::value(format!("`{value}` is not a whole number"), ""))
}

fn timestamp(value: &str) -> Result<Timestamp, Mismatch> {
    value.parse().map_err(|_| {
        let hint = "Write it like \"2026-11-16T12:30:00Z\".";
        Mismatch::value(format!("`{value}` is not an RFC 3339 time"), hint)
    })
}
