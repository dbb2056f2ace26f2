//! Every error on the wire has an `ErrorInfo` and fits into the headers that clients accept.
//!
//! A message beyond the limit, an unknown method or a message that is no protobuf never reach a
//! service; tonic answers them without details. Here they get them, in the headers of a response
//! and in the trailers that end a stream. `shrink` makes errors small that quote a long input.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Bytes, HttpBody};
use axum::http::{HeaderMap, Request, Response};
use futures::TryFutureExt;
use futures::future::MapOk;
use hyper::body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::Service;

use super::shrink;
use crate::quota::QuotaPermit;
use crate::status::DOMAIN;

const DETAILS: &str = "grpc-status-details-bin";

/// A service whose errors all say their reason.
#[derive(Debug, Clone)]
pub(crate) struct Described<S>(S);

impl<S> Described<S> {
    pub(crate) const fn new(service: S) -> Self {
        Self(service)
    }
}

impl<S> Service<Request<Body>> for Described<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<DescribedBody>;
    type Error = S::Error;
    type Future = MapOk<S::Future, fn(Response<Body>) -> Response<DescribedBody>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request).map_ok(described)
    }
}

/// The response, with details if it is an error. An error that comes before an answer is in the
/// headers, one that comes after it in the trailers.
pub(super) fn described(mut response: Response<Body>) -> Response<DescribedBody> {
    describe(response.headers_mut());
    response.map(DescribedBody::new)
}

/// A body whose trailers have details if they report an error.
pub(crate) struct DescribedBody {
    body: Body,
    /// Counts the call for its caller until the response has been sent.
    permit: Option<Arc<QuotaPermit>>,
}

impl DescribedBody {
    pub(super) const fn new(body: Body) -> Self {
        Self { body, permit: None }
    }

    /// The same body, which keeps a permit until it has been sent.
    pub(super) fn keeping(mut self, permit: Arc<QuotaPermit>) -> Self {
        self.permit = Some(permit);
        self
    }
}

impl HttpBody for DescribedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            describe(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Adds details to an error that has none, and makes it fit.
fn describe(headers: &mut HeaderMap) {
    let is_error = headers
        .get(Status::GRPC_STATUS)
        .is_some_and(|code| code != "0");
    if !is_error || (headers.contains_key(DETAILS) && shrink::is_small(headers)) {
        return;
    }
    let Some(status) = Status::from_header_map(headers) else {
        return;
    };
    let full = if headers.contains_key(DETAILS) {
        status
    } else {
        with_details(&status)
    };
    // What cannot be written as headers stays as it was.
    let _ = shrink::shrunk(&full).add_header(headers);
}

/// The code and the reason of a response whose call has ended or whose stream has begun.
pub(crate) fn outcome_of(headers: &HeaderMap) -> (Code, String) {
    let Some(status) = Status::from_header_map(headers) else {
        return (Code::Ok, String::new());
    };
    if !headers.contains_key(DETAILS) {
        let (code, reason, _) = told(&status);
        return (code, reason.to_owned());
    }
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.clone());
    (status.code(), reason.unwrap_or_default())
}

/// A status that tonic made, with an `ErrorInfo`.
fn with_details(status: &Status) -> Status {
    let (code, reason, hint) = told(status);
    let mut metadata = HashMap::new();
    if !hint.is_empty() {
        metadata.insert("hint".to_owned(), hint.to_owned());
    }
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, metadata);
    let metadata = status.metadata().clone();
    Status::with_error_details_and_metadata(code, status.message(), details, metadata)
}

/// Code, reason and hint of a status that tonic made.
///
/// Every status of the services has details. `INTERNAL` without them is what tonic says of a
/// request that it cannot read: its protobuf is malformed, it ends early, its framing is wrong.
fn told(status: &Status) -> (Code, &'static str, &'static str) {
    match status.code() {
        Code::Internal => (
            Code::InvalidArgument,
            "INVALID_MESSAGE",
            "The request is not a message of this method. Use a client that was generated from \
             the API of this gateway.",
        ),
        Code::OutOfRange | Code::ResourceExhausted => (
            status.code(),
            "MESSAGE_TOO_LARGE",
            "Send less in one message, or raise `server.max_message_bytes`.",
        ),
        Code::Unimplemented if status.metadata().contains_key("grpc-accept-encoding") => (
            Code::Unimplemented,
            "ENCODING_NOT_SUPPORTED",
            "Send the message without compression.",
        ),
        Code::Unimplemented => (Code::Unimplemented, "METHOD_NOT_FOUND", ""),
        Code::DeadlineExceeded | Code::Cancelled => (status.code(), "DEADLINE_EXCEEDED", ""),
        Code::InvalidArgument => (Code::InvalidArgument, "INVALID_MESSAGE", ""),
        Code::NotFound => (Code::NotFound, "NOT_FOUND", ""),
        other => (other, "INTERNAL", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(headers: &HeaderMap) -> (Code, String) {
        let status = Status::from_header_map(headers).unwrap();
        let details = status.get_error_details();
        (status.code(), details.error_info().unwrap().reason.clone())
    }

    #[test]
    fn an_error_without_details_gets_them() {
        for (status, code, reason) in [
            (
                Status::internal("failed to decode Protobuf message"),
                Code::InvalidArgument,
                "INVALID_MESSAGE",
            ),
            (
                Status::out_of_range("Error, decoded message length too large"),
                Code::OutOfRange,
                "MESSAGE_TOO_LARGE",
            ),
            (
                Status::unimplemented(""),
                Code::Unimplemented,
                "METHOD_NOT_FOUND",
            ),
        ] {
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).unwrap();
            describe(&mut headers);
            assert_eq!(reason_of(&headers), (code, reason.to_owned()));
        }
    }

    #[test]
    fn success_stays_as_it_is() {
        let mut headers = HeaderMap::new();
        Status::ok("").add_header(&mut headers).unwrap();
        let before = headers.clone();
        describe(&mut headers);
        assert_eq!(headers, before);
    }
}
