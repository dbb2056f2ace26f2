//! The error of a call.
//!
//! Decoded from the details that the gateway sends with every error (`google.rpc.ErrorInfo`,
//! `RetryInfo`, `BadRequest`). An error without them comes from the connection, not from the
//! gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// The domain of all reasons of the gateway.
pub(crate) const DOMAIN: &str = "stateway.dev";

/// The reason of errors that the client itself reports.
const UNREACHABLE: &str = "GATEWAY_UNREACHABLE";
const DEADLINE: &str = "DEADLINE_EXCEEDED";

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", parts.message)]
pub struct Error {
    parts: Box<Parts>,
}

/// One field of the request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The field, as the API names it.
    pub field: String,
    /// The description of the error.
    pub description: String,
}

#[derive(Debug, Clone)]
struct Parts {
    code: Code,
    reason: String,
    domain: String,
    message: String,
    hint: String,
    metadata: BTreeMap<String, String>,
    retry_after: Option<Duration>,
    violations: Vec<Violation>,
}

impl Error {
    /// The gRPC code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.parts.code
    }

    /// The machine-readable reason, for example `EXECUTION_NOT_FOUND`.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.parts.reason
    }

    /// The domain of the reason: `stateway.dev`, or empty if the error does not come from a
    /// gateway.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.parts.domain
    }

    /// The message for a person.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.parts.message
    }

    /// What the caller can do; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.parts.hint
    }

    /// The metadata of the reason, for example `provider` and `native_code`.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.parts.metadata
    }

    /// The delay before the next try, if the gateway sends one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.parts.retry_after
    }

    /// The fields of the request that are wrong.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.parts.violations
    }

    /// The column of the error in a filter, from 1, if the gateway reports one.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.parts.metadata.get("column")?.parse().ok()
    }

    /// True if the error comes from a gateway, not from the connection.
    #[must_use]
    pub fn is_from_gateway(&self) -> bool {
        !self.parts.reason.is_empty() && self.parts.domain == DOMAIN
    }

    /// True if the deadline of the call expired.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        self.parts.code == Code::DeadlineExceeded
    }

    /// A deadline that expired in the client.
    pub(crate) fn deadline(timeout: Duration) -> Self {
        Self::local(
            Code::DeadlineExceeded,
            DEADLINE,
            format!("no answer within {timeout:?}"),
            "Use a longer timeout, or run `stateway providers list` to see which provider is slow.",
        )
    }

    /// The same error, for a write that was not retried because it is not idempotent.
    pub(crate) fn not_repeated(mut self) -> Self {
        self.parts.hint =
            "The write may have been carried out, and the provider cannot recognise a \
                           repetition. Read before repeating it."
                .to_owned();
        self
    }

    /// A worker's session that the gateway ended.
    pub(crate) fn session_closed(reason: &str) -> Self {
        Self::local(
            Code::Aborted,
            reason,
            format!("the gateway ended the session: {reason}"),
            "Does another worker run under the same id?",
        )
    }

    /// An address that is not valid.
    pub(crate) fn address(url: &str, why: &str) -> Self {
        Self::local(
            Code::InvalidArgument,
            "INVALID_SERVER_URL",
            format!("`{url}` is not the address of a gateway: {why}"),
            "An address looks like http://127.0.0.1:7380 or https://stateway.example.org.",
        )
    }

    /// A name that cannot be sent in a header.
    pub(crate) fn identity(what: &str, name: &str) -> Self {
        Self::local(
            Code::InvalidArgument,
            "INVALID_IDENTITY",
            format!("`{name}` cannot be the {what} of a call"),
            "Write one word of plain ASCII, without blanks and commas.",
        )
    }

    /// Certificates or a token that cannot be used.
    pub(crate) fn credentials(message: String) -> Self {
        Self::local(
            Code::InvalidArgument,
            "INVALID_CREDENTIALS",
            message,
            "Use an address that begins with https://, PEM files, and a token of one line.",
        )
    }

    fn local(code: Code, reason: &str, message: String, hint: &str) -> Self {
        Self {
            parts: Box::new(Parts {
                code,
                reason: reason.into(),
                domain: String::new(),
                message,
                hint: hint.into(),
                metadata: BTreeMap::new(),
                retry_after: None,
                violations: Vec::new(),
            }),
        }
    }

    /// Converts a status of a gateway, a proxy or the transport.
    pub(crate) fn from_status(status: &Status) -> Self {
        let details = status.get_error_details();
        match details.error_info() {
            Some(info) => {
                let metadata: BTreeMap<_, _> = info.metadata.clone().into_iter().collect();
                let hint = details.localized_message().map(|hint| hint.message.clone());
                let violation = |found: &tonic_types::FieldViolation| Violation {
                    field: found.field.clone(),
                    description: found.description.clone(),
                };
                let bad = details
                    .bad_request()
                    .map(|bad| bad.field_violations.as_slice());
                Self {
                    parts: Box::new(Parts {
                        code: status.code(),
                        reason: info.reason.clone(),
                        domain: info.domain.clone(),
                        message: status.message().to_owned(),
                        hint: hint.unwrap_or_default(),
                        metadata,
                        retry_after: details.retry_info().and_then(|info| info.retry_delay),
                        violations: bad.unwrap_or_default().iter().map(violation).collect(),
                    }),
                }
            }
            None => Self::from_the_way_there(status),
        }
    }

    /// Converts a status that does not come from a gateway: from the connection, a proxy, or the
    /// timer of the client.
    fn from_the_way_there(status: &Status) -> Self {
        if timed_out(status) {
            return Self::local(
                Code::DeadlineExceeded,
                DEADLINE,
                "no answer before the deadline".into(),
                "Use a longer timeout, or run `stateway providers list` to see which provider is slow.",
            );
        }
        if status.code() == Code::Unavailable || has_source(status) {
            let cause = innermost(status);
            let hint = if cause.contains("CaUsedAsEndEntity") {
                "The certificate of the gateway is that of an authority (CA:TRUE). Make one with \
                 basicConstraints=CA:FALSE, or let the authority sign a certificate for the gateway."
            } else if cause.contains("certificate") {
                "Trust the authority that signed the certificate of the gateway (--tls-ca FILE), and \
                 use a host name that the certificate has."
            } else if cause.contains("broken pipe") {
                "Is it running (`stateway serve`)? The address of a gateway with TLS begins with https://."
            } else {
                "Is it running (`stateway serve`), and is the address right?"
            };
            let message = format!("the gateway cannot be reached: {cause}");
            return Self::local(Code::Unavailable, UNREACHABLE, message, hint);
        }
        Self::local(status.code(), "", status.message().to_owned(), "")
    }
}

/// The transport reports an elapsed `grpc-timeout` as a cancellation.
fn timed_out(status: &Status) -> bool {
    status.code() == Code::DeadlineExceeded
        || (status.code() == Code::Cancelled && status.message().contains("imeout"))
}

fn has_source(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// The innermost source is the most specific: `Connection refused` rather than `transport error`.
fn innermost(status: &Status) -> String {
    let mut at: &dyn std::error::Error = status;
    while let Some(source) = at.source() {
        at = source;
    }
    if has_source(status) {
        at.to_string()
    } else {
        status.message().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    fn status(code: Code, details: ErrorDetails) -> Status {
        Status::with_error_details(code, "no such thing", details)
    }

    #[test]
    fn every_detail_is_decoded() {
        let metadata = HashMap::from([
            ("provider".to_owned(), "shop".to_owned()),
            ("column".to_owned(), "7".to_owned()),
        ]);
        let mut details = ErrorDetails::with_error_info("BAD_FILTER", DOMAIN, metadata);
        details.set_retry_info(Some(Duration::from_millis(1500)));
        details.set_localized_message("en-US", "Look again.");
        details.add_bad_request_violation("filter", "no field `x`");
        let error = Error::from_status(&status(Code::InvalidArgument, details));
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(error.reason(), "BAD_FILTER");
        assert_eq!(error.domain(), DOMAIN);
        assert_eq!(error.to_string(), "no such thing");
        assert_eq!(error.hint(), "Look again.");
        assert_eq!(error.metadata()["provider"], "shop");
        assert_eq!(error.retry_after(), Some(Duration::from_millis(1500)));
        assert_eq!(error.column(), Some(7));
        let violation = Violation {
            field: "filter".into(),
            description: "no field `x`".into(),
        };
        assert_eq!(error.violations(), [violation]);
        assert!(error.is_from_gateway());
    }

    #[test]
    fn what_no_gateway_said_is_told_apart() {
        let error = Error::from_status(&Status::unavailable("tcp connect error"));
        assert_eq!(
            (error.code(), error.reason()),
            (Code::Unavailable, UNREACHABLE)
        );
        assert!(!error.is_from_gateway());
        let error = Error::from_status(&Status::cancelled("Timeout expired"));
        assert!(error.is_deadline());
    }
}
