//! Errors as clients see them: one gRPC code per kind, and always one `ErrorInfo`.

mod read_back;

use std::collections::HashMap;
use std::time::Duration;

use stateway_model::{ProviderId, hint};
use stateway_provider_api::{Error, ErrorKind};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::upstream::CallError;

/// The domain of every `ErrorInfo` of ours.
pub const DOMAIN: &str = "stateway.dev";

pub use read_back::provider_error;

/// Keys in the metadata of an `ErrorInfo` of a provider's error.
const KIND: &str = "kind";
const VERB: &str = "verb";
const PROVIDER: &str = "provider";
const NATIVE_CODE: &str = "native_code";
const COMPONENT: &str = "component";
const SUGGESTION: &str = "suggestion";
const ANSWERED: &str = "answered";
/// The hint with its actions as data, for clients that word them: see `stateway_model::hint`.
const HINT: &str = "hint";
/// The keys that belong to the gateway.
const RESERVED: [&str; 8] = [
    KIND,
    VERB,
    PROVIDER,
    NATIVE_CODE,
    COMPONENT,
    SUGGESTION,
    ANSWERED,
    HINT,
];
/// Before a key of the engine's own that would collide with a key of the gateway.
const OF_ENGINE: &str = "engine_";

/// Whether a key of the engine's own is written with the prefix.
fn is_prefixed(key: &str) -> bool {
    RESERVED.contains(&key.trim_start_matches(OF_ENGINE))
}

/// How long a client should pause when the provider does not say.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// The gRPC code of each kind of error.
pub(crate) const fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::FailedPrecondition => Code::FailedPrecondition,
        ErrorKind::Conflict => Code::Aborted,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::Throttled => Code::ResourceExhausted,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Timeout => Code::DeadlineExceeded,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::Expired => Code::OutOfRange,
        ErrorKind::DataLoss => Code::DataLoss,
        ErrorKind::Malformed | ErrorKind::Internal => Code::Internal,
    }
}

/// The code as gRPC documents spell it.
pub(crate) const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// The answer to a client when a provider refuses or fails.
pub(crate) fn of_provider(provider: &ProviderId, error: &Error) -> Status {
    let figures = error.metadata.iter();
    let mut metadata: HashMap<String, String> = figures
        .map(|(key, value)| {
            let prefix = if is_prefixed(key) { OF_ENGINE } else { "" };
            (format!("{prefix}{key}"), value.clone())
        })
        .collect();
    // Several kinds share one code.
    metadata.insert(KIND.to_owned(), error.kind.as_str().to_owned());
    metadata.insert(PROVIDER.to_owned(), provider.to_string());
    metadata.insert(VERB.to_owned(), error.verb.to_string());
    let texts = [
        (NATIVE_CODE, error.native_code.as_str()),
        (COMPONENT, error.component.as_deref().unwrap_or_default()),
        (SUGGESTION, error.suggestion.as_deref().unwrap_or_default()),
    ];
    if let Some(answered) = error.answered {
        metadata.insert(ANSWERED.to_owned(), answered.to_string());
    }
    let given = texts.iter().filter(|(_, text)| !text.is_empty());
    metadata.extend(given.map(|(key, text)| ((*key).to_owned(), (*text).to_owned())));
    let mut details = ErrorDetails::new();
    inform(&mut details, error.reason(), metadata, &error.hint);
    if error.kind.is_retryable() {
        details.set_retry_info(Some(error.retry_after.unwrap_or(DEFAULT_PAUSE)));
    }
    let mut message = format!("provider {provider}: {}", error.message);
    if let Some(similar) = &error.suggestion {
        message.push_str(&did_you_mean(similar));
    }
    Status::with_error_details(code(error.kind), message, details)
}

fn did_you_mean(similar: &str) -> String {
    format!("; did you mean `{similar}`?")
}

impl From<CallError> for Status {
    fn from(failed: CallError) -> Self {
        of_provider(&failed.provider, &failed.error)
    }
}

/// A refusal of the gateway's own.
pub(crate) struct Refusal {
    code: Code,
    reason: &'static str,
    message: String,
    metadata: HashMap<String, String>,
    violations: Vec<(&'static str, String)>,
    hint: String,
    pause: Option<Duration>,
}

/// Adds the reason, and what a person can do about it: as a message (AIP-193) that names methods of
/// the API, and in the metadata for clients that name their own commands or buttons.
fn inform(
    details: &mut ErrorDetails,
    reason: &str,
    mut metadata: HashMap<String, String>,
    advice: &str,
) {
    if hint::refers(advice) {
        metadata.insert(HINT.to_owned(), advice.to_owned());
    }
    details.set_error_info(reason, DOMAIN, metadata);
    if !advice.is_empty() {
        details.set_localized_message("en-US", hint::in_api(advice));
    }
}

impl Refusal {
    pub(crate) fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            metadata: HashMap::new(),
            violations: Vec::new(),
            hint: String::new(),
            pause: None,
        }
    }

    /// A request whose field is wrong whatever the state.
    pub(crate) fn invalid(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(Code::InvalidArgument, "INVALID_ARGUMENT", message.clone())
            .violation(field, message)
    }

    /// Something that has nothing behind it in this build.
    pub(crate) fn unsupported(what: &str) -> Self {
        let message = format!("no configured provider offers {what}");
        Self::new(Code::Unimplemented, "CAPABILITY_NOT_SUPPORTED", message)
            .hint("{GetProvider} lists the capabilities of each provider.")
    }

    /// Adds what is wrong with a field.
    pub(crate) fn violation(mut self, field: &'static str, what: impl Into<String>) -> Self {
        self.violations.push((field, what.into()));
        self
    }

    pub(crate) fn reason(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    pub(crate) const fn retry_after(mut self, pause: Duration) -> Self {
        self.pause = Some(pause);
        self
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut details = ErrorDetails::new();
        inform(
            &mut details,
            refusal.reason,
            refusal.metadata,
            &refusal.hint,
        );
        for (field, what) in refusal.violations {
            details.add_bad_request_violation(field, what);
        }
        if let Some(pause) = refusal.pause {
            details.set_retry_info(Some(pause));
        }
        Self::with_error_details(refusal.code, refusal.message, details)
    }
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::Verb;

    use super::*;

    #[test]
    fn every_kind_gets_an_error_info_and_the_retryable_ones_a_pause() {
        let provider: ProviderId = "shop".parse().unwrap();
        for kind in ErrorKind::ALL {
            let status = of_provider(&provider, &Error::new(*kind, Verb::Get, "it went wrong"));
            let details = status.get_error_details();
            let info = details.error_info().expect("an ErrorInfo");
            assert_eq!(
                (info.reason.as_str(), info.domain.as_str()),
                (kind.reason(), DOMAIN)
            );
            assert_eq!(info.metadata["provider"], "shop");
            assert_eq!(
                details.retry_info().is_some(),
                kind.is_retryable(),
                "{kind:?}"
            );
            assert_ne!(status.code(), Code::Unknown);
        }
    }

    #[test]
    fn only_unavailable_may_be_retried_blindly() {
        let unavailable = ErrorKind::ALL
            .iter()
            .filter(|kind| code(**kind) == Code::Unavailable)
            .count();
        assert_eq!(unavailable, 1);
    }

    #[test]
    fn the_providers_own_pause_is_passed_on() {
        let error = Error::new(ErrorKind::Throttled, Verb::List, "slow down")
            .with_retry_after(Duration::from_secs(7))
            .with_native_code("ThrottlingException");
        let status = of_provider(&"aws".parse().unwrap(), &error);
        let details = status.get_error_details();
        let pause = details.retry_info().and_then(|info| info.retry_delay);
        assert_eq!(pause, Some(Duration::from_secs(7)));
        let info = details.error_info().expect("an ErrorInfo");
        assert_eq!(info.metadata["native_code"], "ThrottlingException");
    }
}
