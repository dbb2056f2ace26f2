//! Errors as clients see them: one gRPC code per kind, and always one `ErrorInfo`.

use std::collections::HashMap;
use std::time::Duration;

use stateway_engine::EngineError;
use stateway_model::ProviderId;
use stateway_provider_api::{Error, ErrorKind};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The domain of every `ErrorInfo` of ours.
pub const DOMAIN: &str = "stateway.dev";

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

/// The answer to a client when a provider refuses or fails.
pub(crate) fn of_provider(provider: &ProviderId, error: &Error) -> Status {
    let mut metadata = metadata(&error.metadata);
    metadata.insert("verb".to_owned(), error.verb.to_string());
    if !error.native_code.is_empty() {
        metadata.insert("native_code".to_owned(), error.native_code.clone());
    }
    let mut message = error.message.clone();
    if let Some(similar) = &error.suggestion {
        metadata.insert("suggestion".to_owned(), similar.to_string());
        message = format!("{message}; did you mean `{similar}`?");
    }
    Failure {
        kind: error.kind,
        reason: error.reason(),
        message: &message,
        hint: &error.hint,
        component: error.component,
        retry_after: error.retry_after,
        metadata,
    }
    .status(provider)
}

/// The answer to a client when a built-in engine refuses or fails a call through its handle.
pub(crate) fn of_engine(provider: &ProviderId, error: &EngineError) -> Status {
    Failure {
        kind: error.kind,
        reason: error.reason,
        message: &error.message,
        hint: &error.hint,
        component: error.component,
        retry_after: error.retry_after,
        metadata: metadata(&error.metadata),
    }
    .status(provider)
}

/// The answer to a client when an engine does not answer within the deadline.
pub(crate) fn no_answer(provider: &ProviderId) -> Status {
    Failure {
        kind: ErrorKind::Timeout,
        reason: ErrorKind::Timeout.reason(),
        message: "no answer in time",
        hint: "",
        component: None,
        retry_after: None,
        metadata: HashMap::new(),
    }
    .status(provider)
}

fn metadata(figures: &[(&'static str, String)]) -> HashMap<String, String> {
    let figures = figures.iter();
    figures
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect()
}

/// An error of a provider or of an engine.
struct Failure<'e> {
    kind: ErrorKind,
    reason: &'static str,
    message: &'e str,
    hint: &'e str,
    component: Option<&'static str>,
    retry_after: Option<Duration>,
    metadata: HashMap<String, String>,
}

impl Failure<'_> {
    fn status(mut self, provider: &ProviderId) -> Status {
        self.metadata
            .insert("provider".to_owned(), provider.to_string());
        if !self.hint.is_empty() {
            self.metadata
                .insert("hint".to_owned(), self.hint.to_owned());
        }
        if let Some(component) = self.component {
            self.metadata
                .insert("component".to_owned(), component.to_owned());
        }
        let mut details = ErrorDetails::new();
        details.set_error_info(self.reason, DOMAIN, self.metadata);
        if self.kind.is_retryable() {
            details.set_retry_info(Some(self.retry_after.unwrap_or(DEFAULT_PAUSE)));
        }
        let message = format!("provider {provider}: {}", self.message);
        Status::with_error_details(code(self.kind), message, details)
    }
}

/// A refusal of the gateway's own.
pub(crate) struct Refusal {
    code: Code,
    reason: &'static str,
    message: String,
    metadata: HashMap<String, String>,
    violations: Vec<(&'static str, String)>,
    pause: Option<Duration>,
}

impl Refusal {
    pub(crate) fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            metadata: HashMap::new(),
            violations: Vec::new(),
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
            .hint("GetProvider lists the capabilities of each provider.")
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

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        if hint.is_empty() {
            self
        } else {
            self.with("hint", hint)
        }
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
        details.set_error_info(refusal.reason, DOMAIN, refusal.metadata);
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
    use std::sync::Arc;

    use async_trait::async_trait;
    use stateway_provider_api::{Call, Capabilities, Provider, Verb, View};
    use stateway_provider_builtin::{BuiltinProvider, Config, Disturb};

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

    /// Lets every call to an engine fail.
    struct Failing(ErrorKind);

    fn failure(kind: ErrorKind) -> EngineError {
        EngineError {
            kind,
            reason: "SOME_REASON",
            message: "the engine refused".to_owned(),
            hint: "Try something else.".to_owned(),
            component: Some("store"),
            retry_after: Some(Duration::from_secs(7)),
            metadata: vec![("figure", "42".to_owned())],
        }
    }

    #[async_trait]
    impl Disturb for Failing {
        async fn disturb(&self) -> Result<(), EngineError> {
            Err(failure(self.0))
        }
    }

    #[tokio::test]
    async fn an_error_of_the_engine_is_the_same_through_the_provider_and_through_the_handle() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            path: folder.path().join("store.db"),
            ..Config::default()
        };
        let provider: ProviderId = "shop".parse().unwrap();
        let opened = BuiltinProvider::open(&config).unwrap();
        for kind in ErrorKind::ALL {
            let failing = Arc::new(Failing(*kind));
            let adapter = BuiltinProvider::over(opened.engine().clone(), Capabilities::ALL)
                .disturbed_by(failing);
            let call = Call::within(Duration::from_secs(5));
            let id = stateway_model::ExecutionId::new("some").unwrap();
            let refused = adapter.get(&call, &id, View::Basic).await.unwrap_err();
            let through_provider = told(&of_provider(&provider, &refused));
            let through_handle = told(&of_engine(&provider, &failure(*kind)));
            assert_eq!(through_provider, through_handle, "{kind:?}");
        }
    }

    /// Everything that a client can read of a status, except the verb, which only a provider has.
    fn told(status: &Status) -> impl PartialEq + std::fmt::Debug + use<> {
        let details = status.get_error_details();
        let info = details.error_info().expect("an ErrorInfo").clone();
        let metadata: std::collections::BTreeMap<_, _> = info.metadata.into_iter().collect();
        let metadata = metadata.into_iter().filter(|(key, _)| key != "verb");
        (
            status.code(),
            status.message().to_owned(),
            info.reason,
            metadata.collect::<Vec<_>>(),
            details.retry_info().and_then(|info| info.retry_delay),
        )
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
