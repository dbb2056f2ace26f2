//! A request body that counts its bytes for the caller while they are in memory.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::QuotaPermit;

/// A request body that counts its bytes.
pub(crate) struct MeteredBody {
    body: Body,
    permit: Arc<QuotaPermit>,
    /// The reader of a stream has taken in what came before when it asks for more. The message of any other
    /// call is in memory until the call ends.
    is_stream: bool,
}

impl MeteredBody {
    pub(crate) const fn new(body: Body, permit: Arc<QuotaPermit>, is_stream: bool) -> Self {
        Self {
            body,
            permit,
            is_stream,
        }
    }
}

impl HttpBody for MeteredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            if self.is_stream {
                self.permit.release_bytes();
            }
            if let Err(exceeded) = self.permit.take_bytes(data.len() as u64) {
                return Poll::Ready(Some(Err(exceeded.status())));
            }
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
