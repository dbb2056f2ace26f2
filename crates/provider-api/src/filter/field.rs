//! The fields of executions that a filter may name, and the values that each takes.

use jiff::Timestamp;
use stateway_model::{MappingBasis, Reason, SubState, WaitKind};

use super::condition::{Condition, Mismatch};
use super::{
    Comparison, DefinitionPattern, Equality, Field, NumberField, Operand, Pattern, Term, TextField,
    TimeField,
};

/// Every field, as documentation and error messages list them.
pub const FIELDS: &[&str] = &[
    "sub_state",
    "name",
    "id",
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

    fn new(field: &str, operator: &'static str, value: &Operand) -> Result<Self, Mismatch> {
        let typed = typed(field);
        if operator == ":" && value.is_star() {
            return Ok(Self::Has(typed));
        }
        term(field, typed, operator, value)
    }

    /// A word alone: executions whose id begins with it.
    fn word(word: &Operand) -> Option<Self> {
        let pattern = Pattern::new(&format!("{}*", word.escaped()));
        Some(Self::Text(TextField::Id, Equality::Is, pattern))
    }
}

/// The field behind a known name.
fn typed(name: &str) -> Field {
    match name {
        "sub_state" => Field::SubState,
        "reason" => Field::Reason,
        "mapping_basis" => Field::MappingBasis,
        "waits" | "waits.kind" => Field::Waits,
        "definition" => Field::Definition,
        "name" => Field::Text(TextField::Name),
        "id" => Field::Text(TextField::Id),
        "native_state" => Field::Text(TextField::NativeState),
        "retry.attempt" => Field::Number(NumberField::Attempt),
        "retry.retry_count" => Field::Number(NumberField::RetryCount),
        "retry.max_attempt_count" => Field::Number(NumberField::MaxAttempts),
        "retry.next_attempt_time" => Field::Time(TimeField::NextAttempt),
        "create_time" => Field::Time(TimeField::Create),
        "start_time" => Field::Time(TimeField::Start),
        "update_time" => Field::Time(TimeField::Update),
        "end_time" => Field::Time(TimeField::End),
        "labels" => Field::Labels,
        _ => Field::Label(name.strip_prefix("labels.").unwrap_or(name).to_owned()),
    }
}

/// The typed condition behind `name operator value`, for a known field.
fn term(
    name: &str,
    field: Field,
    operator: &'static str,
    value: &Operand,
) -> Result<Term, Mismatch> {
    let equality = || Equality::new(name, operator);
    let comparison = || Comparison::new(name, operator);
    let text = value.text();
    match field {
        Field::SubState => {
            let known = SubState::ALL.iter().map(|known| (*known, known.as_str()));
            let equality = equality()?;
            let value = enum_value("SUB_STATE_", &text, known)?;
            Ok(Term::SubState(equality, value))
        }
        Field::Reason => {
            let known = Reason::ALL.iter().map(|known| (*known, known.as_str()));
            let equality = equality()?;
            Ok(Term::Reason(equality, enum_value("REASON_", &text, known)?))
        }
        Field::MappingBasis => {
            let known = MappingBasis::ALL
                .iter()
                .map(|known| (*known, known.as_str()));
            let equality = equality()?;
            let value = enum_value("MAPPING_BASIS_", &text, known)?;
            Ok(Term::MappingBasis(equality, value))
        }
        Field::Waits => wait_kind(name, operator, &text),
        Field::Definition => {
            let pattern = DefinitionPattern::new(value.escaped());
            Ok(Term::Definition(equality()?, pattern))
        }
        Field::Text(field) => Ok(Term::Text(field, equality()?, value.pattern())),
        Field::Number(field) => Ok(Term::Number(field, comparison()?, count(&text)?)),
        Field::Time(field) => Ok(Term::Time(field, comparison()?, timestamp(&text)?)),
        Field::Labels if operator == ":" => Ok(Term::Has(Field::Label(text))),
        Field::Labels => Err(Mismatch::operator(
            format!("`labels` takes `:`, not `{operator}`"),
            "Write `labels:key` or `labels.key = \"value\"`.",
        )),
        Field::Label(key) => Ok(Term::Label(key, equality()?, value.pattern())),
    }
}

/// `waits.kind:SIGNAL`; `waits` itself takes `*` alone.
fn wait_kind(name: &str, operator: &'static str, value: &str) -> Result<Term, Mismatch> {
    if operator != ":" {
        return Err(Mismatch::operator(
            format!("`{name}` takes `:`, not `{operator}`"),
            "Write `waits.kind:SIGNAL` or `waits:*`.",
        ));
    }
    if name == "waits" {
        return Err(Mismatch::value(
            "`waits` takes only `*`".to_owned(),
            "Write `waits:*`, or `waits.kind:SIGNAL`.",
        ));
    }
    let known = WaitKind::ALL.iter().map(|known| (*known, known.as_str()));
    Ok(Term::WaitKind(enum_value("", value, known)?))
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
