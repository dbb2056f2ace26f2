//! A kind of condition: which fields a filter may name, and how each is compared.
//!
//! Filters over executions are one kind. A filter over something else implements [`Condition`] and
//! gets the same grammar and the same error messages.

use super::{Comparison, Equality, Operand};
use crate::nearest;

/// What stands for any key of a map in a list of fields.
const ANY_KEY: &str = ".<key>";

/// A single typed condition of a filter.
pub trait Condition: Sized {
    /// Every field, as documentation and error messages list them. `labels.<key>` stands for any key
    /// of `labels`, and for `labels` itself.
    const FIELDS: &'static [&'static str];

    /// The condition behind `field operator value`, for one of [`Self::FIELDS`].
    ///
    /// # Errors
    /// The field does not take this operator or this value.
    fn new(field: &str, operator: &'static str, value: &Operand) -> Result<Self, Mismatch>;

    /// The condition behind a word or a quoted text that stands alone; none if it has no meaning.
    fn word(_: &Operand) -> Option<Self> {
        None
    }
}

/// Why a field does not take an operator or a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The operator is wrong, rather than the value.
    pub of_operator: bool,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// A sentence that says what would be right; may be empty.
    pub hint: String,
}

impl Mismatch {
    /// The field does not take this operator.
    #[must_use]
    pub fn operator(message: String, hint: &str) -> Self {
        Self {
            of_operator: true,
            message,
            hint: hint.to_owned(),
        }
    }

    /// The field does not take this value.
    #[must_use]
    pub fn value(message: String, hint: &str) -> Self {
        Self {
            of_operator: false,
            message,
            hint: hint.to_owned(),
        }
    }
}

impl Equality {
    /// The equality behind an operator, for a field that has no order.
    ///
    /// # Errors
    /// Another operator than `=`, `:` and `!=`.
    pub fn new(field: &str, operator: &'static str) -> Result<Self, Mismatch> {
        match operator {
            "=" | ":" => Ok(Self::Is),
            "!=" => Ok(Self::IsNot),
            _ => Err(wrong_operator(field, operator, "`=`, `!=` and `:`")),
        }
    }

    /// Whether it holds for a value that is, or is not, the wanted one.
    #[must_use]
    pub const fn holds(self, equal: bool) -> bool {
        match self {
            Self::Is => equal,
            Self::IsNot => !equal,
        }
    }
}

impl Comparison {
    /// The comparison behind an operator, for a field that has an order.
    ///
    /// # Errors
    /// An unknown operator.
    pub fn new(field: &str, operator: &'static str) -> Result<Self, Mismatch> {
        match operator {
            "=" | ":" => Ok(Self::Equal),
            "!=" => Ok(Self::NotEqual),
            "<" => Ok(Self::Less),
            "<=" => Ok(Self::LessOrEqual),
            ">" => Ok(Self::Greater),
            ">=" => Ok(Self::GreaterOrEqual),
            _ => Err(wrong_operator(
                field,
                operator,
                "`=`, `!=`, `<`, `<=`, `>`, `>=` and `:`",
            )),
        }
    }

    /// Whether it holds between a value and the wanted one. A value that is not set passes no
    /// comparison, [`NotEqual`](Self::NotEqual) included.
    pub fn holds<T: Ord>(self, value: Option<&T>, wanted: &T) -> bool {
        value.is_some_and(|value| {
            let order = value.cmp(wanted);
            match self {
                Self::Equal => order.is_eq(),
                Self::NotEqual => order.is_ne(),
                Self::Less => order.is_lt(),
                Self::LessOrEqual => order.is_le(),
                Self::Greater => order.is_gt(),
                Self::GreaterOrEqual => order.is_ge(),
            }
        })
    }
}

fn wrong_operator(field: &str, operator: &str, right: &str) -> Mismatch {
    let message = format!("`{field}` cannot be compared with `{operator}`");
    Mismatch::operator(message, &format!("It takes {right}."))
}

/// Whether conditions of this kind have such a field.
pub(super) fn is_known<C: Condition>(name: &str) -> bool {
    C::FIELDS.iter().any(|field| {
        let Some(map) = field.strip_suffix(ANY_KEY) else {
            return *field == name;
        };
        let rest = name.strip_prefix(map);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('.').is_some_and(|key| !key.is_empty())
        })
    })
}

/// A sentence that lists every field.
pub(super) fn known_fields<C: Condition>() -> String {
    format!("Fields: {}.", C::FIELDS.join(", "))
}

/// The hint for a name that is not a field.
pub(super) fn meant<C: Condition>(name: &str) -> String {
    let fields = known_fields::<C>();
    match nearest(name, C::FIELDS.iter().copied()) {
        Some(field) => format!("Did you mean `{field}`? {fields}"),
        None => fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_set_passes_no_comparison() {
        for operator in ["=", ":", "!=", "<", "<=", ">", ">="] {
            let comparison = Comparison::new("n", operator).unwrap();
            assert!(!comparison.holds(None, &1), "{operator}");
        }
    }
}
