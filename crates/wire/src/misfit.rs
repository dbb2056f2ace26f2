//! A message that breaks a rule of the contract.

use thiserror::Error;

/// Why a message cannot be understood: the field and the rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{field}` {rule}")]
pub struct Misfit {
    /// The path of the field, for example `steps.native_state`.
    pub field: String,
    /// What is wrong with it.
    pub rule: String,
}

impl Misfit {
    /// A field that breaks this rule.
    #[must_use]
    pub fn new(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            rule: rule.into(),
        }
    }

    pub(crate) fn missing(field: &str) -> Self {
        Self::new(field, "is missing")
    }

    /// The same, of a field inside this one.
    pub(crate) fn inside(self, field: &str) -> Self {
        Self {
            field: format!("{field}.{}", self.field),
            ..self
        }
    }
}

/// A field that a message must have.
pub(crate) fn required<T>(field: &str, value: Option<T>) -> Result<T, Misfit> {
    value.ok_or_else(|| Misfit::missing(field))
}

/// A figure that cannot be negative.
pub(crate) fn unsigned(field: &str, figure: i64) -> Result<u64, Misfit> {
    u64::try_from(figure).map_err(|_| Misfit::new(field, "is negative"))
}

/// A small figure that cannot be negative.
pub(crate) fn unsigned32(field: &str, figure: i32) -> Result<u32, Misfit> {
    u32::try_from(figure).map_err(|_| Misfit::new(field, "is negative"))
}

/// A figure for the wire; the largest one stands for any that is larger.
pub(crate) fn signed(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}

/// A small figure for the wire.
pub(crate) fn signed32(figure: u32) -> i32 {
    i32::try_from(figure).unwrap_or(i32::MAX)
}
