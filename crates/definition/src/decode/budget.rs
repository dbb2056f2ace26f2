//! `maxCost` and `maxTokens`, the same for a workflow and for a step.

use super::fields::Fields;
use super::value;
use crate::definition::Budget;
use crate::diagnostic::Problems;
use crate::limits::{MAX_COST, MAX_TOKENS};
use crate::rule::Rule;
use crate::source::{Node, NodeValue};

const MICROS_PER_UNIT: u64 = 1_000_000;
const DECIMALS: usize = 6;

pub(super) fn budget(fields: &Fields<'_>, problems: &mut Problems) -> Budget {
    Budget {
        max_cost_micros: fields
            .get("maxCost")
            .and_then(|node| cost(node, "maxCost", problems)),
        max_tokens: fields
            .get("maxTokens")
            .and_then(|node| value::number(node, "maxTokens", 1..=MAX_TOKENS, problems)),
    }
}

/// An amount of currency units, as millionths.
fn cost(node: &Node, name: &str, problems: &mut Problems) -> Option<u64> {
    let NodeValue::Number(number) = &node.value else {
        return value::wrong(node, name, "an amount such as `12.50`", problems);
    };
    // Rust prints a floating-point number with the fewest digits that read back as the same number
    // and without an exponent, so these are the digits of the file.
    let written = match (number.as_u64(), number.as_f64()) {
        (Some(whole), _) => Some(whole.to_string()),
        (None, Some(amount)) => Some(amount.to_string()),
        (None, None) => None,
    };
    let micros = written.as_deref().and_then(micros);
    if micros.is_none() {
        problems.error(
            Rule::OutOfRange,
            node.at,
            format!("`{name}` is {number}"),
            format!(
                "Use an amount above 0 and up to {MAX_COST}, with at most {DECIMALS} decimals."
            ),
        );
    }
    micros
}

fn micros(written: &str) -> Option<u64> {
    let (units, decimals) = written.split_once('.').unwrap_or((written, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if decimals.len() > DECIMALS || !digits(units) || !digits(decimals) {
        return None;
    }
    let units: u64 = units.parse().ok()?;
    let millionths: u64 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
    let micros = units
        .checked_mul(MICROS_PER_UNIT)?
        .checked_add(millionths)?;
    (micros > 0 && micros <= MAX_COST * MICROS_PER_UNIT).then_some(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_exact_to_the_millionth() {
        for (written, expected) in [
            ("1", Some(1_000_000)),
            ("0.1", Some(100_000)),
            ("12.5", Some(12_500_000)),
            ("0.000001", Some(1)),
            ("999999999.999999", Some(999_999_999_999_999)),
            ("1000000000", Some(1_000_000_000_000_000)),
            ("1000000000.000001", None),
            ("0.0000001", None),
            ("0", None),
            ("0.0", None),
            ("-1", None),
            ("inf", None),
        ] {
            assert_eq!(micros(written), expected, "{written}");
        }
    }
}
