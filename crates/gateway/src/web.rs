//! gRPC-Web beside gRPC: only calls that are gRPC-Web pay for it, and only they are touched.

use std::task::{Context, Poll};

use axum::http::header::{ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE};
use axum::http::{Method, Request, Response};
use futures::future::Either;
use tonic::body::Body;
use tonic_web::{GrpcWebLayer, GrpcWebService};
use tower::{Layer, Service};

/// Puts [`WebOrPlain`] around a service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WebOrPlainLayer;

impl<S: Clone> Layer<S> for WebOrPlainLayer {
    type Service = WebOrPlain<S>;

    fn layer(&self, plain: S) -> Self::Service {
        WebOrPlain {
            web: GrpcWebLayer::new().layer(plain.clone()),
            plain,
        }
    }
}

/// Sends gRPC-Web calls through the translation and everything else past it.
#[derive(Debug, Clone)]
pub(crate) struct WebOrPlain<S> {
    plain: S,
    web: GrpcWebService<S>,
}

impl<S> Service<Request<Body>> for WebOrPlain<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, <GrpcWebService<S> as Service<Request<Body>>>::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.plain.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_web(&request) {
            Either::Right(self.web.call(request))
        } else {
            Either::Left(self.plain.call(request))
        }
    }
}

/// A call in one of gRPC-Web's encodings, or a browser asking whether it may make one.
fn is_web<B>(request: &Request<B>) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE);
    let is_call =
        content_type.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc-web"));
    let asks = request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    is_call || asks
}
