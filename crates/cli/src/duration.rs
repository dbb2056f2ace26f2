//! Durations as people write them: `500ms`, `10s`, `2m`, `1h30m`.
//!
//! A number without a unit is refused, so that readers of the file or the command need not guess
//! the unit. Nothing in the notation needs quoting in a shell.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A duration that reads and prints the way people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a duration; write for example 500ms, 10s, 2m, 1h30m or 2d")]
pub struct SpanError(String);

/// Units, the longest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let wrong = || SpanError(text.to_owned());
        let mut rest = text;
        let mut millis = 0_u64;
        let mut longest = u64::MAX;
        while !rest.is_empty() {
            let (count, after) = leading(rest, |c| c.is_ascii_digit()).ok_or_else(wrong)?;
            let (unit, after) = leading(after, |c| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
            let known = UNITS.iter().find(|(name, _)| *name == unit);
            let (_, size) = known.ok_or_else(wrong)?;
            // Each unit once, in falling order: `30s2m` is more likely a slip than a wish.
            if *size >= longest {
                return Err(wrong());
            }
            let count: u64 = count.parse().map_err(|_| wrong())?;
            let part = count.checked_mul(*size).ok_or_else(wrong)?;
            millis = millis.checked_add(part).ok_or_else(wrong)?;
            longest = *size;
            rest = after;
        }
        if text.is_empty() {
            return Err(wrong());
        }
        Ok(Self(Duration::from_millis(millis)))
    }
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> Option<(&str, &str)> {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if left == 0 {
            return f.write_str("0s");
        }
        for (unit, size) in UNITS {
            if left >= size {
                write!(f, "{}{unit}", left / size)?;
                left %= size;
            }
        }
        Ok(())
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_printed_back() {
        for (text, millis) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1s500ms", 1_500),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_millis(millis));
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("90s".parse::<Span>().unwrap().to_string(), "1m30s");
        assert_eq!("0s".parse::<Span>().unwrap().to_string(), "0s");
    }

    #[test]
    fn what_leaves_a_doubt_is_refused() {
        for wrong in [
            "",
            "10",
            "s",
            "10 s",
            "1.5s",
            "-1s",
            "30s2m",
            "1s1s",
            "10S",
            "5w",
            "99999999999999999999s",
        ] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong} was accepted");
        }
    }
}
