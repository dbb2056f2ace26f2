//! A condition of a rule: a field of the task that is to be handed out, and the wanted value.

use stateway_engine::PolicyQuestion;
use stateway_provider_api::filter::{Comparison, Condition, Equality, Mismatch, Operand, Pattern};
use stateway_provider_api::nearest;

/// The kinds of step that are judged.
const KINDS: [&str; 2] = ["task", "http"];

/// The digits after the point of a cost.
const COST_DIGITS: usize = 6;

/// A single condition, by the kind of field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyCondition {
    /// A text field.
    Text(PolicyField, Equality, Pattern),
    /// `field:*`: the text is not empty.
    Has(PolicyField),
    /// A count or a cost.
    Amount(Amount, Comparison, u64),
    /// `labels.key = …`. A label that the execution does not have differs from every text.
    Label(String, Equality, Pattern),
    /// `labels:key` or `labels.key:*`
    HasLabel(String),
    /// `labels:*`
    HasLabels,
}

/// Text fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyField {
    /// `definition`: its name.
    Definition,
    /// `step`
    Step,
    /// `kind`: `task` or `http`.
    Kind,
    /// `role`: the role a worker must have.
    Role,
    /// `skill`: the skill a worker must have.
    Skill,
    /// `action`: of an HTTP step the method and the address.
    Action,
    /// `tenant`: the label `tenant` of the execution.
    Tenant,
    /// `initiator`: the person who started the execution.
    Initiator,
}

/// Counts and costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// `attempt`, from 1.
    Attempt,
    /// `cost` of the execution so far, in millionths of a unit.
    Cost,
    /// `tokens` of the execution so far, read and written.
    Tokens,
}

impl Condition for PolicyCondition {
    const FIELDS: &'static [&'static str] = &[
        "definition",
        "step",
        "kind",
        "role",
        "skill",
        "action",
        "labels.<key>",
        "tenant",
        "initiator",
        "attempt",
        "cost",
        "tokens",
    ];

    fn new(field: &str, operator: &'static str, value: &Operand) -> Result<Self, Mismatch> {
        let equality = || Equality::new(field, operator);
        let is_set = operator == ":" && value.is_star();
        let text = |of, pattern| {
            if is_set {
                return Ok(Self::Has(of));
            }
            Ok(Self::Text(of, equality()?, pattern))
        };
        let amount = |of, value| Ok(Self::Amount(of, Comparison::new(field, operator)?, value));
        match field {
            "definition" => {
                let name = value.escaped();
                let name = name.strip_prefix("definitions/").unwrap_or(name);
                text(PolicyField::Definition, Pattern::new(name))
            }
            "step" => text(PolicyField::Step, value.pattern()),
            "kind" if is_set => Ok(Self::Has(PolicyField::Kind)),
            "kind" => {
                let kind = kind(&value.text())?;
                text(PolicyField::Kind, Pattern::new(kind))
            }
            "role" => text(PolicyField::Role, value.pattern()),
            "skill" => text(PolicyField::Skill, value.pattern()),
            "action" => text(PolicyField::Action, value.pattern()),
            "tenant" => text(PolicyField::Tenant, value.pattern()),
            "initiator" => text(PolicyField::Initiator, value.pattern()),
            "attempt" => amount(Amount::Attempt, count(&value.text())?),
            "cost" => amount(Amount::Cost, cost(&value.text())?),
            "tokens" => amount(Amount::Tokens, count(&value.text())?),
            "labels" if is_set => Ok(Self::HasLabels),
            "labels" if operator == ":" => Ok(Self::HasLabel(value.text())),
            "labels" => Err(Mismatch::operator(
                format!("`labels` takes `:`, not `{operator}`"),
                "Write `labels:key` or `labels.key = \"value\"`.",
            )),
            _ => {
                let key = field.strip_prefix("labels.").unwrap_or(field).to_owned();
                if is_set {
                    return Ok(Self::HasLabel(key));
                }
                Ok(Self::Label(key, equality()?, value.pattern()))
            }
        }
    }
}

impl PolicyCondition {
    /// Whether it holds for a task.
    pub(super) fn holds(&self, question: &PolicyQuestion<'_>) -> bool {
        match self {
            Self::Text(field, equality, wanted) => {
                equality.holds(wanted.matches(text(question, *field)))
            }
            Self::Has(field) => !text(question, *field).is_empty(),
            Self::Amount(amount, comparison, wanted) => {
                comparison.holds(Some(&of(question, *amount)), wanted)
            }
            Self::Label(key, equality, wanted) => {
                let label = question.labels.get(key);
                equality.holds(label.is_some_and(|label| wanted.matches(label)))
            }
            Self::HasLabel(key) => question.labels.contains_key(key),
            Self::HasLabels => !question.labels.is_empty(),
        }
    }
}

fn text<'q>(question: &'q PolicyQuestion<'_>, field: PolicyField) -> &'q str {
    match field {
        PolicyField::Definition => question.definition,
        PolicyField::Step => question.step,
        PolicyField::Kind => question.kind,
        PolicyField::Role => question.role,
        PolicyField::Skill => question.skill,
        PolicyField::Action => &question.action,
        PolicyField::Tenant => question.tenant,
        PolicyField::Initiator => question.initiator,
    }
}

fn of(question: &PolicyQuestion<'_>, amount: Amount) -> u64 {
    let usage = &question.usage;
    match amount {
        Amount::Attempt => question.attempt.into(),
        Amount::Cost => usage.cost_micros,
        Amount::Tokens => usage.input_tokens.saturating_add(usage.output_tokens),
    }
}

fn kind(value: &str) -> Result<&'static str, Mismatch> {
    if let Some(kind) = KINDS.into_iter().find(|kind| *kind == value) {
        return Ok(kind);
    }
    let known = "Known: task, http.";
    let hint = match nearest(value, KINDS) {
        Some(meant) => format!("Did you mean `{meant}`? {known}"),
        None => known.to_owned(),
    };
    let message = format!("`{value}` is not a kind of step that workers or the engine run");
    Err(Mismatch::value(message, &hint))
}

fn count(value: &str) -> Result<u64, Mismatch> {
    value
        .parse()
        .map_err(|_| Mismatch::value(format!("`{value}` is not a whole number"), ""))
}

/// A cost in units as millionths.
fn cost(value: &str) -> Result<u64, Mismatch> {
    let wrong = || {
        let message = format!("`{value}` is not a cost");
        Mismatch::value(
            message,
            "Write it in units, like `2.5`, with at most six decimals.",
        )
    };
    let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > COST_DIGITS {
        return Err(wrong());
    }
    let units: u64 = whole.parse().map_err(|_| wrong())?;
    let micros: u64 = format!("{part:0<COST_DIGITS$}")
        .parse()
        .map_err(|_| wrong())?;
    let units = units.checked_mul(1_000_000).ok_or_else(wrong)?;
    units.checked_add(micros).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::filter::Filter;

    use super::*;

    #[test]
    fn a_cost_is_read_in_units() {
        for (text, micros) in [
            ("2.5", 2_500_000),
            ("3", 3_000_000),
            ("0.000001", 1),
            ("10.25", 10_250_000),
        ] {
            assert_eq!(cost(text), Ok(micros), "{text}");
        }
        for wrong in [
            "",
            ".5",
            "1.",
            "1.1234567",
            "1e3",
            "-1",
            "99999999999999999999",
        ] {
            assert!(cost(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_column_and_what_was_probably_meant() {
        let refused = |text: &str| {
            let error = Filter::<PolicyCondition>::parse_as(text).unwrap_err();
            (error.column, error.message, error.hint)
        };
        let (column, message, hint) = refused("definition = a AND setp = b");
        assert_eq!((column, message.as_str()), (20, "`setp` is not a field"));
        assert!(
            hint.starts_with("Did you mean `step`? Fields: definition,"),
            "{hint}"
        );
        let (column, message, hint) = refused("kind = htp");
        assert_eq!(column, 8);
        assert!(message.starts_with("`htp` is not a kind"), "{message}");
        assert!(hint.starts_with("Did you mean `http`?"), "{hint}");
        assert_eq!(refused("step > a").0, 6);
        assert_eq!(refused("cost = cheap").0, 8);
        assert_eq!(refused("labels = a").0, 8);
    }
}
