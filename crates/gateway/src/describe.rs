//! Gives the errors that tonic makes by itself the `ErrorInfo` that every error of ours has.
//!
//! A message beyond the limit, an unknown method or a deadline that came first never reach a
//! service; their statuses leave without details. Here they get them.

use std::collections::HashMap;
use std::task::{Context, Poll};

use axum::http::{Request, Response};
use futures::TryFutureExt;
use futures::future::MapOk;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::{Layer, Service};

use crate::status::DOMAIN;

/// Puts [`Described`] around a service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DescribeLayer;

impl<S> Layer<S> for DescribeLayer {
    type Service = Described<S>;

    fn layer(&self, inner: S) -> Described<S> {
        Described(inner)
    }
}

/// A service whose errors all say their reason.
#[derive(Debug, Clone)]
pub(crate) struct Described<S>(S);

impl<S> Service<Request<Body>> for Described<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = MapOk<S::Future, fn(Response<Body>) -> Response<Body>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request).map_ok(described)
    }
}

/// The response, with details if it is an error without any. An error that comes before an answer
/// is told in the headers alone.
fn described(mut response: Response<Body>) -> Response<Body> {
    const DETAILS: &str = "grpc-status-details-bin";
    let headers = response.headers();
    if !headers.contains_key("grpc-status") || headers.contains_key(DETAILS) {
        return response;
    }
    let Some(status) = Status::from_header_map(headers).filter(|status| status.code() != Code::Ok)
    else {
        return response;
    };
    let mut details = ErrorDetails::new();
    details.set_error_info(reason(status.code()), DOMAIN, HashMap::new());
    let full = Status::with_error_details_and_metadata(
        status.code(),
        status.message(),
        details,
        status.metadata().clone(),
    );
    // What cannot be written as headers stays as it was.
    let _ = full.add_header(response.headers_mut());
    response
}

const fn reason(code: Code) -> &'static str {
    match code {
        Code::OutOfRange => "MESSAGE_TOO_LARGE",
        Code::Unimplemented => "METHOD_NOT_FOUND",
        Code::DeadlineExceeded | Code::Cancelled => "DEADLINE_EXCEEDED",
        Code::InvalidArgument => "INVALID_MESSAGE",
        _ => "INTERNAL",
    }
}
