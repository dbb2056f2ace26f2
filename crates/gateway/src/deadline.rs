//! How long a call may take: what the client asked for, within what the operator allows.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// Kept back from the client's deadline, so that our answer arrives before it gives up.
const LARGEST_MARGIN: Duration = Duration::from_millis(100);

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The deadline that is passed to the work.
    pub(crate) work: Duration,
    /// Then nobody waits any more.
    pub(crate) all: Duration,
}

impl Budget {
    /// The budget of a call with this metadata.
    pub(crate) fn of(metadata: &MetadataMap, default: Duration, longest: Duration) -> Self {
        let asked = metadata
            .get("grpc-timeout")
            .and_then(|value| parse(value.to_str().ok()?));
        let all = asked.unwrap_or(default).min(longest);
        let work = all.saturating_sub((all / 10).min(LARGEST_MARGIN));
        Self { work, all }
    }
}

/// The wire form: at most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Duration = Duration::from_secs(30);
    const LONGEST: Duration = Duration::from_secs(60);

    fn budget_of(timeout: Option<&str>) -> Duration {
        let mut metadata = MetadataMap::new();
        if let Some(timeout) = timeout {
            metadata.insert("grpc-timeout", timeout.parse().unwrap());
        }
        Budget::of(&metadata, DEFAULT, LONGEST).work
    }

    #[test]
    fn the_clients_deadline_counts_less_a_margin() {
        assert_eq!(budget_of(Some("2S")), Duration::from_millis(1_900));
        assert_eq!(budget_of(Some("100m")), Duration::from_millis(90));
    }

    #[test]
    fn no_deadline_and_nonsense_get_the_default() {
        let default = DEFAULT - LARGEST_MARGIN;
        for wrong in [
            None,
            Some(""),
            Some("S"),
            Some("12"),
            Some("-1S"),
            Some("123456789S"),
        ] {
            assert_eq!(budget_of(wrong), default, "{wrong:?}");
        }
    }

    #[test]
    fn no_client_gets_more_than_the_longest() {
        assert_eq!(budget_of(Some("99999999H")), LONGEST - LARGEST_MARGIN);
    }
}
