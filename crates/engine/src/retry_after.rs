//! The `Retry-After` header: seconds, or a date.

use std::time::{Duration, SystemTime};

/// No pause is longer, whatever an answer asks for.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an answer asks to be left alone.
pub(crate) fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    let pause = match header.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = httpdate::parse_http_date(header).ok()?;
            // A date that has passed asks for no pause.
            at.duration_since(now).unwrap_or_default()
        }
    };
    Some(pause.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_bounded() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
        let seconds = |header| retry_after(header, now).map(|pause| pause.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 0 "), Some(0));
        assert_eq!(seconds("Wed, 21 Oct 2026 07:28:30 GMT"), Some(30));
        assert_eq!(seconds("Wed, 21 Oct 2026 07:27:00 GMT"), Some(0));
        assert_eq!(seconds("99999999999"), Some(LONGEST.as_secs()));
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("-1"), None);
    }
}
