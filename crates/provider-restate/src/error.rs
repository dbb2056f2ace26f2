//! Restate's answers as errors: one place that knows which status means what.

use std::time::Duration;

use stateway_model::ExecutionId;
use stateway_provider_api::adapter::one_line;
use stateway_provider_api::{Error, ErrorKind, Verb};

use crate::client::Answer;

/// Which of the two APIs answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Admin,
    Ingress,
}

impl Api {
    /// The name of its table in the configuration.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Ingress => "ingress",
        }
    }

    /// The name in messages.
    const fn title(self) -> &'static str {
        match self {
            Self::Admin => "admin API",
            Self::Ingress => "ingress",
        }
    }

    /// An outage of this API. Every read uses the admin API alone, so an outage of the ingress is the
    /// outage of one component.
    fn outage(self, error: Error) -> Error {
        if self == Self::Admin || !error.kind.is_outage() {
            return error;
        }
        let error = error.with_component(self.name());
        if error.hint.is_empty() {
            error.with_hint(
                "Check that the ingress runs and that `ingress.url` names it. Reads need the admin \
                 API only.",
            )
        } else {
            error
        }
    }
}

/// An answer that is not the one hoped for.
pub(crate) fn refusal(verb: Verb, api: Api, answer: &Answer) -> Error {
    let message = answer.message();
    let kind = kind(answer.status, &message);
    let error = Error::new(
        kind,
        verb,
        format!("the {} answered {}: {message}", api.title(), answer.status),
    )
    .with_native_code(answer.status.to_string());
    match kind {
        ErrorKind::Throttled => match answer.retry_after {
            Some(pause) => error.with_retry_after(pause),
            None => error,
        },
        ErrorKind::PermissionDenied => {
            error.with_hint(format!("Check the `{}` credentials.", api.name()))
        }
        ErrorKind::Unsupported => {
            error.with_hint("This version of the server does not support it. A newer version may.")
        }
        _ => api.outage(error),
    }
}

fn kind(status: u16, message: &str) -> ErrorKind {
    // A query that the server cannot plan is our mistake or its novelty; trying again changes
    // nothing. Every other failing query is a server that starts, stops or moves its partitions.
    let is_planning = ["Schema error", "Error during planning", "SQL error"]
        .iter()
        .any(|word| message.contains(word));
    match status {
        400 | 422 => ErrorKind::InvalidArgument,
        401 | 403 => ErrorKind::PermissionDenied,
        404 => ErrorKind::NotFound,
        405 | 501 => ErrorKind::Unsupported,
        408 | 504 => ErrorKind::Timeout,
        409 | 410 | 425 => ErrorKind::FailedPrecondition,
        429 => ErrorKind::Throttled,
        500 if is_planning => ErrorKind::Malformed,
        500..=599 => ErrorKind::Unavailable,
        _ => ErrorKind::Malformed,
    }
}

/// The connection failed before there was an answer.
pub(crate) fn transport(verb: Verb, api: Api, error: reqwest::Error) -> Error {
    // The address may hold a credential.
    let error = error.without_url();
    if error.is_timeout() && !error.is_connect() {
        return timeout(verb, api);
    }
    if let Some((message, hint)) = distrust(api, &error) {
        let distrusted = Error::new(ErrorKind::Unavailable, verb, message).with_hint(hint);
        return api.outage(distrusted.with_source(error));
    }
    let (kind, what) = if error.is_decode() {
        (
            ErrorKind::Malformed,
            "sent an answer that cannot be understood",
        )
    } else {
        (ErrorKind::Unavailable, "cannot be reached")
    };
    let failed = Error::new(kind, verb, format!("the {} {what}", api.title()));
    api.outage(failed.with_source(error))
}

/// What went wrong between the two ends of a TLS connection, in words, and what to do about it.
fn distrust(api: Api, error: &reqwest::Error) -> Option<(String, String)> {
    let (name, title) = (api.name(), api.title());
    let tls = tls_error(error)?;
    Some(match tls {
        rustls::Error::InvalidCertificate(why) => (
            format!("the {title}'s certificate is not trusted: {why:?}"),
            format!("Configure the authority that signed it as `{name}.ca_file`."),
        ),
        rustls::Error::AlertReceived(alert) => (
            format!("the {title} ended the TLS connection: {alert:?}"),
            format!("If it requires a client certificate, configure `{name}.identity_file`."),
        ),
        other => (
            format!("no TLS connection to the {title}: {other}"),
            format!("Check whether the server at `{name}.url` uses https."),
        ),
    })
}

fn tls_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref() {
            return Some(tls);
        }
        // An error of the operating system's kind hides the one it was made from.
        let hidden = error.downcast_ref::<std::io::Error>();
        let hidden = hidden.and_then(|it| it.get_ref());
        next = match hidden {
            Some(hidden) => Some(hidden),
            None => error.source(),
        };
    }
    None
}

pub(crate) fn timeout(verb: Verb, api: Api) -> Error {
    let message = format!("the {} did not answer in time", api.title());
    api.outage(Error::new(ErrorKind::Timeout, verb, message))
}

pub(crate) fn malformed(verb: Verb, api: Api, why: impl std::fmt::Display) -> Error {
    let why = one_line(&why.to_string());
    Error::new(
        ErrorKind::Malformed,
        verb,
        format!(
            "the {} sent an answer that cannot be understood: {why}",
            api.title()
        ),
    )
}

/// An id that has the form of one, but no row.
pub(crate) fn no_row(verb: Verb, id: &ExecutionId, last_seen: Option<&str>) -> Error {
    match last_seen {
        Some(status) => Error::new(
            ErrorKind::NotFound,
            verb,
            format!("invocation `{id}` no longer exists; its last known status is {status}"),
        )
        .with_reason("EXECUTION_FORGOTTEN")
        .with_hint(
            "Restate removes an invocation when its retention ends, and immediately when it is \
             cancelled before it began. The result is unknown.",
        ),
        None => {
            Error::not_found(verb, id).with_hint("It never existed, or Restate has removed it.")
        }
    }
}

pub(crate) fn already_finished(verb: Verb) -> Error {
    Error::already_finished(verb, "the invocation has finished")
}

pub(crate) fn no_definition(definition: &str, why: &str) -> Error {
    let mut error = Error::no_definition(definition, []);
    error.message = format!("{}: {why}", error.message);
    error.with_hint("Name it `Service/handler`, `Object/key/handler` or `Workflow/handler`.")
}

/// `Retry-After` in seconds; the other form, a date, is not used by Restate.
pub(crate) fn retry_after(header: &str) -> Option<Duration> {
    header.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_kind() {
        use ErrorKind::{
            FailedPrecondition, InvalidArgument, Malformed, NotFound, PermissionDenied, Throttled,
            Timeout, Unavailable, Unsupported,
        };
        for (status, message, expected) in [
            (400, "bad format", InvalidArgument),
            (401, "", PermissionDenied),
            (403, "", PermissionDenied),
            (404, "does not exist", NotFound),
            (405, "", Unsupported),
            (409, "was already completed", FailedPrecondition),
            (410, "journal purged", FailedPrecondition),
            (422, "not supported", InvalidArgument),
            (425, "inboxed or scheduled", FailedPrecondition),
            (429, "", Throttled),
            (
                500,
                "Datafusion error: Schema error: No field named nope",
                Malformed,
            ),
            (
                500,
                "Datafusion error: External error: node lookup for partition 1 failed",
                Unavailable,
            ),
            (503, "", Unavailable),
            (504, "", Timeout),
            (302, "", Malformed),
        ] {
            assert_eq!(kind(status, message), expected, "{status} {message}");
        }
    }

    #[test]
    fn the_pause_that_is_asked_for_is_read_in_seconds() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("soon"), None);
    }
}
