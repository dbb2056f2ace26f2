//! The HTTP server around the handlers.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt as _;
use jiff::Timestamp;
use stateway_hosted::Plans;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::invocation::{Handler, respond};
use crate::manifest::manifest;
use crate::protocol::VERSIONS;

/// The longest request that is read: an object with all its values, as Restate sends it eagerly.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;
/// How many requests are read and answered at a time; others wait.
const MOST_REQUESTS: usize = 64;
/// How long the body of a request may take.
const LONGEST_READ: Duration = Duration::from_secs(30);
/// The forms of the manifest that this host can write.
const DISCOVERY: std::ops::RangeInclusive<u32> = 2..=4;
const DISCOVERY_TYPE: &str = "application/vnd.restate.endpointmanifest.v";
const INVOCATION_TYPE: &str = "application/vnd.restate.invocation.v";

/// Why an endpoint cannot listen.
#[derive(Debug, Error)]
#[error("{address}: {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// What all requests share.
struct Shared {
    plans: Plans,
    turns: Semaphore,
}

/// An endpoint that listens and does not answer yet.
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// Listens on an address.
    ///
    /// # Errors
    /// The address cannot be used.
    pub async fn listen(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The address it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` ends, then finishes what it has begun.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        // Answers are small, and Restate waits for each of them.
        let listener = self.listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!("TCP_NODELAY cannot be set: {error}");
            }
        });
        let shared = Arc::new(Shared {
            plans: Plans::default(),
            turns: Semaphore::new(MOST_REQUESTS),
        });
        let router = Router::new().fallback(route).with_state(shared);
        axum::serve(listener, router)
            .with_graceful_shutdown(stop)
            .await
    }
}

/// `…/discover` and `…/invoke/{service}/{handler}`, under any path.
async fn route(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    let path = request.uri().path().to_owned();
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    match (request.method(), &parts[..]) {
        (&Method::GET, [.., "discover"]) => discover(request.headers()),
        (&Method::GET, [.., "health"]) => StatusCode::OK.into_response(),
        (&Method::POST, [.., "invoke", service, handler]) => {
            match Handler::find(service, handler) {
                Some(handler) => invoke(handler, request, &shared).await,
                None => StatusCode::NOT_FOUND.into_response(),
            }
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn discover(headers: &HeaderMap) -> Response {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let versions = accepted
        .flat_map(|value| value.split(','))
        .filter_map(|media| media.trim().strip_prefix(DISCOVERY_TYPE))
        .filter_map(|rest| rest.split('+').next()?.parse().ok());
    let Some(version) = versions.filter(|it| DISCOVERY.contains(it)).max() else {
        let message = "no form of the manifest in `accept` is supported";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_response();
    };
    let body = manifest(version).to_string();
    let content_type = format!("{DISCOVERY_TYPE}{version}+json");
    (server(), [(CONTENT_TYPE, content_type)], body).into_response()
}

async fn invoke(handler: Handler, request: Request<Body>, shared: &Shared) -> Response {
    let content_type = request.headers().get(CONTENT_TYPE).cloned();
    let version = content_type.as_ref().and_then(|value| {
        let version = value.to_str().ok()?.strip_prefix(INVOCATION_TYPE)?;
        version.parse().ok()
    });
    let content_type = content_type.filter(|_| version.is_some_and(|it| VERSIONS.contains(&it)));
    let Some(content_type) = content_type else {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    };
    // Bodies are large, so their number is bounded, and so is the time that one may take.
    let Ok(_turn) = shared.turns.acquire().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let body = to_bytes(request.into_body(), MAX_REQUEST_BYTES);
    let body = match tokio::time::timeout(LONGEST_READ, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            tracing::warn!("an invocation cannot be read: {error}");
            return StatusCode::BAD_REQUEST.into_response();
        }
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    let answer = respond(handler, body, Timestamp::now(), &shared.plans);
    (server(), [(CONTENT_TYPE, content_type)], answer).into_response()
}

/// The name of the host, for Restate's own pages.
const fn server() -> [(&'static str, &'static str); 1] {
    [(
        "x-restate-server",
        concat!("stateway-host/", env!("CARGO_PKG_VERSION")),
    )]
}
