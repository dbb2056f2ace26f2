//! The stream of one connection, with or without TLS: whole buffers instead of lists of them, and a
//! budget of control frames.
//!
//! With vectored writes h2 sends every message beyond 256 bytes in a write of its own and its
//! trailers in the next; without them it copies messages of up to 1 KiB together and writes once.
//! Nearly every response is of that size, and a copy is far cheaper than a system call.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::activity::Activity;
use super::frames::FrameBudget;

/// The most bytes that a client may send before it has proved who it is. The first request of an honest
/// client proves it with its headers; the window of the connection may be full of its body by then.
const MAX_UNPROVEN_BYTES: usize = 2 * 1024 * 1024;

/// The bytes of HTTP as the client sent them.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A stream without vectored writes that counts control frames.
#[derive(Debug)]
pub(super) struct ClientStream {
    stream: Transport,
    frames: FrameBudget,
    /// Bytes that were received before the client had proved who it is.
    unproven: usize,
    activity: Arc<Activity>,
}

impl ClientStream {
    pub(super) fn new(stream: Transport, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            frames: FrameBudget::new(Instant::now()),
            unproven: 0,
            activity,
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(match &mut this.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        })?;
        let received = &buffer.filled()[before..];
        if !this.activity.is_proven() {
            this.unproven += received.len();
            if this.unproven > MAX_UNPROVEN_BYTES {
                this.activity.note_cut("unproven-bytes");
                let error = "more bytes than a client may send before it is authenticated";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
        if this.frames.received(received, Instant::now).is_err() {
            this.activity.note_cut("flood");
            let error = "too many control frames for the requests and data that were sent";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        if this.frames.has_begun() {
            this.activity.note_beginning();
        }
        Poll::Ready(Ok(()))
    }
}

/// `is_write_vectored` keeps its default, which is no: that is the point.
impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(match &mut this.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        })?;
        this.frames.sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
