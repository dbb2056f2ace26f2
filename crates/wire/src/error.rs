//! Errors as messages. How a status carries one is in [`status`](crate::status_of).

use std::borrow::Cow;

use stateway_provider_api::{Error, ErrorKind, Verb};

use crate::time::{duration, read_duration};
use crate::v1;

/// An error for the wire.
#[must_use]
pub fn detail(error: &Error) -> v1::ErrorDetail {
    let text = |text: &Option<Cow<'static, str>>| text.as_deref().unwrap_or_default().to_owned();
    v1::ErrorDetail {
        kind: kind(error.kind).into(),
        reason: text(&error.reason),
        hint: error.hint.clone(),
        native_code: error.native_code.clone(),
        retry_after: error.retry_after.map(duration),
        suggestion: error.suggestion.as_deref().unwrap_or_default().to_owned(),
        component: text(&error.component),
        metadata: {
            let metadata = error.metadata.iter();
            let metadata = metadata.map(|(key, value)| (key.to_string(), value.clone()));
            metadata.collect()
        },
        engine_answered: error.answered,
        message: error.message.clone(),
    }
}

/// An error of the wire, about this verb; `of_code`: the kind if the message has none.
#[must_use]
pub fn read_detail(detail: v1::ErrorDetail, verb: Verb, of_code: ErrorKind) -> Error {
    let kind = read_kind(detail.kind).unwrap_or(of_code);
    let mut error = Error::new(kind, verb, detail.message)
        .with_hint(detail.hint)
        .with_native_code(detail.native_code);
    // A reason is a word for programs; anything else would break the rules of ErrorInfo.
    if is_reason(&detail.reason) {
        error = error.with_reason(detail.reason);
    }
    if !detail.component.is_empty() {
        error = error.with_component(detail.component);
    }
    if !detail.suggestion.is_empty() {
        error = error.with_suggestion(detail.suggestion);
    }
    let mut metadata: Vec<_> = detail.metadata.into_iter().collect();
    metadata.sort();
    error = error.with_metadata(metadata);
    let pause = detail.retry_after;
    error.retry_after = pause.and_then(|pause| read_duration("retry_after", pause).ok());
    error.answered = detail.engine_answered;
    error
}

/// Whether a text is a reason: upper-case letters, digits and `_`, at most 63 of them.
fn is_reason(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let starts_well = text.as_bytes().first().is_some_and(u8::is_ascii_uppercase);
    starts_well && text.len() <= 63 && text.bytes().all(is_allowed)
}

const fn kind(kind: ErrorKind) -> v1::ErrorKind {
    match kind {
        ErrorKind::NotFound => v1::ErrorKind::NotFound,
        ErrorKind::AlreadyExists => v1::ErrorKind::AlreadyExists,
        ErrorKind::InvalidArgument => v1::ErrorKind::InvalidArgument,
        ErrorKind::FailedPrecondition => v1::ErrorKind::FailedPrecondition,
        ErrorKind::Conflict => v1::ErrorKind::Conflict,
        ErrorKind::Unsupported => v1::ErrorKind::Unsupported,
        ErrorKind::Throttled => v1::ErrorKind::Throttled,
        ErrorKind::Unavailable => v1::ErrorKind::Unavailable,
        ErrorKind::Timeout => v1::ErrorKind::Timeout,
        ErrorKind::PermissionDenied => v1::ErrorKind::PermissionDenied,
        ErrorKind::Malformed => v1::ErrorKind::Malformed,
        ErrorKind::DataLoss => v1::ErrorKind::DataLoss,
        ErrorKind::Expired => v1::ErrorKind::Expired,
        ErrorKind::Internal => v1::ErrorKind::Internal,
    }
}

fn read_kind(kind: i32) -> Option<ErrorKind> {
    let Ok(kind) = v1::ErrorKind::try_from(kind) else {
        return Some(ErrorKind::Internal);
    };
    Some(match kind {
        v1::ErrorKind::Unspecified => return None,
        v1::ErrorKind::NotFound => ErrorKind::NotFound,
        v1::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        v1::ErrorKind::InvalidArgument => ErrorKind::InvalidArgument,
        v1::ErrorKind::FailedPrecondition => ErrorKind::FailedPrecondition,
        v1::ErrorKind::Conflict => ErrorKind::Conflict,
        v1::ErrorKind::Unsupported => ErrorKind::Unsupported,
        v1::ErrorKind::Throttled => ErrorKind::Throttled,
        v1::ErrorKind::Unavailable => ErrorKind::Unavailable,
        v1::ErrorKind::Timeout => ErrorKind::Timeout,
        v1::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        v1::ErrorKind::Malformed => ErrorKind::Malformed,
        v1::ErrorKind::DataLoss => ErrorKind::DataLoss,
        v1::ErrorKind::Expired => ErrorKind::Expired,
        v1::ErrorKind::Internal => ErrorKind::Internal,
    })
}
