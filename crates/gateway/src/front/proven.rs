//! Streams of the API that end with the proof of their caller: a key that is revoked, a token that expires, a
//! certificate whose authority is removed, a session that ends.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use axum::http::{HeaderMap, Response};
use futures::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::audit::StreamRefusal;
use crate::authentication::{ProofEnd, StreamProof};

/// The response of a call until the proof of its request ends. A call that has not answered yet fails; a stream
/// ends with the reason in its trailers.
pub(super) async fn until_proof_ends(
    served: impl Future<Output = Result<Response<Body>, Infallible>>,
    proof: StreamProof,
    record: Option<StreamRefusal>,
) -> Response<Body> {
    let mut ended: BoxFuture<'static, ProofEnd> = Box::pin(proof.ended());
    let response = tokio::select! {
        response = served => response.unwrap_or_else(|never| match never {}),
        end = &mut ended => return report(&end, record).into_http(),
    };
    if response.body().is_end_stream() {
        return response;
    }
    response.map(|body| {
        Body::new(ProvenBody(Some(Open {
            body,
            ended,
            record,
        })))
    })
}

/// The wait of a start for the end of its execution, until the proof of its request ends. It is in the extensions of
/// the request.
#[derive(Clone)]
pub(crate) struct ProvenWait {
    proof: StreamProof,
    record: Option<StreamRefusal>,
}

impl ProvenWait {
    pub(super) const fn new(proof: StreamProof, record: Option<StreamRefusal>) -> Self {
        Self { proof, record }
    }

    /// Resolves when the proof is not accepted any more, and reports that.
    pub(crate) async fn ended(self) {
        let end = self.proof.ended().await;
        report(&end, self.record);
    }
}

/// Reports the end of a stream.
pub(super) fn report(end: &ProofEnd, record: Option<StreamRefusal>) -> Status {
    let (status, reason) = (end.status(), end.reason());
    tracing::debug!(reason, "stream ended: its credential is no longer valid");
    if let Some(record) = record {
        record.write(status.code(), reason);
    }
    status
}

/// A body that ends with a proof. None after its end.
struct ProvenBody(Option<Open>);

struct Open {
    body: Body,
    ended: BoxFuture<'static, ProofEnd>,
    record: Option<StreamRefusal>,
}

impl HttpBody for ProvenBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(open) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let Poll::Ready(end) = open.ended.as_mut().poll(context) else {
            return Pin::new(&mut open.body).poll_frame(context);
        };
        let status = report(&end, open.record.take());
        self.0 = None;
        let mut trailers = HeaderMap::new();
        let ending = match status.add_header(&mut trailers) {
            Ok(()) => Ok(Frame::trailers(trailers)),
            Err(error) => Err(error),
        };
        Poll::Ready(Some(ending))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|open| open.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
