//! Numbers.

use stateway_proto::v1::Usage;

/// `1,234,567`.
#[must_use]
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1,200 tokens in, 30 out, cost 1.05`. The worker chooses the currency.
#[must_use]
pub fn usage(usage: &Usage) -> String {
    let input = grouped(usage.input_token_count);
    let output = grouped(usage.output_token_count);
    let mut text = format!("{input} tokens in, {output} out");
    if usage.cost_micros > 0 {
        text.push_str(", cost ");
        text.push_str(&cost(usage.cost_micros));
    }
    text
}

/// At least two digits after the point, and no zeros at the end beyond them.
fn cost(micros: i64) -> String {
    let (whole, mut part) = (micros / 1_000_000, micros % 1_000_000);
    let mut digits = 6;
    while digits > 2 && part % 10 == 0 {
        (part, digits) = (part / 10, digits - 1);
    }
    format!("{}.{part:0digits$}", grouped(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let shown = [0, 999, 1_000, 100_000, 1_234_567, -1_000].map(grouped);
        assert_eq!(
            shown,
            ["0", "999", "1,000", "100,000", "1,234,567", "-1,000"]
        );
    }

    #[test]
    fn usage_shows_tokens_and_cost() {
        let of = |cost_micros| {
            usage(&Usage {
                input_token_count: 1_200,
                output_token_count: 30,
                cost_micros,
            })
        };
        assert_eq!(of(0), "1,200 tokens in, 30 out");
        assert_eq!(of(1_050_000), "1,200 tokens in, 30 out, cost 1.05");
        assert_eq!(of(2_000_000), "1,200 tokens in, 30 out, cost 2.00");
        assert_eq!(of(1), "1,200 tokens in, 30 out, cost 0.000001");
    }
}
