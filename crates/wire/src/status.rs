//! Errors as gRPC statuses with an `ErrorDetail`, in both directions.

use prost::Message;
use prost_types::Any;
use stateway_provider_api::{Error, ErrorKind, Verb};
use tonic::{Code, Status};

use crate::error::{cut, detail, read_detail};
use crate::v1;

/// The most bytes of an `ErrorDetail`. Clients refuse trailers of more than 8 KiB, and in the trailer the
/// detail is in Base64, beside the message of the status.
pub const MAX_DETAIL_BYTES: usize = 4 * 1024;
/// The most bytes of the message of a status. The trailer has it twice, and a byte can take three.
const MAX_STATUS_MESSAGE_BYTES: usize = 512;

/// The most bytes of a reason.
const MAX_REASON_BYTES: usize = 63;

const TYPE_URL: &str = "type.googleapis.com/stateway.provider.v1.ErrorDetail";

/// `google.rpc.Status`, in which gRPC carries details.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// The status of an error.
#[must_use]
pub fn status_of(error: &Error) -> Status {
    let code = code(error.kind);
    let mut whole = detail(error);
    // The status says it.
    let message = cut(
        &std::mem::take(&mut whole.message),
        MAX_STATUS_MESSAGE_BYTES,
    );
    if whole.encoded_len() > MAX_DETAIL_BYTES {
        whole = v1::ErrorDetail {
            kind: whole.kind,
            reason: cut(&whole.reason, MAX_REASON_BYTES),
            retry_after: whole.retry_after,
            engine_answered: whole.engine_answered,
            hint: cut(&whole.hint, MAX_STATUS_MESSAGE_BYTES),
            native_code: cut(&whole.native_code, MAX_STATUS_MESSAGE_BYTES),
            component: cut(&whole.component, MAX_STATUS_MESSAGE_BYTES),
            ..Default::default()
        };
    }
    let rpc = RpcStatus {
        code: code.into(),
        message: message.clone(),
        details: vec![Any {
            type_url: TYPE_URL.to_owned(),
            value: whole.encode_to_vec(),
        }],
    };
    Status::with_details(code, message, rpc.encode_to_vec().into())
}

/// The error of a status, about this verb. The kind is that of the detail, else that of the code.
#[must_use]
pub fn error_of(status: &Status, verb: Verb) -> Error {
    let of_code = kind(status.code());
    let mut detail = embedded(status).unwrap_or_default();
    detail.message = status.message().to_owned();
    if detail.message.is_empty() {
        detail.message = format!("the provider answered {}", status.code().description());
    }
    read_detail(detail, verb, of_code)
}

fn embedded(status: &Status) -> Option<v1::ErrorDetail> {
    let rpc = RpcStatus::decode(status.details()).ok()?;
    let ours = rpc.details.into_iter().find(|one| one.type_url == TYPE_URL);
    v1::ErrorDetail::decode(ours?.value.as_slice()).ok()
}

const fn code(kind: ErrorKind) -> Code {
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
        ErrorKind::Malformed | ErrorKind::Internal => Code::Internal,
        ErrorKind::DataLoss => Code::DataLoss,
        ErrorKind::Expired => Code::OutOfRange,
    }
}

/// The kind of a status without a detail, as the contract lists them.
const fn kind(code: Code) -> ErrorKind {
    match code {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::InvalidArgument => ErrorKind::InvalidArgument,
        Code::FailedPrecondition => ErrorKind::FailedPrecondition,
        Code::Aborted => ErrorKind::Conflict,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::ResourceExhausted => ErrorKind::Throttled,
        Code::Unavailable | Code::Cancelled => ErrorKind::Unavailable,
        Code::DeadlineExceeded => ErrorKind::Timeout,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::PermissionDenied,
        Code::DataLoss => ErrorKind::DataLoss,
        Code::OutOfRange => ErrorKind::Expired,
        Code::Ok | Code::Unknown | Code::Internal => ErrorKind::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_error_comes_back_as_it_was() {
        for kind in ErrorKind::ALL {
            let error = Error::new(*kind, Verb::Get, "it went wrong")
                .with_hint("Do this.")
                .with_native_code("E42")
                .with_reason("REQUEST_ID_REUSED")
                .with_component("ingress")
                .with_suggestion("order")
                .with_metadata([("a", "1".to_owned()), ("b", "2".to_owned())])
                .with_retry_after(Duration::from_secs(7))
                .without_engine();
            let back = error_of(&status_of(&error), Verb::Get);
            assert_eq!(format!("{back:?}"), format!("{error:?}"));
        }
    }

    #[test]
    fn a_status_without_a_detail_has_the_kind_of_its_code() {
        for (code, kind) in [
            (Code::NotFound, ErrorKind::NotFound),
            (Code::Unimplemented, ErrorKind::Unsupported),
            (Code::Unknown, ErrorKind::Malformed),
            (Code::Cancelled, ErrorKind::Unavailable),
        ] {
            assert_eq!(error_of(&Status::new(code, "m"), Verb::Get).kind, kind);
        }
        let garbled = Status::with_details(Code::NotFound, "m", vec![1, 2, 3].into());
        assert_eq!(error_of(&garbled, Verb::Get).kind, ErrorKind::NotFound);
    }

    #[test]
    fn a_reason_that_is_no_word_is_dropped() {
        let error = Error::new(ErrorKind::Conflict, Verb::Get, "m").with_reason("not a word");
        let back = error_of(&status_of(&error), Verb::Get);
        assert_eq!(back.reason(), ErrorKind::Conflict.reason());
    }

    #[test]
    fn a_large_error_is_cut_and_keeps_its_kind() {
        let large = "ü".repeat(20_000);
        let error = Error::new(ErrorKind::Throttled, Verb::Get, large.clone())
            .with_hint(large.clone())
            .with_reason("SLOW_DOWN")
            .with_metadata([("a", large)]);
        let status = status_of(&error);
        let back = error_of(&status, Verb::Get);
        assert_eq!((back.kind, back.reason()), (error.kind, "SLOW_DOWN"));
    }

    /// The size of a trailer as HTTP/2 counts it.
    fn trailer_bytes(status: Status) -> usize {
        let response = status.into_http::<String>();
        let headers = response.headers().iter();
        let sizes = headers.map(|(name, value)| name.as_str().len() + value.len() + 32);
        sizes.sum()
    }

    #[test]
    fn the_trailer_of_an_error_of_any_size_fits_into_8_kib() {
        for length in (0..6_000).step_by(50) {
            let text = "ü".repeat(length / 2);
            for error in [
                Error::new(ErrorKind::Conflict, Verb::Get, text.clone()).with_hint(text.clone()),
                Error::new(ErrorKind::Conflict, Verb::Get, text.clone())
                    .with_hint(text.clone())
                    .with_native_code(text.clone())
                    .with_component(text.clone())
                    .with_reason("R".repeat(length))
                    .with_metadata([("a", text.clone())]),
            ] {
                let bytes = trailer_bytes(status_of(&error));
                assert!(bytes <= 8 * 1024, "{length}: {bytes} bytes");
            }
        }
    }
}
