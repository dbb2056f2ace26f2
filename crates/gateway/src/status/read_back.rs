//! A status of a gateway, read back as the provider error it was made from. Pure.
//!
//! A gRPC code does not name the kind of an error: several kinds share one code. The `ErrorInfo` of a
//! provider's error therefore carries the kind, and everything else that an adapter to a provider in
//! another process needs to return the same error again.

use std::time::Duration;

use stateway_provider_api::{Error, ErrorKind, Verb};
use tonic::Status;
use tonic_types::StatusExt;

use super::{
    ANSWERED, COMPONENT, DOMAIN, HINT, KIND, NATIVE_CODE, OF_ENGINE, PROVIDER, SUGGESTION, VERB,
    is_prefixed,
};

/// The provider error that a status was made from; `None` if the status is not the status of a
/// provider's error.
#[must_use]
pub fn provider_error(status: &Status) -> Option<Error> {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.domain == DOMAIN)?;
    let mut metadata = info.metadata.clone();
    let kind = ErrorKind::from_word(&metadata.remove(KIND)?)?;
    let verb = Verb::from_word(&metadata.remove(VERB)?)?;
    let provider = metadata.remove(PROVIDER)?;
    let mut message = status.message();
    message = message
        .strip_prefix(&format!("provider {provider}: "))
        .unwrap_or(message);
    let suggestion = metadata.remove(SUGGESTION);
    let meant = suggestion.as_ref().map(|name| super::did_you_mean(name));
    if let Some(meant) = meant {
        message = message.strip_suffix(&meant).unwrap_or(message);
    }
    let mut error = Error::new(kind, verb, message);
    let hint = details.localized_message();
    error.hint = metadata
        .remove(HINT)
        .or_else(|| hint.map(|hint| hint.message.clone()))
        .unwrap_or_default();
    error.native_code = metadata.remove(NATIVE_CODE).unwrap_or_default();
    error.reason = Some(info.reason.clone())
        .filter(|reason| reason != kind.reason())
        .map(Into::into);
    error.component = metadata.remove(COMPONENT).map(Into::into);
    error.suggestion = suggestion.map(Into::into);
    error.retry_after = pause(&details);
    let answered = metadata.remove(ANSWERED);
    error.answered = answered.and_then(|answered| answered.parse().ok());
    let figures = metadata.into_iter();
    let mut figures: Vec<_> = figures.map(|(key, value)| (own_key(key), value)).collect();
    figures.sort();
    Some(error.with_metadata(figures))
}

/// The key as the engine wrote it.
fn own_key(key: String) -> String {
    match key.strip_prefix(OF_ENGINE) {
        Some(own) if is_prefixed(own) => own.to_owned(),
        _ => key,
    }
}

fn pause(details: &tonic_types::ErrorDetails) -> Option<Duration> {
    details.retry_info().and_then(|info| info.retry_delay)
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::ErrorParts;

    use super::*;
    use crate::status::{DEFAULT_PAUSE, of_provider};

    fn whole(kind: ErrorKind, verb: Verb) -> Error {
        Error::new(kind, verb, "it went wrong")
            .with_hint("Do something else.")
            .with_native_code("E42")
            .with_reason("SOME_REASON".to_owned())
            .with_component("ingress".to_owned())
            .with_suggestion("order-saga")
            .with_metadata([("figure", "42".to_owned()), ("other", "7".to_owned())])
    }

    fn parts(error: &Error) -> impl PartialEq + std::fmt::Debug {
        let ErrorParts {
            kind,
            verb,
            message,
            hint,
            native_code,
            reason,
            component,
            suggestion,
            metadata,
            retry_after,
            answered,
            // Stays in the process that has it.
            source: _,
        } = &**error;
        (
            (kind, verb, message, hint, native_code, answered),
            (reason, component, suggestion, metadata, retry_after),
        )
    }

    #[test]
    fn every_kind_and_verb_survives_the_trip_over_grpc() {
        let provider = "shop".parse().unwrap();
        for kind in ErrorKind::ALL {
            for verb in Verb::ALL {
                let plain = || Error::new(*kind, *verb, "no more");
                for mut sent in [
                    whole(*kind, *verb),
                    plain(),
                    plain().by_engine(),
                    plain().without_engine(),
                    plain().with_hint("{RetryNow} retries immediately."),
                ] {
                    let back = provider_error(&of_provider(&provider, &sent)).unwrap();
                    // A client is always given a pause where a retry helps.
                    sent.retry_after = kind.is_retryable().then_some(DEFAULT_PAUSE);
                    assert_eq!(parts(&back), parts(&sent));
                }
            }
        }
    }

    #[test]
    fn keys_of_the_engine_that_the_gateway_uses_too_survive() {
        let keys = [
            "answered",
            "engine_figure",
            "engine_kind",
            "kind",
            "native_code",
            "provider",
            "verb",
        ];
        let sent = Error::new(ErrorKind::NotFound, Verb::Get, "gone")
            .with_metadata(keys.map(|key| (key, format!("its {key}"))));
        let status = of_provider(&"shop".parse().unwrap(), &sent);
        assert_eq!(parts(&provider_error(&status).unwrap()), parts(&sent));
        let info = status.get_error_details();
        let info = info.error_info().unwrap();
        assert_eq!(info.metadata["provider"], "shop");
        assert_eq!(info.metadata["engine_provider"], "its provider");
    }

    #[test]
    fn the_pause_of_the_engine_survives() {
        let pause = Duration::from_secs(7);
        let sent =
            Error::new(ErrorKind::Throttled, Verb::List, "slow down").with_retry_after(pause);
        let status = of_provider(&"aws".parse().unwrap(), &sent);
        assert_eq!(provider_error(&status).unwrap().retry_after, Some(pause));
    }

    #[test]
    fn a_status_of_anyone_else_is_no_provider_error() {
        assert!(provider_error(&Status::internal("broken")).is_none());
        let refusal = super::super::Refusal::invalid("name", "a wrong name");
        assert!(provider_error(&refusal.into()).is_none());
    }
}
