//! The fields of executions that a filter may name, and the values that each takes.

use std::str::FromStr;

use jiff::Timestamp;
use stateway_model::UnknownWord;

use super::condition::{Condition, Mismatch};
use super::{Comparison, DefinitionPattern, Equality, NumberField, Term, TextField, TimeField};

/// Every field, as documentation and error messages list them.
pub const FIELDS: &[&str] = &[
    "sub_state",
    "provider",
    "definition",
    "reason",
    "native_state",
    "mapping_basis",
    "waits.kind",
    "retry.attempt",
    "retry.retry_count",
    "retry.max_attempts",
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
    let text = |field| Ok(Term::Text(field, equality()?, value.to_owned()));
    match name {
        "sub_state" => Ok(Term::SubState(equality()?, word(value)?)),
        "reason" => Ok(Term::Reason(equality()?, word(value)?)),
        "mapping_basis" => Ok(Term::MappingBasis(equality()?, word(value)?)),
        "waits.kind" => Ok(Term::WaitKind(equality()?, word(value)?)),
        "provider" => text(TextField::Provider),
        "definition" => Ok(Term::Definition(equality()?, DefinitionPattern::new(value))),
        "native_state" => text(TextField::NativeState),
        "retry.attempt" => number(NumberField::Attempt),
        "retry.retry_count" => number(NumberField::RetryCount),
        "retry.max_attempts" => number(NumberField::MaxAttempts),
        "retry.next_attempt_time" => time(TimeField::NextAttempt),
        "create_time" => time(TimeField::Create),
        "start_time" => time(TimeField::Start),
        "update_time" => time(TimeField::Update),
        "end_time" => time(TimeField::End),
        "labels" if operator == ":" => Ok(Term::HasLabel(value.to_owned())),
        "labels" => Err(Mismatch::operator(
            format!("`labels` takes `:`, not `{operator}`"),
            "Write `labels:key` or `labels.key = \"value\"`.",
        )),
        _ => {
            let key = name.strip_prefix("labels.").unwrap_or(name);
            Ok(Term::Label(key.to_owned(), equality()?, value.to_owned()))
        }
    }
}

fn word<T: FromStr<Err = UnknownWord>>(value: &str) -> Result<T, Mismatch> {
    value.parse().map_err(|unknown: UnknownWord| {
        let message = format!("`{}` is not a {}", unknown.word, unknown.list);
        Mismatch::value(message, &format!("Known: {}.", unknown.known.join(", ")))
    })
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
