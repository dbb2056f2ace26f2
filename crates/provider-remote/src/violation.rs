//! Remembers the last time that the provider broke the contract, for its health report.

use std::sync::Mutex;

use jiff::{Timestamp, Unit};
use stateway_model::ProviderId;
use stateway_provider_api::Error;
use stateway_provider_api::adapter::lock;

use crate::error::{BREAKS_CONTRACT, TOO_LARGE};

/// The reason of a watch that is silent for too long.
pub(crate) const STALLED: &str = "PROVIDER_STALLED";
/// The reason of a watch that sends too much.
pub(crate) const FLOODS: &str = "PROVIDER_FLOODS";
/// The reason of a provider that closes its connections repeatedly.
pub(crate) const CLOSES: &str = "PROVIDER_CLOSES_CONNECTIONS";
/// The most bytes of a message that is shown.
const SHOWN: usize = 256;

/// What one provider did wrong since the gateway started.
#[derive(Default)]
pub(crate) struct Violations(Mutex<Option<Last>>);

struct Last {
    reason: String,
    message: String,
    at: Timestamp,
    count: u64,
}

impl Violations {
    /// Takes note of an error, if the provider broke the contract.
    pub(crate) fn note(&self, provider: &ProviderId, error: &Error) {
        if is_violation(error) {
            self.record(provider, error);
        }
    }

    /// Takes note of a violation of the contract.
    pub(crate) fn record(&self, provider: &ProviderId, error: &Error) {
        let message = &error.message[..error.message.floor_char_boundary(SHOWN)];
        let message = message.replace(char::is_control, " ");
        let mut last = lock(&self.0);
        let count = last.as_ref().map_or(0, |last| last.count);
        let is_new = last.as_ref().is_none_or(|last| last.message != message);
        let reason = error.reason().to_owned();
        if is_new {
            tracing::warn!(%provider, reason, "the provider broke the contract: {message}");
        }
        *last = Some(Last {
            reason,
            message,
            at: Timestamp::now(),
            count: count.saturating_add(1),
        });
    }

    /// One line about the last violation; empty when there was none.
    pub(crate) fn remark(&self) -> String {
        let last = lock(&self.0);
        let Some(last) = &*last else {
            return String::new();
        };
        let (reason, message, count) = (&last.reason, &last.message, last.count);
        let at = last.at.round(Unit::Second).unwrap_or(last.at);
        format!("contract violations: {count}, the last at {at}: {reason}: {message}")
    }
}

/// Whether the gateway found a broken rule of the contract. A failure that the provider itself reports, for
/// example an answer of the engine that it cannot understand, breaks no rule.
fn is_violation(error: &Error) -> bool {
    let reason = error.reason.as_deref().unwrap_or_default();
    [STALLED, FLOODS, CLOSES, BREAKS_CONTRACT, TOO_LARGE].contains(&reason)
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::{ErrorKind, Verb};

    use super::*;

    #[test]
    fn the_last_violation_is_shown_with_its_reason_and_their_number() {
        let (violations, provider) = (Violations::default(), "far".parse().unwrap());
        let error = |kind, message: &str| Error::new(kind, Verb::Get, message.to_owned());
        violations.note(&provider, &error(ErrorKind::NotFound, "no such execution"));
        violations.note(
            &provider,
            &error(ErrorKind::Malformed, "the engine babbles"),
        );
        assert_eq!(violations.remark(), "");
        let first = error(ErrorKind::Malformed, "first").with_reason(BREAKS_CONTRACT);
        violations.note(&provider, &first);
        let stalled = error(ErrorKind::Unavailable, &"ü\n".repeat(1_000)).with_reason(STALLED);
        violations.note(&provider, &stalled);
        let shown = violations.remark();
        assert!(shown.starts_with("contract violations: 2, the last at 2"));
        assert!(shown.contains("Z: PROVIDER_STALLED: ü "), "{shown}");
        assert!(shown.len() < 400 && !shown.contains('\n'));
    }
}
