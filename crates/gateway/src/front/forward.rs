//! Forwards calls of the API to the gateway that owns the shared store, while this one stands by.
//!
//! A call is forwarded as it came, message by message, so that unary calls, watches and the sessions of workers all
//! pass. It is forwarded once at most: a call that another gateway forwarded is answered here, and a call that was sent
//! is never sent again. Neighbours: `services` decides between this and the own services, `peer_tls` encrypts the
//! connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, ORIGIN, PROXY_AUTHORIZATION, REFERER,
    TE, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version};
use futures::StreamExt;
use futures::future::BoxFuture;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use stateway_identity::Identity;
use stateway_provider_api::ActiveGateway;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::{Code, Status};

use super::origin::is_loopback;
use super::peer_tls::PeerTls;
use super::people;
use crate::authentication::{ACTOR, name_caller, remove_proofs};
use crate::quota::CallKind;
use crate::status::Refusal;

/// Marks a call that another gateway forwarded. It gains a client nothing: this gateway then answers by itself.
const FORWARDED: HeaderName = HeaderName::from_static("x-stateway-forwarded");
/// The name of this gateway when it introduces itself to the active one.
const GATEWAY: HeaderValue = HeaderValue::from_static("stateway-gateway");
/// Headers that belong to the connection of the client, or to the page that sent the call.
const NOT_FORWARDED: [HeaderName; 13] = [
    AUTHORIZATION,
    CONNECTION,
    CONTENT_LENGTH,
    COOKIE,
    HOST,
    ORIGIN,
    PROXY_AUTHORIZATION,
    REFERER,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Time for a connection, until the active gateway has answered a first request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time between two attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How long a call waits for a connection that is being made for the first time.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// How often the connection is checked, and how long its other end may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// How often a request is sent, so that the active gateway does not close the connection as unused.
const KEEP_USED: Duration = Duration::from_secs(20);
/// What the active gateway may send before it is read: of one call, and of all of them together. A client that reads
/// slowly must not delay the others.
const CALL_WINDOW: u32 = 256 * 1024;
const WINDOW: u32 = 1024 * 1024 * 1024;

/// The way to the active gateway.
pub(crate) struct Forward {
    /// Encrypts the connection, and proves that this gateway may call for others. None without authentication.
    tls: Option<PeerTls>,
    is_authenticated: bool,
    position: watch::Sender<Position>,
    /// Forwarded calls that have no answer yet.
    open: Arc<AtomicUsize>,
    stop: CancellationToken,
}

/// Who answers the calls.
#[derive(Clone)]
enum Position {
    /// This gateway, or nobody as far as it knows.
    Here,
    /// The gateway at this address. The first attempt to connect to it is under way.
    Connecting,
    /// The gateway at this address, which does not answer.
    Unreached(Arc<str>),
    Linked(Link),
}

/// A connection to the active gateway.
#[derive(Clone)]
struct Link {
    address: Arc<str>,
    scheme: Scheme,
    authority: Authority,
    sender: SendRequest<Body>,
    /// The connection has ended, or another gateway is active.
    gone: CancellationToken,
}

/// How another gateway answers the calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standby {
    /// The gateway at this address answers them.
    Forwards(Arc<str>),
    /// The gateway at this address cannot be reached.
    Unreached(Arc<str>),
}

impl Forward {
    pub(crate) fn new(
        tls: Option<PeerTls>,
        is_authenticated: bool,
        stop: CancellationToken,
    ) -> Self {
        Self {
            tls,
            is_authenticated,
            position: watch::Sender::new(Position::Here),
            open: Arc::default(),
            stop,
        }
    }

    /// Keeps a connection to the active gateway, until `stop` is cancelled.
    pub(crate) async fn run(self: Arc<Self>, mut active: ActiveGateway) {
        let mut address: Option<Arc<str>> = None;
        loop {
            let keep = async {
                match &address {
                    Some(address) => self.keep(address).await,
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                () = self.stop.cancelled() => return,
                next = active.next() => next,
                never = keep => match never {},
            };
            // Calls that are under way with the gateway before end: their callers repeat them.
            self.leave(Position::Here);
            let Some(next) = next else { return };
            address = next;
        }
    }

    /// Connects again and again.
    async fn keep(&self, address: &Arc<str>) -> Infallible {
        self.leave(Position::Connecting);
        loop {
            match timeout(CONNECT_TIMEOUT, self.connect(address)).await {
                Ok(Ok((link, connection))) => {
                    tracing::info!(%address, "calls are forwarded to the active gateway");
                    self.leave(Position::Linked(link.clone()));
                    tokio::select! {
                        () = connection => {}
                        () = stay_in_use(link) => {}
                    }
                    tracing::info!(%address, "the connection to the active gateway has ended");
                    self.leave(Position::Connecting);
                }
                Ok(Err(why)) => self.unreached(address, &why),
                Err(_) => self.unreached(address, "no answer in time"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    fn unreached(&self, address: &Arc<str>, why: &str) {
        let is_news = !matches!(&*self.position.borrow(), Position::Unreached(_));
        if is_news {
            tracing::warn!(%address, "calls cannot be forwarded to the active gateway: {why}");
        }
        self.leave(Position::Unreached(address.clone()));
    }

    /// Changes the position. Calls over a connection that was used until now end.
    fn leave(&self, next: Position) {
        if let Position::Linked(link) = self.position.send_replace(next) {
            link.gone.cancel();
        }
    }

    /// A connection over which the active gateway has answered, and what drives it.
    async fn connect(&self, address: &Arc<str>) -> Result<(Link, BoxFuture<'static, ()>), String> {
        let (scheme, authority) = parts(address)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let is_encrypted = scheme == Scheme::HTTPS;
        // Nothing is sent to an address that must not be called.
        if !is_encrypted && (self.is_authenticated || !is_loopback(&host)) {
            let why =
                "without TLS, calls are forwarded only on loopback and without authentication";
            return Err(why.to_owned());
        }
        let tls = match &self.tls {
            None if is_encrypted => return Err("`server.peers` is not configured".to_owned()),
            tls => tls.as_ref().filter(|_| is_encrypted),
        };
        let port = authority.port_u16();
        let port = port.unwrap_or(if is_encrypted { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        // A connection that is gone fails with its first write.
        let _ = stream.set_nodelay(true);
        let (sender, connection) = match tls {
            Some(tls) => begun(tls.connect(&host, stream).await?).await?,
            None => begun(stream).await?,
        };
        let link = Link {
            address: address.clone(),
            scheme,
            authority,
            sender,
            gone: CancellationToken::new(),
        };
        let mut connection = connection;
        tokio::select! {
            introduced = link.introduce() => introduced?,
            () = &mut connection => return Err("the connection was closed".to_owned()),
        }
        Ok((link, connection))
    }

    /// How another gateway answers calls; none if this one does.
    pub(crate) fn standby(&self) -> Option<Standby> {
        match &*self.position.borrow() {
            Position::Linked(link) => Some(Standby::Forwards(link.address.clone())),
            Position::Unreached(address) => Some(Standby::Unreached(address.clone())),
            Position::Here | Position::Connecting => None,
        }
    }

    /// Whether forwarded calls wait for their answers.
    pub(crate) fn is_waiting(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Whether a call belongs to the active gateway.
    pub(super) fn takes(&self, request: &Request<Body>) -> bool {
        let has_caller = request.extensions().get::<Arc<Identity>>().is_some();
        request.uri().path().starts_with("/stateway.v1.")
            && !request.headers().contains_key(FORWARDED)
            && (has_caller || !self.is_authenticated)
            && matches!(
                &*self.position.borrow(),
                Position::Connecting | Position::Linked(_)
            )
    }

    /// Sends a call to the active gateway. Gives the call back if it was not sent.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Box<Unsent>> {
        let Some(mut link) = self.link().await else {
            return Err(Box::new(Unsent(request)));
        };
        let kind = CallKind::of(request.uri().path());
        let (own, body) = request.into_parts();
        let mut parts = own.clone();
        let identity = parts.extensions.remove::<Arc<Identity>>();
        parts.extensions.clear();
        parts.version = Version::HTTP_2;
        parts.headers = forwarded_headers(&own.headers, identity.as_deref());
        let path = parts.uri.path_and_query().cloned();
        let Some(uri) = path.and_then(|path| link.uri(path)) else {
            return Err(Box::new(Unsent(Request::from_parts(own, body))));
        };
        parts.uri = uri;
        let _open = (kind != CallKind::Stream).then(|| OpenForward::begin(&self.open));
        let gone = link.gone.clone();
        let sending = link
            .sender
            .try_send_request(Request::from_parts(parts, body));
        let answered = tokio::select! {
            answered = sending => answered,
            () = gone.cancelled() => return Ok(lost(&link.address).into_http()),
        };
        match answered {
            Ok(response) => {
                let stop = (kind == CallKind::Stream).then(|| self.stop.clone());
                let (mut parts, body) = response.into_parts();
                parts.version = Version::default();
                if body.is_end_stream() {
                    return Ok(Response::from_parts(parts, Body::empty()));
                }
                let body = Body::new(ForwardedBody::new(body, link.address, gone, stop));
                Ok(Response::from_parts(parts, body))
            }
            Err(mut error) => match error.take_message() {
                Some(unsent) => {
                    let request = Request::from_parts(own, unsent.into_body());
                    Err(Box::new(Unsent(request)))
                }
                None => Ok(lost(&link.address).into_http()),
            },
        }
    }

    /// The connection. A call waits for it a moment if it is being made.
    async fn link(&self) -> Option<Link> {
        let mut position = self.position.subscribe();
        let settled = position.wait_for(|position| !matches!(position, Position::Connecting));
        match &*timeout(CONNECT_PATIENCE, settled).await.ok()?.ok()? {
            Position::Linked(link) => Some(link.clone()),
            _ => None,
        }
    }
}

/// A call that did not leave this gateway.
pub(super) struct Unsent(pub(super) Request<Body>);

/// Counts a call until it has an answer.
struct OpenForward(Arc<AtomicUsize>);

impl OpenForward {
    fn begin(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open.clone())
    }
}

impl Drop for OpenForward {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The status of a call whose connection to the active gateway ended.
fn lost(address: &str) -> Status {
    Refusal::new(
        Code::Unavailable,
        "ACTIVE_GATEWAY_LOST",
        format!("the connection to the active gateway at {address} ended before the call did"),
    )
    .hint(
        "Repeat the call, a write with the same request id: whether it had an effect is not known.",
    )
    .retry_after(Duration::from_secs(1))
    .into()
}

/// The status of a stream whose gateway stops.
fn draining() -> Status {
    crate::watch::draining("Connect again.")
}

/// Scheme, host and port of the address of a gateway.
fn parts(address: &str) -> Result<(Scheme, Authority), String> {
    let wrong = || format!("`{address}` is not an address of a gateway");
    let uri: Uri = address.parse().map_err(|_| wrong())?;
    let parts = uri.into_parts();
    match (parts.scheme, parts.authority) {
        (Some(scheme), Some(authority)) if scheme == Scheme::HTTP || scheme == Scheme::HTTPS => {
            Ok((scheme, authority))
        }
        _ => Err(wrong()),
    }
}

/// Begins HTTP/2.
async fn begun<S>(stream: S) -> Result<(SendRequest<Body>, BoxFuture<'static, ()>), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(CALL_WINDOW)
        .initial_connection_window_size(WINDOW);
    let begun = http.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = begun.map_err(|error| error.to_string())?;
    Ok((sender, Box::pin(driven(connection))))
}

async fn driven<S>(connection: Connection<TokioIo<S>, Body, TokioExecutor>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if let Err(error) = connection.await {
        tracing::debug!("the connection to the active gateway broke: {error}");
    }
}

/// Sends a request now and then, until one is not answered as it should be.
async fn stay_in_use(link: Link) {
    loop {
        tokio::time::sleep(KEEP_USED).await;
        match timeout(CONNECT_TIMEOUT, link.introduce()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => {
                tracing::warn!("the active gateway refuses this gateway: {why}");
                return;
            }
            Err(_) => return,
        }
    }
}

impl Link {
    fn uri(&self, path: PathAndQuery) -> Option<Uri> {
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path);
        uri.build().ok()
    }

    /// Asks the active gateway who calls. With authentication, that proves that it accepts this gateway as a proxy.
    async fn introduce(&self) -> Result<(), String> {
        let path = PathAndQuery::from_static(people::WHO);
        let mut request = Request::new(Body::empty());
        *request.version_mut() = Version::HTTP_2;
        if let Some(uri) = self.uri(path) {
            *request.uri_mut() = uri;
        }
        request.headers_mut().insert(ACTOR, GATEWAY);
        let answered = self.sender.clone().send_request(request).await;
        let answered = answered.map_err(|error| error.to_string())?;
        match answered.status() {
            StatusCode::OK => Ok(()),
            StatusCode::UNAUTHORIZED => Err(
                "it does not accept the certificate of `server.peers` as that of a proxy \
                 (`authentication.proxy`)"
                    .to_owned(),
            ),
            other => Err(format!("it answers with HTTP status {other}")),
        }
    }
}

/// The headers of a call as the active gateway gets them.
fn forwarded_headers(headers: &HeaderMap, identity: Option<&Identity>) -> HeaderMap {
    let listed: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let is_for_browsers =
        |name: &str| name.starts_with("sec-") || name.starts_with("access-control-");
    let mut forwarded = HeaderMap::with_capacity(headers.len() + 3);
    for (name, value) in headers {
        let stays = NOT_FORWARDED.contains(name) || listed.contains(name);
        if !stays && !is_for_browsers(name.as_str()) {
            forwarded.append(name.clone(), value.clone());
        }
    }
    if let Some(identity) = identity {
        remove_proofs(&mut forwarded);
        name_caller(&mut forwarded, identity);
    }
    forwarded.insert(TE, HeaderValue::from_static("trailers"));
    forwarded.insert(FORWARDED, HeaderValue::from_static("1"));
    forwarded
}

/// The body of a response of the active gateway. None after its end.
struct ForwardedBody(Option<Open>);

struct Open {
    body: Incoming,
    address: Arc<str>,
    gone: BoxFuture<'static, ()>,
    /// Set for a stream, which ends when this gateway stops.
    stop: Option<BoxFuture<'static, ()>>,
}

impl ForwardedBody {
    fn new(
        body: Incoming,
        address: Arc<str>,
        gone: CancellationToken,
        stop: Option<CancellationToken>,
    ) -> Self {
        Self(Some(Open {
            body,
            address,
            gone: Box::pin(gone.cancelled_owned()),
            stop: stop.map(|stop| -> BoxFuture<'static, ()> { Box::pin(stop.cancelled_owned()) }),
        }))
    }

    /// Ends the body with a status.
    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0 = None;
        let mut trailers = HeaderMap::new();
        let ending = match status.add_header(&mut trailers) {
            Ok(()) => Ok(Frame::trailers(trailers)),
            Err(error) => Err(error),
        };
        Poll::Ready(Some(ending))
    }
}

impl HttpBody for ForwardedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(open) = &mut self.0 else {
            return Poll::Ready(None);
        };
        if open.gone.as_mut().poll(context).is_ready() {
            let status = lost(&open.address);
            return self.end(&status);
        }
        if let Some(stop) = &mut open.stop
            && stop.as_mut().poll(context).is_ready()
        {
            return self.end(&draining());
        }
        match ready!(Pin::new(&mut open.body).poll_frame(context)) {
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Err(_)) => {
                let status = lost(&open.address);
                self.end(&status)
            }
            None => {
                self.0 = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|open| open.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use stateway_identity::Method;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        lines.collect()
    }

    #[test]
    fn a_call_keeps_its_deadline_and_id_and_loses_what_belongs_to_its_connection() {
        let own = headers(&[
            ("connection", "x-hop, close"),
            ("x-hop", "1"),
            ("host", "stand-by.example"),
            ("origin", "http://stand-by.example"),
            ("sec-fetch-site", "same-origin"),
            ("cookie", "a=b"),
            ("authorization", "Bearer x"),
            ("content-length", "7"),
            ("te", "trailers, deflate"),
            ("grpc-timeout", "5S"),
            ("x-request-id", "r"),
            ("content-type", "application/grpc"),
            ("x-stateway-actor", "ada"),
        ]);
        let expected = headers(&[
            ("grpc-timeout", "5S"),
            ("x-request-id", "r"),
            ("content-type", "application/grpc"),
            ("x-stateway-actor", "ada"),
            ("te", "trailers"),
            ("x-stateway-forwarded", "1"),
        ]);
        assert_eq!(forwarded_headers(&own, None), expected);
    }

    #[test]
    fn a_proved_caller_is_named_and_no_other() {
        let own = headers(&[("x-stateway-actor", "eve"), ("x-stateway-tenant", "other")]);
        let identity = Identity::new(Method::Jwt, "ada", ["ops", "dev"], None).unwrap();
        let expected = headers(&[
            ("x-stateway-actor", "ada"),
            ("x-stateway-roles", "ops,dev"),
            ("te", "trailers"),
            ("x-stateway-forwarded", "1"),
        ]);
        assert_eq!(forwarded_headers(&own, Some(&identity)), expected);
    }

    #[tokio::test]
    async fn a_call_is_forwarded_once_and_only_for_a_caller_that_is_known() {
        let forward = |is_authenticated| {
            let forward = Forward::new(None, is_authenticated, CancellationToken::new());
            forward.leave(Position::Connecting);
            forward
        };
        let call = |path: &'static str| {
            let mut request = Request::new(Body::empty());
            *request.uri_mut() = Uri::from_static(path);
            request
        };
        let get = "/stateway.v1.Executions/GetExecution";
        assert!(forward(false).takes(&call(get)));
        assert!(!forward(false).takes(&call("/grpc.health.v1.Health/Check")));
        assert!(!forward(true).takes(&call(get)));
        let mut known = call(get);
        let identity = Identity::new(Method::Jwt, "ada", ["ops"], None).unwrap();
        known.extensions_mut().insert(Arc::new(identity));
        assert!(forward(true).takes(&known));
        let mut again = call(get);
        again
            .headers_mut()
            .insert(FORWARDED, HeaderValue::from_static("no"));
        assert!(!forward(false).takes(&again));
        let own = forward(false);
        own.leave(Position::Here);
        assert!(!own.takes(&call(get)));
    }

    #[tokio::test]
    async fn without_tls_only_loopback_is_called() {
        let forward = Forward::new(None, false, CancellationToken::new());
        for (address, why) in [
            ("http://192.0.2.1:1", "without TLS"),
            ("https://127.0.0.1:1", "`server.peers`"),
            ("ftp://127.0.0.1:1", "is not an address"),
            ("nonsense", "is not an address"),
        ] {
            let address = Arc::from(address);
            let connecting = timeout(CONNECT_TIMEOUT, forward.connect(&address)).await;
            let error = connecting.unwrap().err().unwrap();
            assert!(error.contains(why), "{address}: {error}");
        }
    }
}
