//! The attempts of an execution or a step.

use jiff::Timestamp;
use stateway_proto::v1;

use crate::{Piece, moment};

/// The part of `v1::Retry` that a sentence needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retry<'a> {
    /// The number of the attempt; 0 when it is not known.
    pub attempt: i32,
    /// The limit; `Some(0)` for no limit, none when it is not known.
    pub max_attempt_count: Option<i32>,
    /// When the next attempt begins.
    pub next_attempt_time: Option<Timestamp>,
    /// The message of the last error.
    pub last_error: Option<&'a str>,
}

impl<'a> From<&'a v1::Retry> for Retry<'a> {
    fn from(retry: &'a v1::Retry) -> Self {
        Self {
            attempt: retry.attempt,
            max_attempt_count: retry.max_attempt_count,
            next_attempt_time: moment(retry.next_attempt_time.as_ref()),
            last_error: retry.last_error.as_ref().map(|error| &*error.message),
        }
    }
}

/// `attempt 2 of 5`.
#[must_use]
pub fn attempt(attempt: i32, max_attempt_count: Option<i32>) -> String {
    match max_attempt_count {
        Some(0) => format!("attempt {attempt} (no limit)"),
        Some(most) => format!("attempt {attempt} of {most}"),
        None => format!("attempt {attempt}"),
    }
}

/// `attempt 2 of 5 failed; next attempt in 12 s: connection refused`. The time is before the
/// message, which a narrow screen may cut.
#[must_use]
pub fn backing_off<'a>(retry: &Retry<'a>) -> Vec<Piece<'a>> {
    let mut pieces = vec![Piece::from(match retry.attempt {
        0 => "an attempt failed".to_owned(),
        number => format!("{} failed", attempt(number, retry.max_attempt_count)),
    })];
    if let Some(time) = retry.next_attempt_time {
        pieces.extend(["; next attempt ".into(), Piece::Until(time)]);
    }
    if let Some(message) = retry.last_error {
        pieces.extend([": ".into(), Piece::Message(message)]);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_not_zero() {
        assert_eq!(attempt(3, Some(0)), "attempt 3 (no limit)");
        assert_eq!(attempt(3, Some(5)), "attempt 3 of 5");
        assert_eq!(attempt(3, None), "attempt 3");
    }

    #[test]
    fn a_back_off_names_attempt_time_and_error() {
        let retry = Retry {
            attempt: 2,
            max_attempt_count: Some(5),
            next_attempt_time: Some(Timestamp::UNIX_EPOCH),
            last_error: Some("connection refused"),
        };
        let line = |retry| crate::plain(&backing_off(&retry), |_| "in 12 s".to_owned());
        assert_eq!(
            line(retry),
            "attempt 2 of 5 failed; next attempt in 12 s: connection refused"
        );
        assert_eq!(line(Retry::default()), "an attempt failed");
    }
}
