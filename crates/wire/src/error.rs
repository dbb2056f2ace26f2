//! Errors as messages. How a status carries one is in [`status`](crate::status_of).

use std::borrow::Cow;
use std::time::Duration;

use stateway_provider_api::{Error, ErrorKind, Verb};

use crate::time::{duration, read_duration};
use crate::v1;

/// Maximum length of a received error message, in bytes; the rest is cut off.
const MAX_MESSAGE_BYTES: usize = 8 * 1024;
/// Maximum length of each other text of a received error, in bytes; the rest is cut off.
const MAX_TEXT_BYTES: usize = 2 * 1024;
/// Maximum number of metadata entries of a received error; further entries are dropped.
const MAX_METADATA: usize = 32;
/// Maximum length of a metadata key of a received error, in bytes; the rest is cut off.
const MAX_KEY_BYTES: usize = 64;

/// The longest pause that a provider can ask for. Clients follow it, so a wrong one would stop them.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// The beginning of a text.
pub(crate) fn cut(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

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

/// An error of the wire, about this verb; `of_code`: the kind if the message has none. Long texts are cut.
#[must_use]
pub fn read_detail(detail: v1::ErrorDetail, verb: Verb, of_code: ErrorKind) -> Error {
    let kind = read_kind(detail.kind).unwrap_or(of_code);
    let mut error = Error::new(kind, verb, cut(&detail.message, MAX_MESSAGE_BYTES))
        .with_hint(cut(&detail.hint, MAX_TEXT_BYTES))
        .with_native_code(cut(&detail.native_code, MAX_TEXT_BYTES));
    // `ErrorInfo` allows only reasons in UPPER_SNAKE_CASE; any other reason is dropped.
    if is_reason(&detail.reason) {
        error = error.with_reason(detail.reason);
    }
    if !detail.component.is_empty() {
        error = error.with_component(cut(&detail.component, MAX_TEXT_BYTES));
    }
    if !detail.suggestion.is_empty() {
        error = error.with_suggestion(cut(&detail.suggestion, MAX_TEXT_BYTES));
    }
    let mut metadata: Vec<_> = detail.metadata.into_iter().collect();
    metadata.sort();
    let metadata = metadata.into_iter().take(MAX_METADATA);
    error = error.with_metadata(metadata.map(|(key, value)| {
        let key = cut(&key, MAX_KEY_BYTES);
        (key, cut(&value, MAX_TEXT_BYTES))
    }));
    let pause = detail.retry_after;
    let pause = pause.and_then(|pause| read_duration("retry_after", pause).ok());
    error.retry_after = pause.map(|pause| pause.min(LONGEST_PAUSE));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_cannot_stop_clients_for_more_than_an_hour() {
        let detail = v1::ErrorDetail {
            retry_after: Some(duration(Duration::from_secs(1_000_000))),
            ..v1::ErrorDetail::default()
        };
        let error = read_detail(detail, Verb::Get, ErrorKind::Throttled);
        assert_eq!(error.retry_after, Some(LONGEST_PAUSE));
    }

    #[test]
    fn every_text_of_an_error_is_bounded() {
        let long = "ü".repeat(100_000);
        let entry = |number| (format!("{number}{long}"), long.clone());
        let detail = v1::ErrorDetail {
            message: long.clone(),
            hint: long.clone(),
            native_code: long.clone(),
            suggestion: long.clone(),
            component: long.clone(),
            metadata: (0..1_000).map(entry).collect(),
            ..v1::ErrorDetail::default()
        };
        let error = read_detail(detail, Verb::Observe, ErrorKind::Malformed);
        assert_eq!(error.metadata.len(), MAX_METADATA);
        assert!(format!("{error:?}").len() < 128 * 1024);
    }
}
