//! One connection to a provider. A connection that broke is never used again: the next one begins with a
//! new description of the provider.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{Error, ErrorKind, Verb};
use stateway_wire::MAX_MESSAGE_BYTES;
use stateway_wire::v1::identity_client::IdentityClient;
use stateway_wire::v1::provider_client::ProviderClient;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::Config;
use crate::address::{Dialer, Line};
use crate::error::of_status;

/// How often the connection is checked while nothing is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How long the provider may take to answer such a check.
const KEEP_ALIVE_PATIENCE: Duration = Duration::from_secs(5);

/// One connection.
#[derive(Clone)]
pub(crate) struct Client {
    channel: Channel,
    is_closed: Arc<AtomicBool>,
    closed: Arc<Notify>,
    /// What the first call that failed with the connection reported.
    why_closed: Arc<Mutex<Option<String>>>,
}

impl Client {
    /// Speaks gRPC over this line. `closed` is woken when the connection can no longer be used.
    pub(crate) async fn over(
        line: Box<dyn Line>,
        closed: Arc<Notify>,
    ) -> Result<Self, tonic::transport::Error> {
        let is_closed = Arc::new(AtomicBool::new(false));
        let guarded = Guarded {
            line,
            is_closed: Arc::clone(&is_closed),
            closed: Arc::clone(&closed),
        };
        let mut line = Some(guarded);
        // The channel must not reconnect by itself: the description of the new process would not be read.
        let once = service_fn(move |_| {
            let line = line.take().map(TokioIo::new);
            let lost = || io::Error::new(io::ErrorKind::NotConnected, "the connection was lost");
            async move { line.ok_or_else(lost) }
        });
        let channel = Endpoint::from_static("http://provider")
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_PATIENCE)
            .keep_alive_while_idle(true)
            .connect_with_connector(once)
            .await?;
        Ok(Self {
            channel,
            is_closed,
            closed,
            why_closed: Arc::default(),
        })
    }

    /// The error of a call over this connection. After a failure of the connection itself no further call
    /// uses it: a provider that stops refuses calls while open watches keep the connection alive.
    pub(crate) fn failed(&self, status: &Status, verb: Verb) -> Error {
        let error = of_status(status, verb);
        if status.source().is_some() && error.kind == ErrorKind::Unavailable {
            let mut why = lock(&self.why_closed);
            why.get_or_insert_with(|| error.message.clone());
            drop(why);
            self.is_closed.store(true, Ordering::Release);
            self.closed.notify_one();
        }
        error
    }

    /// Whether the connection broke, or takes no further calls.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Why the connection was closed, as far as a call noticed.
    pub(crate) fn why_closed(&self) -> String {
        let why = lock(&self.why_closed).clone();
        why.unwrap_or_else(|| "the provider closed the connection".to_owned())
    }

    /// Whether both are the same connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.is_closed, &other.is_closed)
    }

    pub(crate) fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    pub(crate) fn provider(&self) -> ProviderClient<Channel> {
        ProviderClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }
}

/// A channel to a provider, for services beside the contract. It does not reconnect.
///
/// # Errors
/// The configuration cannot be used, or the provider cannot be reached.
pub async fn channel(config: &Config) -> Result<Channel, Box<dyn StdError + Send + Sync>> {
    let line = Dialer::new(config)?.dial().await?;
    Ok(Client::over(line, Arc::default()).await?.channel)
}

/// A line that tells when it is dropped: the transport drops it when the connection breaks.
struct Guarded {
    line: Box<dyn Line>,
    is_closed: Arc<AtomicBool>,
    closed: Arc<Notify>,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Release);
        self.closed.notify_one();
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_read(context, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(context)
    }
}
