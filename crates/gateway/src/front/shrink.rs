//! Makes an error small enough for the headers of every client.
//!
//! gRPC clients accept 8 KiB of metadata by default and report anything larger as an error of the
//! transport, without code and reason. An error that quotes a long input is cut instead.

use axum::http::HeaderMap;
use axum::http::header::AsHeaderName;
use tonic::Status;
use tonic_types::{BadRequest, ErrorDetails, ErrorInfo, FieldViolation, StatusExt};

/// The most bytes of message and details as headers. 8 KiB less room for other metadata.
const MOST: usize = 6 * 1024;

/// The most bytes of the message, percent-encoded. The details repeat it.
const MOST_MESSAGE: usize = 1024;

/// The most bytes of one text inside the details.
const MOST_TEXT: usize = 512;

/// The most bytes of all texts inside the details. Base64 makes 4 of 3.
const MOST_TEXTS: usize = 1536;

/// Whether an error fits.
pub(super) fn is_small(headers: &HeaderMap) -> bool {
    let length = |name| length_of(headers, name);
    length("grpc-message") + length("grpc-status-details-bin") <= MOST
}

fn length_of(headers: &HeaderMap, name: impl AsHeaderName) -> usize {
    headers.get(name).map_or(0, |value| value.len())
}

/// The same error, cut where it is too long.
pub(super) fn shrunk(status: &Status) -> Status {
    if status.details().len() * 4 / 3 + encoded(status.message()) <= MOST {
        return status.clone();
    }
    let message = cut_message(status.message());
    let full = status.get_error_details();
    let mut budget = MOST_TEXTS;
    let mut details = ErrorDetails::new();
    if let Some(info) = full.error_info() {
        let ErrorInfo {
            reason,
            domain,
            metadata,
        } = info;
        let mut kept: Vec<_> = metadata.iter().collect();
        // The same keys are kept every time, and short ones before long ones.
        kept.sort_by_key(|(key, value)| (value.len(), *key));
        let kept = kept.into_iter().filter_map(|(key, value)| {
            let value = cut(value, MOST_TEXT);
            spend(&mut budget, key.len() + value.len()).then(|| (key.clone(), value))
        });
        details.set_error_info(
            reason,
            domain,
            kept.collect::<std::collections::HashMap<_, _>>(),
        );
    }
    if let Some(retry) = full.retry_info() {
        details.set_retry_info(retry.retry_delay);
    }
    if let Some(bad) = full.bad_request() {
        details.set_bad_request(cut_violations(bad, &mut budget));
    }
    let metadata = status.metadata().clone();
    Status::with_error_details_and_metadata(status.code(), message, details, metadata)
}

/// As many violations as fit; the last one counts the rest.
fn cut_violations(bad: &BadRequest, budget: &mut usize) -> Vec<FieldViolation> {
    let all = &bad.field_violations;
    let mut kept: Vec<FieldViolation> = Vec::new();
    for violation in all {
        let cut = FieldViolation {
            field: cut(&violation.field, MOST_TEXT),
            description: cut(&violation.description, MOST_TEXT),
            ..violation.clone()
        };
        if !spend(budget, cut.field.len() + cut.description.len()) {
            break;
        }
        kept.push(cut);
    }
    let rest = all.len() - kept.len();
    if rest > 0 {
        kept.push(FieldViolation::new("", format!("and {rest} more")));
    }
    kept
}

fn spend(budget: &mut usize, bytes: usize) -> bool {
    let left = budget.checked_sub(bytes);
    *budget = left.unwrap_or(*budget);
    left.is_some()
}

/// The beginning of a text, with a mark where it was cut.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

/// The beginning of a message whose encoded form fits.
fn cut_message(message: &str) -> String {
    if encoded(message) <= MOST_MESSAGE {
        return message.to_owned();
    }
    let mut length = 0;
    let kept: String = message
        .chars()
        .take_while(|next| {
            length += encoded(next.encode_utf8(&mut [0; 4]));
            length <= MOST_MESSAGE
        })
        .collect();
    format!("{kept}…")
}

/// The length of a text in percent-encoding: everything but plain ASCII takes three bytes.
fn encoded(text: &str) -> usize {
    let length = |byte: u8| if byte.is_ascii_alphanumeric() { 1 } else { 3 };
    text.bytes().map(length).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic::Code;

    use super::*;

    fn headers_of(status: &Status) -> usize {
        let mut headers = HeaderMap::new();
        shrunk(status).add_header(&mut headers).unwrap();
        assert!(is_small(&headers));
        headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum()
    }

    #[test]
    fn whatever_an_error_quotes_it_fits_and_keeps_its_reason() {
        for long in ["x".repeat(5_000), "ä%".repeat(5_000), "\n".repeat(70_000)] {
            let metadata: HashMap<_, _> = (0..100)
                .map(|n| (format!("key{n}"), long.clone()))
                .chain([("provider".to_owned(), "shop".to_owned())])
                .collect();
            let mut details = ErrorDetails::new();
            details.set_error_info("INVALID_ARGUMENT", "stateway.dev", metadata);
            details.set_retry_info(Some(std::time::Duration::from_secs(7)));
            for n in 0..100 {
                details.add_bad_request_violation(format!("field{n}"), long.clone());
            }
            let status = Status::with_error_details(Code::InvalidArgument, long, details);
            assert!(headers_of(&status) < 8 * 1024);
            let small = shrunk(&status).get_error_details();
            let info = small.error_info().unwrap();
            assert_eq!(info.reason, "INVALID_ARGUMENT");
            assert_eq!(info.metadata["provider"], "shop");
            assert!(small.retry_info().is_some());
            let last = small
                .bad_request()
                .unwrap()
                .field_violations
                .last()
                .unwrap();
            assert!(last.description.ends_with(" more"), "{last:?}");
        }
    }

    #[test]
    fn a_small_error_stays_as_it_is() {
        let details = ErrorDetails::with_error_info("R", "stateway.dev", HashMap::new());
        let status = Status::with_error_details(Code::NotFound, "no such thing", details);
        assert_eq!(shrunk(&status).details(), status.details());
        assert_eq!(shrunk(&status).message(), "no such thing");
    }
}
