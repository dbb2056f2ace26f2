//! One connection: HTTP/1 and HTTP/2, closed when it is silent for too long or floods.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use metrics::counter;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

use super::activity::{Activity, OpenCall};
use super::describe::DescribedBody;
use super::dispatch::Front;
use super::handshakes::{Handshake, Handshakes};
use super::peer::{Link, Peer};
use super::stream::{ClientStream, Transport};
use super::tls::{Broken, ClientCertificate, Tls};

/// How often an HTTP/2 connection is asked whether it is still there, and how long it may take to
/// answer.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a connection that is being closed may take to read what was sent.
const CLOSING: Duration = Duration::from_secs(2);

/// Time for the headers of an HTTP/1 request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest headers of an HTTP/1 request, and the most of them.
const HEADER_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;
/// The largest headers of an HTTP/2 request. More CONTINUATION frames than they need end the connection.
const HEADER_LIST_BYTES: u32 = 16 * 1024;
/// Streams that a client may open and reset before the gateway has taken them up (rapid reset), and streams
/// that it may make the gateway reset by errors, before the connection ends.
const MAX_RESET_STREAMS: usize = 20;
const MAX_ERROR_STREAMS: usize = 1024;
/// What a client may send before it is read: of one request, and of all of them together.
const WINDOW_BYTES: u32 = 1024 * 1024;

/// Limits of each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// Time to begin to speak HTTP, the TLS handshake included.
    pub(crate) handshake_timeout: Duration,
    /// Time without an open call.
    pub(crate) idle_timeout: Duration,
    /// Time until the client must be authenticated, if authentication is configured.
    pub(crate) authentication_timeout: Duration,
    /// Calls and streams at the same time.
    pub(crate) max_streams: u32,
}

/// Serves connections.
#[derive(Clone)]
pub(crate) struct Connections {
    front: Arc<Front>,
    limits: ConnectionLimits,
    http: Builder<TokioExecutor>,
    tls: Option<Arc<Tls>>,
    /// Connections whose client is not authenticated. None without authentication.
    unauthenticated: Option<Arc<Handshakes>>,
    /// No new calls: each connection ends with the calls that it has.
    stop: CancellationToken,
    /// Ends connections whatever they do.
    cut: CancellationToken,
}

impl Connections {
    pub(crate) fn new(
        front: Front,
        limits: ConnectionLimits,
        tls: Option<Arc<Tls>>,
        max_unauthenticated: Option<usize>,
        stop: CancellationToken,
        cut: CancellationToken,
    ) -> Self {
        let mut http = Builder::new(TokioExecutor::new());
        // Every bound is written down, although some are the defaults of the library: a new version of it
        // must not change them.
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_headers(MAX_HEADERS)
            .max_buf_size(HEADER_BYTES);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.max_streams)
            .max_header_list_size(HEADER_LIST_BYTES)
            .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
            .max_local_error_reset_streams(MAX_ERROR_STREAMS)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
        Self {
            front: Arc::new(front),
            limits,
            http,
            tls,
            unauthenticated: max_unauthenticated.map(Handshakes::new),
            stop,
            cut,
        }
    }

    /// Serves one connection to its end.
    pub(crate) async fn serve(self, stream: TcpStream, peer: Peer) {
        let unauthenticated = self.unauthenticated.as_ref().map(Handshakes::begin);
        let activity = Arc::new(Activity::new(unauthenticated.is_none()));
        let cut_off = unauthenticated.as_ref().map(Handshake::cut);
        // A connection that is gone fails with its first read.
        let _ = stream.set_nodelay(true);
        // Boxed: a handshake needs its room for milliseconds, a connection is open for hours.
        let secured = tokio::select! {
            stream = Box::pin(self.secured(stream, peer, &activity)) => stream,
            () = activity.unauthenticated(&self.limits, cut_off.clone()) => {
                count_cut(&activity, peer);
                None
            }
        };
        let Some(stream) = secured else {
            return;
        };
        let certificate = match &stream {
            Transport::Plain(_) => None,
            Transport::Tls(stream) => ClientCertificate::of(stream),
        };
        let link = Arc::new(Link {
            peer,
            tls: self.tls.clone(),
            certificate,
            activity: activity.clone(),
            unauthenticated: Mutex::new(unauthenticated),
        });
        let io = TokioIo::new(ClientStream::new(stream, activity.clone()));
        let (front, calls) = (self.front, activity.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (front, link, open) = (front.clone(), link.clone(), calls.begin_call());
            // Boxed, because a stream keeps the room of this future for as long as it is open.
            Box::pin(async move {
                let response = front.answer(request.map(Body::new), &link).await;
                Ok::<_, Infallible>(response.map(|body| CountedBody { body, _open: open }))
            })
        });
        let mut connection = pin!(self.http.serve_connection(io, service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = activity.silence(&self.limits) => None,
            () = activity.unauthenticated(&self.limits, cut_off) => return count_cut(&activity, peer),
            () = self.stop.cancelled() => None,
            () = self.cut.cancelled() => return,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                let is_stopping = self.stop.is_cancelled();
                connection.as_mut().graceful_shutdown();
                let unused = async {
                    if is_stopping {
                        std::future::pending::<()>().await;
                    } else {
                        activity.without_calls(CLOSING).await;
                    }
                };
                tokio::select! {
                    ended = connection => ended,
                    () = unused => return,
                    () = self.cut.cancelled() => return,
                }
            }
        };
        if activity.cut().is_some() {
            count_cut(&activity, peer);
        } else if let Err(error) = ended {
            tracing::debug!(peer = %peer.0, "connection broke: {error}");
        }
    }
}

impl Connections {
    /// The stream after its TLS handshake, if there is one. None if the handshake failed.
    async fn secured(
        &self,
        stream: TcpStream,
        peer: Peer,
        activity: &Activity,
    ) -> Option<Transport> {
        let Some(tls) = &self.tls else {
            return Some(Transport::Plain(stream));
        };
        let reason = tokio::select! {
            accepted = tls.accept(stream) => match accepted {
                Ok(stream) => return Some(Transport::Tls(Box::new(stream))),
                Err(Broken::CutOff) => "too-many-handshakes",
                Err(Broken::Failed(error)) => {
                    tracing::debug!(peer = %peer.0, "TLS handshake failed: {error}");
                    "handshake-failed"
                }
            },
            () = activity.silence(&self.limits) => "handshake-timeout",
            () = self.stop.cancelled() => return None,
        };
        counter!("stateway_connections_cut_total", "reason" => reason).increment(1);
        None
    }
}

/// Counts a connection that was cut off.
fn count_cut(activity: &Activity, peer: Peer) {
    if let Some(reason) = activity.cut() {
        counter!("stateway_connections_cut_total", "reason" => reason).increment(1);
        tracing::debug!(peer = %peer.0, "connection closed: {reason}");
    }
}

/// A response body that keeps its call open until it has been sent.
struct CountedBody {
    body: DescribedBody,
    _open: OpenCall,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
