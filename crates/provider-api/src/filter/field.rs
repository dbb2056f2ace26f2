//! The fields a filter may name, and what may be said of each.

use std::str::FromStr;

use jiff::Timestamp;
use stateway_model::UnknownWord;

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

/// Why a field cannot be asked that.
pub(super) struct Refusal {
    /// The operator is wrong, rather than the value.
    pub(super) of_operator: bool,
    pub(super) message: String,
    pub(super) hint: String,
}

pub(super) fn is_known(name: &str) -> bool {
    let label = name
        .strip_prefix("labels.")
        .is_some_and(|key| !key.is_empty());
    label || name == "labels" || FIELDS[..FIELDS.len() - 1].contains(&name)
}

pub(super) fn known_fields() -> String {
    format!("Fields: {}.", FIELDS.join(", "))
}

/// The typed condition behind `name operator value`, for a known field.
pub(super) fn term(name: &str, operator: &'static str, value: &str) -> Result<Term, Refusal> {
    let equality = || equality(name, operator);
    let number = |field| {
        Ok(Term::Number(
            field,
            comparison(name, operator)?,
            count(value)?,
        ))
    };
    let time = |field| {
        Ok(Term::Time(
            field,
            comparison(name, operator)?,
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
        "labels" => Err(Refusal {
            of_operator: true,
            message: format!("`labels` takes `:`, not `{operator}`"),
            hint: "Write `labels:key` or `labels.key = \"value\"`.".into(),
        }),
        _ => {
            let key = name.strip_prefix("labels.").unwrap_or(name);
            Ok(Term::Label(key.to_owned(), equality()?, value.to_owned()))
        }
    }
}

fn equality(name: &str, operator: &'static str) -> Result<Equality, Refusal> {
    match operator {
        "=" | ":" => Ok(Equality::Is),
        "!=" => Ok(Equality::IsNot),
        _ => Err(wrong_operator(name, operator, "`=` and `!=`")),
    }
}

fn comparison(name: &str, operator: &'static str) -> Result<Comparison, Refusal> {
    match operator {
        "=" => Ok(Comparison::Equal),
        "!=" => Ok(Comparison::NotEqual),
        "<" => Ok(Comparison::Less),
        "<=" => Ok(Comparison::LessOrEqual),
        ">" => Ok(Comparison::Greater),
        ">=" => Ok(Comparison::GreaterOrEqual),
        _ => Err(wrong_operator(
            name,
            operator,
            "`=`, `!=`, `<`, `<=`, `>` and `>=`",
        )),
    }
}

fn wrong_operator(name: &str, operator: &str, right: &str) -> Refusal {
    let message = format!("`{name}` cannot be compared with `{operator}`");
    Refusal {
        of_operator: true,
        message,
        hint: format!("It takes {right}."),
    }
}

fn wrong_value(message: String, hint: &str) -> Refusal {
    Refusal {
        of_operator: false,
        message,
        hint: hint.to_owned(),
    }
}

fn word<T: FromStr<Err = UnknownWord>>(value: &str) -> Result<T, Refusal> {
    value.parse().map_err(|unknown: UnknownWord| {
        let message = format!("`{}` is not a {}", unknown.word, unknown.list);
        wrong_value(message, &format!("Known: {}.", unknown.known.join(", ")))
    })
}

fn count(value: &str) -> Result<u32, Refusal> {
    value
        .parse()
        .map_err(|_| wrong_value(format!("`{value}` is not a whole number"), ""))
}

fn timestamp(value: &str) -> Result<Timestamp, Refusal> {
    value.parse().map_err(|_| {
        let hint = "Write it like \"2026-11-16T12:30:00Z\".";
        wrong_value(format!("`{value}` is not an RFC 3339 time"), hint)
    })
}
