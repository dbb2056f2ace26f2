//! How long a call may take: what the client asked for, within what the operator allows.

use std::time::Duration;

use tonic::metadata::MetadataMap;

/// Kept back from the client's deadline, so that our answer arrives before it gives up.
const LARGEST_MARGIN: Duration = Duration::from_millis(100);

/// The budget of a call with this metadata.
pub(crate) fn budget(metadata: &MetadataMap, default: Duration, longest: Duration) -> Duration {
    let asked = metadata
        .get("grpc-timeout")
        .and_then(|value| parse(value.to_str().ok()?));
    let budget = asked.unwrap_or(default).min(longest);
    budget.saturating_sub((budget / 10).min(LARGEST_MARGIN))
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
        budget(&metadata, DEFAULT, LONGEST)
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
