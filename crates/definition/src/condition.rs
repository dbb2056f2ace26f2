//! `when`: does this step run?
//!
//! A small language of our own, a subset of CEL's syntax, and not CEL itself: a condition must
//! also compile to the Choice rules of Amazon States Language, must cost a bounded amount of work
//! inside a pure core, and must refer to data by the same `${…}` as everything else (a step called
//! `check-stock` would be a subtraction in CEL). What it has: `${…}`, literals, lists, `==` `!=`
//! `<` `<=` `>` `>=` `in`, `!` `&&` `||` and parentheses.

mod parse;
mod token;

use std::cmp::Ordering;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::Reference;
use crate::template::Resolve;

/// A condition that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    source: String,
    expression: Expression,
}

#[derive(Debug, Clone, PartialEq)]
enum Expression {
    Literal(Value),
    Reference(Reference),
    List(Vec<Expression>),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// A lower-case fragment that says what is wrong.
    pub fn parse(source: &str) -> Result<Self, String> {
        let expression = parse::parse(source)?;
        Ok(Self {
            source: source.to_owned(),
            expression,
        })
    }

    /// The text as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Every reference in it.
    #[must_use]
    pub fn references(&self) -> Vec<&Reference> {
        let mut found = Vec::new();
        self.expression.collect(&mut found);
        found
    }

    /// Whether it holds. A reference without a value is `null`, so that the output of a skipped
    /// step can be asked about.
    ///
    /// # Errors
    /// A lower-case fragment: values that cannot be compared, or an answer that is no boolean.
    pub fn holds(&self, resolve: &Resolve<'_>) -> Result<bool, String> {
        boolean(&self.expression.value(resolve)?)
    }
}

impl Expression {
    fn collect<'e>(&'e self, found: &mut Vec<&'e Reference>) {
        match self {
            Self::Literal(_) => {}
            Self::Reference(reference) => found.push(reference),
            Self::List(items) => items.iter().for_each(|item| item.collect(found)),
            Self::Not(inner) => inner.collect(found),
            Self::And(left, right) | Self::Or(left, right) | Self::Compare(_, left, right) => {
                left.collect(found);
                right.collect(found);
            }
        }
    }

    fn value(&self, resolve: &Resolve<'_>) -> Result<Value, String> {
        Ok(match self {
            Self::Literal(value) => value.clone(),
            Self::Reference(reference) => resolve(reference).unwrap_or(Value::Null),
            Self::List(items) => Value::Array(
                items
                    .iter()
                    .map(|item| item.value(resolve))
                    .collect::<Result<_, _>>()?,
            ),
            Self::Not(inner) => Value::Bool(!boolean(&inner.value(resolve)?)?),
            Self::And(left, right) => {
                Value::Bool(boolean(&left.value(resolve)?)? && boolean(&right.value(resolve)?)?)
            }
            Self::Or(left, right) => {
                Value::Bool(boolean(&left.value(resolve)?)? || boolean(&right.value(resolve)?)?)
            }
            Self::Compare(comparison, left, right) => {
                Value::Bool(comparison.of(&left.value(resolve)?, &right.value(resolve)?)?)
            }
        })
    }
}

impl Comparison {
    fn of(self, left: &Value, right: &Value) -> Result<bool, String> {
        Ok(match self {
            Self::Equal => equal(left, right),
            Self::NotEqual => !equal(left, right),
            Self::Less => order(left, right)? == Ordering::Less,
            Self::LessOrEqual => order(left, right)? != Ordering::Greater,
            Self::Greater => order(left, right)? == Ordering::Greater,
            Self::GreaterOrEqual => order(left, right)? != Ordering::Less,
            Self::In => match right {
                Value::Array(items) => items.iter().any(|item| equal(left, item)),
                other => return Err(format!("`in` needs a list, not {}", kind(other))),
            },
        })
    }
}

/// Numbers are equal by what they stand for: `1` and `1.0` are one number.
fn equal(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(a), Some(b)) => left == right || (a == b && (left.is_f64() || right.is_f64())),
        _ => left == right,
    }
}

fn order(left: &Value, right: &Value) -> Result<Ordering, String> {
    let unordered = || format!("{} and {} have no order", kind(left), kind(right));
    match (left, right) {
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Ok(a.cmp(&b)),
            _ => a
                .as_f64()
                .zip(b.as_f64())
                .and_then(|(a, b)| a.partial_cmp(&b))
                .ok_or_else(unordered),
        },
        _ => Err(unordered()),
    }
}

fn boolean(value: &Value) -> Result<bool, String> {
    value
        .as_bool()
        .ok_or_else(|| format!("a condition needs true or false, not {}", kind(value)))
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(condition: &str) -> Result<bool, String> {
        let input = json!({"n": 5, "s": "b", "flag": true, "list": ["x", "y"]});
        Condition::parse(condition)?.holds(&|reference| reference.follow(&input).cloned())
    }

    #[test]
    fn comparisons_and_connectives_bind_as_in_every_language() {
        for (condition, answer) in [
            ("${input.flag}", true),
            ("!${input.flag}", false),
            ("${input.n} == 5.0", true),
            ("${input.n} > 4 && ${input.n} <= 5", true),
            ("${input.s} >= 'c' || false", false),
            ("true || false && false", true),
            ("(true || false) && false", false),
            ("'x' in ${input.list}", true),
            ("${input.s} in ['a', \"b\"]", true),
            ("${input.nothing} == null", true),
            ("${input.nothing} != null && ${input.nothing} > 3", false),
            ("-1 < 0", true),
        ] {
            assert_eq!(holds(condition), Ok(answer), "{condition}");
        }
    }

    #[test]
    fn values_without_an_order_are_an_error_and_not_false() {
        assert_eq!(
            holds("${input.n} < 'a'"),
            Err("a number and text have no order".to_owned())
        );
        assert!(holds("${input.n}").is_err());
        assert!(holds("1 in 2").is_err());
    }

    #[test]
    fn what_does_not_parse_says_where() {
        for wrong in [
            "",
            "1 +",
            "a == b",
            "(true",
            "true true",
            "${input.x",
            "'open",
            "1 == 2 == 3",
        ] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
        let deep = format!("{}true{}", "(".repeat(1_000), ")".repeat(1_000));
        assert!(Condition::parse(&deep).unwrap_err().contains("deep"));
    }
}
