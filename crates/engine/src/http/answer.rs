//! What an HTTP answer means for a step.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Map, Value, json};
use stateway_machine::Failure;
use stateway_model::ErrorCategory;

use super::allow::NotAllowed;

/// The headers of an answer that become part of a step's output.
const SHOWN: &[&str] = &[
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "x-request-id",
];

/// Why a call did not lead to an output.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The step asks for something that cannot be sent.
    Unusable(String),
    /// The configuration does not allow it.
    NotAllowed(NotAllowed),
    /// No answer came, or not all of it.
    Unreachable(String),
    /// The call timed out.
    TooSlow(Duration),
    /// A response with the status of a failure.
    Refused {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// A response that cannot be used.
    Odd { code: &'static str, message: String },
}

impl Trouble {
    /// As the step's failure. `what` names the call.
    pub(super) fn failure(self, what: &str) -> Failure {
        let (category, code, why) = match &self {
            Self::Unusable(why) => (
                ErrorCategory::Validation,
                "HTTP_BAD_REQUEST".into(),
                why.clone(),
            ),
            Self::NotAllowed(why) => (
                ErrorCategory::Governance,
                "HTTP_NOT_ALLOWED".into(),
                why.to_string(),
            ),
            Self::Unreachable(why) => (
                ErrorCategory::Transient,
                "HTTP_UNREACHABLE".into(),
                why.clone(),
            ),
            Self::TooSlow(limit) => (
                ErrorCategory::Timeout,
                "HTTP_TIMEOUT".into(),
                format!("no complete response within {limit:?}"),
            ),
            Self::Refused {
                status, message, ..
            } => (
                category_of(*status),
                format!("HTTP_{status}"),
                message.clone(),
            ),
            Self::Odd { code, message } => {
                (ErrorCategory::External, (*code).to_owned(), message.clone())
            }
        };
        let mut failure = Failure::reported(category, format!("{what}: {why}"));
        failure.code = code.into();
        if let Self::Refused { retry_after, .. } = self {
            failure.retry_after = retry_after;
        }
        failure
    }
}

/// What kind of failure a status is: trying again helps, the request is at fault, or the other
/// side is.
pub(super) const fn category_of(status: u16) -> ErrorCategory {
    match status {
        408 | 425 | 429 | 500 | 502 | 503 | 504 => ErrorCategory::Transient,
        400..=499 => ErrorCategory::Validation,
        _ => ErrorCategory::External,
    }
}

/// A successful answer as a step's output.
pub(super) fn output(status: u16, headers: &HeaderMap, body: &[u8]) -> Value {
    let mut shown = Map::new();
    for name in SHOWN {
        let value = headers.get(*name).and_then(|value| value.to_str().ok());
        if let Some(value) = value {
            shown.insert((*name).to_owned(), value.into());
        }
    }
    let mut output = json!({ "status": status, "headers": shown });
    let (body, encoding) = body_of(headers, body);
    output["body"] = body;
    if let Some(encoding) = encoding {
        output["encoding"] = encoding.into();
    }
    output
}

/// JSON as what it is, text as text, anything else in base 64.
fn body_of(headers: &HeaderMap, body: &[u8]) -> (Value, Option<&'static str>) {
    if body.is_empty() {
        return (Value::Null, None);
    }
    if is_json(headers)
        && let Ok(value) = serde_json::from_slice(body)
    {
        return (value, None);
    }
    match std::str::from_utf8(body) {
        Ok(text) => (text.into(), None),
        Err(_) => (STANDARD.encode(body).into(), Some("base64")),
    }
}

/// Whether the content type is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| {
        let kind = kind.trim().to_ascii_lowercase();
        kind == "application/json" || kind.ends_with("+json")
    })
}

/// The beginning of a text, on one line.
pub(crate) fn one_line(text: &[u8]) -> String {
    const MOST: usize = 200;
    let text = String::from_utf8_lossy(text);
    let words: Vec<_> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn headers(content_type: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        headers.insert("set-cookie", HeaderValue::from_static("secret=1"));
        headers
    }

    #[test]
    fn every_status_has_its_category() {
        use ErrorCategory::{External, Transient, Validation};
        for (category, statuses) in [
            (Transient, &[408, 425, 429, 500, 502, 503, 504][..]),
            (
                Validation,
                &[400, 401, 403, 404, 405, 409, 410, 413, 422, 451],
            ),
            (External, &[100, 300, 304, 305, 501, 505, 507, 511, 599]),
        ] {
            for status in statuses {
                assert_eq!(category_of(*status), category, "{status}");
            }
        }
    }

    #[test]
    fn a_body_is_json_text_or_base_64_and_only_some_headers_are_shown() {
        let shown = |kind: &str| json!({ "content-type": kind });
        for (kind, body, wanted) in [
            ("application/json", &b"{\"a\":1}"[..], json!({ "a": 1 })),
            (
                "application/problem+json; charset=utf-8",
                b"[1]",
                json!([1]),
            ),
            ("application/json", b"{broken", json!("{broken")),
            ("text/plain", b"{\"a\":1}", json!("{\"a\":1}")),
            ("text/plain", b"", json!(null)),
        ] {
            let wanted = json!({ "status": 200, "headers": shown(kind), "body": wanted });
            assert_eq!(output(200, &headers(kind), body), wanted);
        }
        let binary = output(200, &headers("image/png"), &[0xff, 0xfe]);
        assert_eq!(
            (&binary["body"], &binary["encoding"]),
            (&json!("//4="), &json!("base64"))
        );
    }

    #[test]
    fn a_long_text_is_cut_to_a_line() {
        assert_eq!(one_line(b" a\n\tb "), "a b");
        assert_eq!(one_line(&[b'x'; 500]).chars().count(), 201);
    }
}
