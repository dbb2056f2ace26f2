//! gRPC-Web beside gRPC: only calls that are gRPC-Web pay for it, and only they are touched.
//!
//! What a browser can send is also checked for whom it is meant: a page whose own name was made
//! to point at loopback must not steer executions.

use std::task::{Context, Poll};

use axum::http::header::{ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use futures::future::{Either, Ready, ready};
use tonic::body::Body;
use tonic_web::{GrpcWebLayer, GrpcWebService};
use tower::{Layer, Service};

/// What a browser is told that asked for another host.
const MISDIRECTED: &str = "This gateway answers only to loopback names: localhost, 127.0.0.1 or [::1]. \
                           A proxy in front of it must set Host to one of them.\n";

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
    type Future = Either<
        Either<S::Future, <GrpcWebService<S> as Service<Request<Body>>>::Future>,
        Ready<Result<Response<Body>, S::Error>>,
    >;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.plain.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_web = is_web(&request);
        let from_browser = is_web || request.version() < Version::HTTP_2;
        if from_browser && !is_for_loopback(&request) {
            return Either::Right(ready(Ok(misdirected())));
        }
        Either::Left(match is_web {
            true => Either::Right(self.web.call(request)),
            false => Either::Left(self.plain.call(request)),
        })
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

/// Whether the request names a loopback host, as everyone does who was told our address.
fn is_for_loopback<B>(request: &Request<B>) -> bool {
    let named = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let authority = match named {
        Some(host) => host.parse::<Authority>().ok(),
        None => request.uri().authority().cloned(),
    };
    authority.is_some_and(|authority| {
        let host = authority.host().trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

fn misdirected() -> Response<Body> {
    let mut response = Response::new(Body::new(MISDIRECTED.to_owned()));
    *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}
