//! The service's errors, each with its one kind.

use std::time::Duration;

use aws_sdk_sfn::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use stateway_provider_api::adapter::one_line;
use stateway_provider_api::{Error, ErrorKind, Verb};

/// Every error name that the service model has or the service is known to send, with its kind and
/// with a finer reason where there is one.
pub const NAMES: &[(&str, ErrorKind, Option<&str>)] = &[
    ("ExecutionDoesNotExist", ErrorKind::NotFound, None),
    (
        "StateMachineDoesNotExist",
        ErrorKind::NotFound,
        Some("DEFINITION_NOT_FOUND"),
    ),
    (
        "ActivityDoesNotExist",
        ErrorKind::NotFound,
        Some("ACTIVITY_NOT_FOUND"),
    ),
    (
        "ResourceNotFound",
        ErrorKind::NotFound,
        Some("RESOURCE_NOT_FOUND"),
    ),
    (
        "TaskDoesNotExist",
        ErrorKind::NotFound,
        Some("TASK_NOT_FOUND"),
    ),
    (
        "ExecutionAlreadyExists",
        ErrorKind::AlreadyExists,
        Some("EXECUTION_ALREADY_EXISTS"),
    ),
    (
        "StateMachineAlreadyExists",
        ErrorKind::AlreadyExists,
        Some("DEFINITION_ALREADY_EXISTS"),
    ),
    (
        "ActivityAlreadyExists",
        ErrorKind::AlreadyExists,
        Some("ACTIVITY_ALREADY_EXISTS"),
    ),
    ("InvalidArn", ErrorKind::InvalidArgument, None),
    ("InvalidName", ErrorKind::InvalidArgument, None),
    ("InvalidDefinition", ErrorKind::InvalidArgument, None),
    ("InvalidExecutionInput", ErrorKind::InvalidArgument, None),
    ("InvalidOutput", ErrorKind::InvalidArgument, None),
    ("InvalidToken", ErrorKind::InvalidArgument, None),
    (
        "InvalidLoggingConfiguration",
        ErrorKind::InvalidArgument,
        None,
    ),
    (
        "InvalidTracingConfiguration",
        ErrorKind::InvalidArgument,
        None,
    ),
    (
        "InvalidEncryptionConfiguration",
        ErrorKind::InvalidArgument,
        None,
    ),
    ("MissingRequiredParameter", ErrorKind::InvalidArgument, None),
    ("ValidationException", ErrorKind::InvalidArgument, None),
    ("TooManyTags", ErrorKind::InvalidArgument, None),
    (
        "ExecutionNotRedrivable",
        ErrorKind::Unsupported,
        Some("NOT_REDRIVABLE"),
    ),
    (
        "StateMachineDeleting",
        ErrorKind::FailedPrecondition,
        Some("DEFINITION_DELETING"),
    ),
    (
        "TaskTimedOut",
        ErrorKind::FailedPrecondition,
        Some("TASK_CLOSED"),
    ),
    (
        "KmsInvalidStateException",
        ErrorKind::FailedPrecondition,
        Some("KEY_UNUSABLE"),
    ),
    ("StateMachineTypeNotSupported", ErrorKind::Unsupported, None),
    ("ThrottlingException", ErrorKind::Throttled, None),
    ("TooManyRequestsException", ErrorKind::Throttled, None),
    ("RequestLimitExceeded", ErrorKind::Throttled, None),
    ("KmsThrottlingException", ErrorKind::Throttled, None),
    ("ActivityWorkerLimitExceeded", ErrorKind::Throttled, None),
    (
        "ExecutionLimitExceeded",
        ErrorKind::Throttled,
        Some("QUOTA_EXCEEDED"),
    ),
    (
        "StateMachineLimitExceeded",
        ErrorKind::Throttled,
        Some("QUOTA_EXCEEDED"),
    ),
    (
        "ActivityLimitExceeded",
        ErrorKind::Throttled,
        Some("QUOTA_EXCEEDED"),
    ),
    (
        "ServiceQuotaExceededException",
        ErrorKind::Throttled,
        Some("QUOTA_EXCEEDED"),
    ),
    ("ConflictException", ErrorKind::Conflict, Some("CONFLICT")),
    ("AccessDeniedException", ErrorKind::PermissionDenied, None),
    (
        "KmsAccessDeniedException",
        ErrorKind::PermissionDenied,
        None,
    ),
    (
        "UnrecognizedClientException",
        ErrorKind::PermissionDenied,
        None,
    ),
    ("ExpiredTokenException", ErrorKind::PermissionDenied, None),
    (
        "InvalidSignatureException",
        ErrorKind::PermissionDenied,
        None,
    ),
    ("IncompleteSignature", ErrorKind::PermissionDenied, None),
    (
        "MissingAuthenticationToken",
        ErrorKind::PermissionDenied,
        None,
    ),
    ("InternalFailure", ErrorKind::Unavailable, None),
    ("InternalServerError", ErrorKind::Unavailable, None),
    ("ServiceUnavailable", ErrorKind::Unavailable, None),
];

/// How long to wait where the service asks to slow down and names no pause.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait where a standing limit is reached: it will not be over in a second.
const LIMIT_PAUSE: Duration = Duration::from_secs(60);

/// The error of the service or of the connection to it.
pub(crate) fn from_sdk<E>(verb: Verb, error: &SdkError<E, HttpResponse>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(context) => {
            let (status, pause) = (context.raw().status().as_u16(), pause(context.raw()));
            let told = context.err();
            let code = told.code().unwrap_or_default();
            service(
                verb,
                code,
                told.message().unwrap_or_default(),
                (status, pause),
            )
        }
        SdkError::TimeoutError(_) => Error::new(
            ErrorKind::Timeout,
            verb,
            "Step Functions did not answer in time",
        ),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => Error::new(
            ErrorKind::Timeout,
            verb,
            "Step Functions did not answer in time",
        ),
        SdkError::DispatchFailure(failure) if failure.is_io() => Error::new(
            ErrorKind::Unavailable,
            verb,
            "Step Functions cannot be reached",
        ),
        SdkError::ResponseError(_) => Error::new(
            ErrorKind::Malformed,
            verb,
            "the answer of Step Functions cannot be understood",
        ),
        _ => not_sent(verb, &DisplayErrorContext(error).to_string()),
    }
    .with_source(Unprinted(std::any::type_name::<E>()))
}

/// What became of a request that never left: most often there are no credentials or no region.
fn not_sent(verb: Verb, told: &str) -> Error {
    let told_of = |word: &str| told.to_ascii_lowercase().contains(word);
    if told_of("credential") || told_of("identity") {
        let message = "this gateway has no AWS credentials";
        return Error::new(ErrorKind::PermissionDenied, verb, message).with_hint(
            "Give this process AWS credentials: by environment, profile, web identity or role.",
        );
    }
    if told_of("region") {
        return Error::new(ErrorKind::PermissionDenied, verb, "no AWS region is known")
            .with_hint("Set `region` of the provider, or AWS_REGION.");
    }
    Error::new(
        ErrorKind::Unavailable,
        verb,
        "the request could not be sent",
    )
}

/// An error by the service's name for it.
pub(crate) fn service(
    verb: Verb,
    code: &str,
    message: &str,
    (status, pause): (u16, Option<Duration>),
) -> Error {
    // Some front ends prefix the name with a namespace.
    let code = code.rsplit(['#', '.']).next().unwrap_or(code);
    let known = NAMES.iter().find(|(name, ..)| *name == code);
    let (kind, reason) = match known {
        // "Resource type not valid in this context: express": Express cannot be read, ever.
        Some(("InvalidArn", ..)) if message.contains("express") => (ErrorKind::Unsupported, None),
        Some((_, kind, reason)) => (*kind, *reason),
        None if status < 400 => (ErrorKind::Malformed, None),
        None if status >= 500 => (ErrorKind::Unavailable, None),
        None if status == 429 => (ErrorKind::Throttled, None),
        None => (ErrorKind::Internal, None),
    };
    let told = match message {
        "" if code.is_empty() => format!("Step Functions answered with status {status}"),
        "" => code.to_owned(),
        message => one_line(message),
    };
    let mut error = Error::new(kind, verb, told).with_native_code(code);
    error.reason = reason.map(Into::into);
    if kind == ErrorKind::Throttled {
        let standing = reason == Some("QUOTA_EXCEEDED");
        let usual = if standing { LIMIT_PAUSE } else { DEFAULT_PAUSE };
        error.retry_after = Some(pause.unwrap_or(usual));
    }
    if kind == ErrorKind::PermissionDenied {
        error.hint = "Check the IAM role of this gateway: it must allow the `states:` action that was refused.".to_owned();
    }
    error
}

/// The pause that an answer asks for: in seconds, or in milliseconds by AWS's own header.
pub(crate) fn pause(answer: &HttpResponse) -> Option<Duration> {
    let number = |name: &str| answer.headers().get(name)?.parse::<u64>().ok();
    let milliseconds = number("x-amz-retry-after").map(Duration::from_millis);
    milliseconds.or_else(|| number("retry-after").map(Duration::from_secs))
}

/// The SDK's own error may print headers of the request; only its type is kept.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unprinted(&'static str);

pub(crate) fn finished(verb: Verb, status: &str) -> Error {
    let message = format!("the execution has finished: {status}");
    Error::already_finished(verb, message).with_native_code(status)
}

pub(crate) fn no_definition(name: &str) -> Error {
    Error::no_definition(name, [])
        .with_hint("Name a state machine of this account and region, or give its ARN.")
}

pub(crate) fn express(verb: Verb) -> Error {
    let message = "an Express execution can only be started";
    Error::new(ErrorKind::Unsupported, verb, message)
        .with_hint("Its log group in CloudWatch shows the result.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_kind() {
        let mut names: Vec<_> = NAMES.iter().map(|(name, ..)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
        for (name, kind, reason) in NAMES {
            let error = service(Verb::Get, name, "told", (400, None));
            assert_eq!((error.kind, error.native_code.as_str()), (*kind, *name));
            assert_eq!(error.reason.as_deref(), *reason);
            assert_eq!(error.retry_after.is_some(), *kind == ErrorKind::Throttled);
        }
    }

    #[test]
    fn an_unknown_name_is_judged_by_its_status() {
        let kind = |status| service(Verb::Get, "New", "", (status, None)).kind;
        assert_eq!(kind(200), ErrorKind::Malformed);
        assert_eq!(kind(400), ErrorKind::Internal);
        assert_eq!(kind(429), ErrorKind::Throttled);
        assert_eq!(kind(503), ErrorKind::Unavailable);
    }

    #[test]
    fn express_is_a_capability_and_not_a_failure() {
        let message = "Invalid Arn: 'Resource type not valid in this context: express'";
        let error = service(Verb::Get, "InvalidArn", message, (400, None));
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert_eq!(error.reason(), "CAPABILITY_NOT_SUPPORTED");
    }

    #[test]
    fn a_pause_that_was_asked_for_is_kept() {
        let pause = Some(Duration::from_secs(7));
        let error = service(
            Verb::Get,
            "ThrottlingException",
            "Rate exceeded",
            (400, pause),
        );
        assert_eq!(error.retry_after, pause);
    }
}
