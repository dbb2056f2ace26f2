//! Numbers.

use stateway_proto::v1::{RecentTasks, Usage};

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

/// How many tasks a minute a worker completed, and how many failed: `12.5` and `0.2`. Less than a minute counts as
/// one, because a few seconds do not make a rate.
#[must_use]
pub fn per_minute(recent: &RecentTasks) -> (String, String) {
    let seconds = recent
        .window_duration
        .as_ref()
        .map_or(0, |window| window.seconds);
    let rate = |count: i32| {
        let tenths = i64::from(count).max(0) * 600 / seconds.max(60);
        format!("{}.{}", grouped(tenths / 10), tenths % 10)
    };
    (rate(recent.completed_count), rate(recent.failed_count))
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
    fn a_rate_is_per_minute_and_a_few_seconds_count_as_a_minute() {
        let of = |seconds, completed_count, failed_count| {
            let recent = RecentTasks {
                window_duration: Some(prost_types::Duration { seconds, nanos: 0 }),
                completed_count,
                failed_count,
                refused_count: 0,
            };
            per_minute(&recent)
        };
        assert_eq!(of(290, 60, 1), ("12.4".into(), "0.2".into()));
        assert_eq!(of(5, 3, 0), ("3.0".into(), "0.0".into()));
        assert_eq!(of(120, 4_000, 0), ("2,000.0".into(), "0.0".into()));
        assert_eq!(
            per_minute(&RecentTasks::default()),
            ("0.0".into(), "0.0".into())
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
