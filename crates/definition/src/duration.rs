//! Durations as people write them: `500ms`, `30s`, `5m`, `1h30m`, `2d`.

use std::time::Duration;

use crate::limits::MAX_DURATION;

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Reads a duration. The error is a lower-case fragment.
///
/// # Errors
/// An unknown unit, a missing number, nothing at all, or more than ten years.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a duration is empty".to_owned());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (millis, after) = part(rest, text)?;
        total = total.saturating_add(Duration::from_millis(millis));
        rest = after;
    }
    if total > MAX_DURATION {
        return Err(format!("`{}` is longer than ten years", shown(text)));
    }
    Ok(total)
}

fn part<'t>(rest: &'t str, whole: &str) -> Result<(u64, &'t str), String> {
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (number, rest) = rest.split_at(digits);
    let letters = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(letters);
    let factor = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor);
    match (number.parse::<u64>(), factor) {
        (Ok(number), Some(factor)) => Ok((number.saturating_mul(factor), rest)),
        _ => Err(format!("`{}` is not a duration", shown(whole))),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Writes a duration so that [`parse_duration`] reads it back: the largest units first.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, factor) in UNITS.iter().rev() {
        if millis >= *factor {
            text.push_str(&format!("{}{unit}", millis / factor));
            millis %= factor;
        }
    }
    text
}

/// Serde for an optional duration in its written form.
pub(crate) mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(super::format_duration).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse_duration(&text).map_err(serde::de::Error::custom))
            .transpose()
    }
}

/// Serde for a duration in its written form.
pub(crate) mod text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_duration(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_duration(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        let cases = [
            ("500ms", 500),
            ("1s", 1_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
        ];
        for (text, millis) in cases {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for millis in [0, 1, 999, 1_000, 61_001, 90_061_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }

    #[test]
    fn numbers_without_a_unit_and_nonsense_are_refused() {
        for wrong in [
            "", "5", "m", "5 m", "-1s", "1.5h", "5minutes", "99999d", "1s?",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
