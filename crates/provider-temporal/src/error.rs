//! Temporal's answers as errors: one place that knows which gRPC code means what.

use std::time::Duration;

use prost::Message;
use stateway_provider_api::adapter::one_line;
use stateway_provider_api::{Error, ErrorKind, Verb};
use tonic::{Code, Status};

use crate::quota::Limit;

/// The header that names the limit that was reached.
const EXHAUSTED_CAUSE: &str = "x-resource-exhausted-cause";
/// How long to wait when the server names no pause: its limits count calls per second, except those of
/// calls under way.
const RATE_PAUSE: Duration = Duration::from_secs(1);
const LOAD_PAUSE: Duration = Duration::from_secs(5);

/// Causes that are about the server and not about the caller.
const LOAD: [&str; 3] = ["SystemOverloaded", "Persistence", "CircuitBreaker"];

/// `google.rpc.Status`, which carries the details of an error.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

/// The first detail of this type.
fn detail<T: Message + Default>(status: &Status, name: &str) -> Option<T> {
    let details = RpcStatus::decode(status.details()).ok()?.details;
    let found = details.iter().find(|any| type_name(any) == name)?;
    T::decode(&*found.value).ok()
}

/// The short name of a detail's type: `NotFoundFailure`.
fn type_name(any: &prost_types::Any) -> &str {
    any.type_url.rsplit(['/', '.']).next().unwrap_or_default()
}

fn has_detail(status: &Status, name: &str) -> bool {
    let details = RpcStatus::decode(status.details())
        .unwrap_or_default()
        .details;
    details.iter().any(|any| type_name(any) == name)
}

/// An answer that is not the one hoped for.
pub(crate) fn refusal(verb: Verb, status: &Status) -> Error {
    if has_detail(status, "NamespaceNotFoundFailure") {
        return Error::new(ErrorKind::Unavailable, verb, one_line(status.message()))
            .with_reason("NAMESPACE_NOT_FOUND")
            .with_hint("Check `namespace` in the provider's configuration.")
            .with_native_code(code_name(status.code()));
    }
    let kind = kind(status);
    let what = match kind {
        ErrorKind::Unavailable => "the Temporal server is not available",
        ErrorKind::Malformed => "the Temporal server's answer cannot be understood",
        _ => "the Temporal server answered",
    };
    let error = Error::new(kind, verb, format!("{what}: {}", message(status)))
        .with_native_code(code_name(status.code()));
    let error = match cause(status) {
        Some(cause) => error.with_metadata([("resource_exhausted_cause", cause)]),
        None => error,
    };
    match kind {
        ErrorKind::Throttled => {
            error.with_retry_after(throttle(status).map_or(RATE_PAUSE, |it| it.pause))
        }
        ErrorKind::PermissionDenied => {
            error.with_hint("Check the API key or the certificate, and the namespace.")
        }
        ErrorKind::InvalidArgument => error.by_engine(),
        ErrorKind::Unsupported => error
            .by_engine()
            .with_hint("The version or the configuration of this server does not support it."),
        ErrorKind::Unavailable => {
            error.with_hint("Check that the server runs and `address` names it.")
        }
        _ => error,
    }
}

/// The message of the server, or why it could not be reached: the innermost cause is clearer than the transport's
/// own words.
fn message(status: &Status) -> String {
    let mut cause = std::error::Error::source(status);
    let mut innermost = None;
    while let Some(error) = cause {
        innermost = Some(error.to_string());
        cause = error.source();
    }
    let own = one_line(status.message());
    match innermost {
        Some(inner) if !own.contains(&inner) => format!("{own}: {}", one_line(&inner)),
        _ => own,
    }
}

fn kind(status: &Status) -> ErrorKind {
    let message = status.message();
    match status.code() {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidArgument,
        Code::FailedPrecondition => ErrorKind::FailedPrecondition,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::ResourceExhausted if message.contains("larger than max") => {
            ErrorKind::InvalidArgument
        }
        Code::ResourceExhausted => ErrorKind::Throttled,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::PermissionDenied,
        Code::DeadlineExceeded | Code::Cancelled => ErrorKind::Timeout,
        Code::Internal | Code::Unknown if is_undecodable(message) => ErrorKind::Malformed,
        Code::Ok => ErrorKind::Malformed,
        Code::Unavailable | Code::Aborted | Code::Internal | Code::Unknown | Code::DataLoss => {
            ErrorKind::Unavailable
        }
    }
}

/// Whether the client of this process could not read the answer.
fn is_undecodable(message: &str) -> bool {
    [
        "decode",
        "protocol error",
        "invalid content-type",
        "invalid compression flag",
    ]
    .iter()
    .any(|part| message.contains(part))
}

fn cause(status: &Status) -> Option<String> {
    let cause = status.metadata().get(EXHAUSTED_CAUSE)?;
    Some(cause.to_str().ok()?.to_owned())
}

/// A request of the server to slow down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttle {
    pub(crate) pause: Duration,
    pub(crate) limit: Limit,
}

/// How long the server wants to be left alone, and by which calls; `None` unless it asks to slow down.
pub(crate) fn throttle(status: &Status) -> Option<Throttle> {
    if kind(status) != ErrorKind::Throttled {
        return None;
    }
    let cause = cause(status).unwrap_or_default();
    let limit = if cause.contains("BusyWorkflow") {
        Limit::OneWorkflow
    } else if cause.contains("Concurrent") {
        Limit::Concurrent
    } else if LOAD.iter().any(|word| cause.contains(word)) {
        Limit::Server
    } else {
        Limit::Rate
    };
    let named = detail::<RetryInfo>(status, "RetryInfo").and_then(|info| info.retry_delay);
    let pause = match named.map(Duration::try_from) {
        Some(Ok(pause)) => pause,
        _ if matches!(limit, Limit::Concurrent | Limit::Server) => LOAD_PAUSE,
        _ => RATE_PAUSE,
    };
    Some(Throttle { pause, limit })
}

/// The call's deadline passed.
pub(crate) fn timeout(verb: Verb) -> Error {
    Error::new(
        ErrorKind::Timeout,
        verb,
        "the Temporal server did not answer in time",
    )
}

/// An answer without something that it must have.
pub(crate) fn malformed(verb: Verb, what: impl std::fmt::Display) -> Error {
    let message = format!("the Temporal server's answer cannot be understood: {what}");
    Error::new(ErrorKind::Malformed, verb, message)
}

fn code_name(code: Code) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Api;

    fn exhausted(cause: &'static str) -> Status {
        let mut status = Status::resource_exhausted("namespace rate limit exceeded");
        let value = tonic::metadata::MetadataValue::from_static(cause);
        status.metadata_mut().insert(EXHAUSTED_CAUSE, value);
        status
    }

    #[test]
    fn a_limit_is_respected_for_as_long_as_its_cause_lasts() {
        for (cause, pause) in [("RpsLimit", RATE_PAUSE), ("ConcurrentLimit", LOAD_PAUSE)] {
            let error = refusal(Verb::List, &exhausted(cause));
            assert_eq!(error.kind, ErrorKind::Throttled);
            assert_eq!(error.retry_after, Some(pause), "{cause}");
            assert_eq!(error.metadata[0].1, cause);
        }
        let large = Status::resource_exhausted("grpc: received message larger than max (5 vs. 4)");
        assert_eq!(
            refusal(Verb::Start, &large).kind,
            ErrorKind::InvalidArgument
        );
        assert_eq!(throttle(&large), None);
    }

    #[test]
    fn a_refusal_pauses_the_calls_that_it_is_about() {
        use crate::quota::Api::{LongPolls, Reads, Visibility};
        let paused = |cause, refused| {
            let limit = throttle(&exhausted(cause)).unwrap().limit;
            let concerned = Api::ALL.into_iter();
            concerned
                .filter(|api| limit.concerns(refused, *api))
                .collect::<Vec<_>>()
        };
        assert_eq!(paused("ConcurrentLimit", Some(LongPolls)), [LongPolls]);
        assert_eq!(paused("RpsLimit", Some(LongPolls)), [Reads, LongPolls]);
        assert_eq!(paused("RpsLimit", Some(Visibility)), [Visibility]);
        assert_eq!(paused("BusyWorkflow", Some(Reads)), []);
        assert_eq!(paused("SystemOverloaded", Some(Reads)), Api::ALL);
        assert_eq!(paused("PersistenceLimit", None), Api::ALL);
        assert_eq!(paused("RpsLimit", None), []);
    }

    #[test]
    fn a_pause_that_the_server_names_counts() {
        let info = RetryInfo {
            retry_delay: Some(prost_types::Duration {
                seconds: 7,
                nanos: 0,
            }),
        };
        let details = RpcStatus {
            details: vec![prost_types::Any {
                type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
                value: info.encode_to_vec(),
            }],
        };
        let details = details.encode_to_vec().into();
        let status = Status::with_details(Code::ResourceExhausted, "slow down", details);
        let throttle = throttle(&status).unwrap();
        assert_eq!(throttle.pause, Duration::from_secs(7));
    }

    #[test]
    fn an_unknown_namespace_is_not_an_unknown_execution() {
        let details = RpcStatus {
            details: vec![prost_types::Any {
                type_url:
                    "type.googleapis.com/temporal.api.errordetails.v1.NamespaceNotFoundFailure"
                        .to_owned(),
                value: Vec::new(),
            }],
        };
        let details = details.encode_to_vec().into();
        let status = Status::with_details(Code::NotFound, "Namespace x is not found.", details);
        let error = refusal(Verb::Get, &status);
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert_eq!(error.reason(), "NAMESPACE_NOT_FOUND");
    }

    #[test]
    fn codes_keep_their_meaning() {
        let kind = |code| refusal(Verb::Get, &Status::new(code, "")).kind;
        assert_eq!(kind(Code::NotFound), ErrorKind::NotFound);
        assert_eq!(kind(Code::Unimplemented), ErrorKind::Unsupported);
        assert_eq!(kind(Code::Unauthenticated), ErrorKind::PermissionDenied);
        assert_eq!(kind(Code::DeadlineExceeded), ErrorKind::Timeout);
        assert_eq!(kind(Code::Internal), ErrorKind::Unavailable);
    }
}
