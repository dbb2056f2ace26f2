//! The stream of one connection, with or without TLS: responses that are ready together are written together, and
//! control frames have a budget.
//!
//! hyper flushes a connection after every response. The runtime runs the task of a connection right after the call that
//! has ended, so that each response would be a TLS record and a system call of its own while other calls of the
//! same connection are about to end. A flush therefore lets the other tasks run once before it writes.
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
const MAX_UNAUTHENTICATED_BYTES: usize = 2 * 1024 * 1024;

/// The most bytes that wait for a flush: more than a full frame of h2 with its header.
const MAX_GATHERED_BYTES: usize = 32 * 1024;
/// From this number of bytes on, data is written without waiting for more.
const ENOUGH_BYTES: usize = 8 * 1024;
/// Room for gathered bytes that a connection keeps while it is idle.
const KEPT_BYTES: usize = 4 * 1024;

/// The bytes of HTTP as the client sent them.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A stream without vectored writes that gathers responses and counts control frames.
#[derive(Debug)]
pub(super) struct ClientStream {
    stream: Transport,
    gathered: Gathered,
    frames: FrameBudget,
    /// Bytes that were received before the client had proved who it is.
    unauthenticated: usize,
    activity: Arc<Activity>,
}

impl ClientStream {
    pub(super) fn new(stream: Transport, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            gathered: Gathered::default(),
            frames: FrameBudget::new(Instant::now()),
            unauthenticated: 0,
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
            this.unauthenticated += received.len();
            if this.unauthenticated > MAX_UNAUTHENTICATED_BYTES {
                this.activity.note_cut("unauthenticated-bytes");
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
        let written = ready!(
            this.gathered
                .poll_write(Pin::new(&mut this.stream), context, bytes)
        )?;
        this.frames.sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(
            this.gathered
                .poll_flush(Pin::new(&mut this.stream), context)
        )?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(
            this.gathered
                .poll_drain(Pin::new(&mut this.stream), context)
        )?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Bytes that were written and not yet flushed.
#[derive(Debug, Default)]
struct Gathered {
    bytes: Vec<u8>,
    /// Of the bytes, those that the stream has taken.
    taken: usize,
    /// Other tasks were let run since the last flush.
    has_yielded: bool,
}

impl Gathered {
    /// Takes bytes. Those that do not fit go to the stream, after those that wait.
    fn poll_write<S: AsyncWrite>(
        &mut self,
        stream: Pin<&mut S>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut stream = stream;
        if self.bytes.len() + bytes.len() > MAX_GATHERED_BYTES {
            ready!(self.poll_drain(stream.as_mut(), context))?;
            if bytes.len() > MAX_GATHERED_BYTES {
                return stream.poll_write(context, bytes);
            }
        }
        self.bytes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Passes the bytes on, after the other tasks that are ready have run once.
    fn poll_flush<S: AsyncWrite>(
        &mut self,
        stream: Pin<&mut S>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let is_little = (1..ENOUGH_BYTES).contains(&self.bytes.len());
        if is_little && !self.has_yielded {
            self.has_yielded = true;
            // A task that wakes itself runs after those that are ready.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_drain(stream, context))?;
        self.has_yielded = false;
        Poll::Ready(Ok(()))
    }

    /// Passes the bytes on.
    fn poll_drain<S: AsyncWrite>(
        &mut self,
        mut stream: Pin<&mut S>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.taken < self.bytes.len() {
            let rest = &self.bytes[self.taken..];
            match ready!(stream.as_mut().poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.taken += count,
            }
        }
        self.taken = 0;
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes a few bytes at a time, and notes how many.
    #[derive(Default)]
    struct Narrow {
        taken: Vec<u8>,
        writes: Vec<usize>,
        most: usize,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.most);
            self.taken.extend_from_slice(&bytes[..count]);
            self.writes.push(count);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn narrow(most: usize) -> Narrow {
        Narrow {
            most,
            ..Narrow::default()
        }
    }

    fn write(gathered: &mut Gathered, stream: &mut Narrow, bytes: &[u8]) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        match gathered.poll_write(Pin::new(stream), &mut context, bytes) {
            Poll::Ready(written) => written.unwrap(),
            Poll::Pending => panic!("the stream takes what it gets"),
        }
    }

    fn flush(gathered: &mut Gathered, stream: &mut Narrow) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let flushed = gathered.poll_flush(Pin::new(stream), &mut context);
        flushed.map(Result::unwrap).is_ready()
    }

    #[test]
    fn responses_that_end_before_the_second_flush_are_one_write() {
        let (mut gathered, mut stream) = (Gathered::default(), narrow(usize::MAX));
        for _ in 0..2 {
            assert!(flush(&mut gathered, &mut stream), "nothing to flush");
            assert_eq!(write(&mut gathered, &mut stream, b"first"), 5);
            assert!(!flush(&mut gathered, &mut stream), "others run first");
            assert_eq!(write(&mut gathered, &mut stream, b"second"), 6);
            assert!(flush(&mut gathered, &mut stream));
        }
        assert_eq!(stream.writes, [11, 11]);
        assert_eq!(stream.taken, b"firstsecondfirstsecond");
    }

    #[test]
    fn order_and_bytes_are_kept_whatever_the_stream_takes() {
        for most in [1, 7, 100, MAX_GATHERED_BYTES, usize::MAX] {
            let (mut gathered, mut stream) = (Gathered::default(), narrow(most));
            let mut sent = Vec::new();
            for (round, size) in [3, 16_000, 400, 40_000, 1, 32_768, 32_769]
                .into_iter()
                .enumerate()
            {
                let bytes: Vec<u8> = (0..size).map(|at| (at * 31 + round) as u8).collect();
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let count = write(&mut gathered, &mut stream, rest);
                    rest = &rest[count..];
                }
                sent.extend(bytes);
                assert!(gathered.bytes.len() <= MAX_GATHERED_BYTES);
            }
            while !flush(&mut gathered, &mut stream) {}
            assert_eq!(stream.taken, sent, "{most}");
            assert!(gathered.bytes.capacity() <= KEPT_BYTES);
        }
    }

    #[test]
    fn a_stream_that_takes_nothing_is_an_error() {
        let (mut gathered, mut stream) = (Gathered::default(), narrow(0));
        write(&mut gathered, &mut stream, b"text");
        let mut context = Context::from_waker(Waker::noop());
        let drained = gathered.poll_drain(Pin::new(&mut stream), &mut context);
        let Poll::Ready(Err(error)) = drained else {
            panic!("{drained:?}");
        };
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
