//! The cost of work.

use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// What an attempt, or all attempts of an execution, cost. Sums stop at the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens read.
    #[serde(skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    /// Tokens written.
    #[serde(skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    /// Cost in millionths of the currency unit.
    #[serde(skip_serializing_if = "is_zero")]
    pub cost_micros: u64,
}

impl Usage {
    /// True if nothing was used, or no usage was reported.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The form that serde asks for.
const fn is_zero(figure: &u64) -> bool {
    *figure == 0
}

impl Usage {
    /// What this is more than another; nothing where it is less.
    #[must_use]
    pub const fn beyond(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cost_micros: self.cost_micros.saturating_sub(other.cost_micros),
        }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stop_at_the_largest_number() {
        let usage = Usage {
            input_tokens: u64::MAX,
            output_tokens: 2,
            cost_micros: 0,
        };
        let sum: Usage = [usage, usage].into_iter().sum();
        let expected = Usage {
            input_tokens: u64::MAX,
            output_tokens: 4,
            cost_micros: 0,
        };
        assert_eq!(sum, expected);
        assert!(Usage::default().is_zero() && !sum.is_zero());
    }
}
