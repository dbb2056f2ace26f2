//! The messages that open a watch: what is watched, and what its responses mean.

use futures::future::BoxFuture;
use stateway_proto::v1;
use tonic::{Request, Response, Status, Streaming};

use super::Change;
use crate::Client;

/// A message that opens a watch.
pub trait WatchMessage: Clone + Send + Sync + 'static {
    /// The resource that is watched.
    type Item: Send + 'static;
    /// One message of the stream.
    type Response: Send + 'static;

    /// Opens the stream.
    fn open(
        client: &Client,
        request: Request<Self>,
    ) -> BoxFuture<'static, Result<Response<Streaming<Self::Response>>, Status>>;

    /// The cursor to resume from; empty for a watch that begins with the current set.
    fn cursor(&self) -> &str;

    /// Resumes from here.
    fn resume_from(&mut self, cursor: &str);

    /// What a response reports, and the cursor to resume from after it. A kind that a newer gateway
    /// sends, or one without its item, reports nothing.
    fn change(response: Self::Response) -> (Option<Change<Self::Item>>, String);
}

/// The change of a response, whose fields have the same names in every watch.
macro_rules! change {
    ($kind:ident, $response:ident.$item:ident) => {
        match ($response.kind(), $response.$item) {
            ($kind::Added, Some(item)) => Some(Change::Added(item)),
            ($kind::Modified, Some(item)) => Some(Change::Modified(item)),
            ($kind::Removed, Some(item)) => Some(Change::Removed(item)),
            ($kind::Bookmark, _) => Some(Change::Bookmark {
                unreachable: $response.unreachable,
            }),
            ($kind::Resync, _) => Some(Change::Resync),
            _ => None,
        }
    };
}

impl WatchMessage for v1::WatchExecutionsRequest {
    type Item = v1::Execution;
    type Response = v1::WatchExecutionsResponse;

    fn open(
        client: &Client,
        request: Request<Self>,
    ) -> BoxFuture<'static, Result<Response<Streaming<Self::Response>>, Status>> {
        let mut service = client.executions();
        Box::pin(async move { service.watch_executions(request).await })
    }

    fn cursor(&self) -> &str {
        &self.cursor
    }

    fn resume_from(&mut self, cursor: &str) {
        cursor.clone_into(&mut self.cursor);
    }

    fn change(mut response: Self::Response) -> (Option<Change<Self::Item>>, String) {
        use v1::watch_executions_response::Kind;
        let cursor = std::mem::take(&mut response.cursor);
        (change!(Kind, response.execution), cursor)
    }
}

impl WatchMessage for v1::WatchApprovalsRequest {
    type Item = v1::Approval;
    type Response = v1::WatchApprovalsResponse;

    fn open(
        client: &Client,
        request: Request<Self>,
    ) -> BoxFuture<'static, Result<Response<Streaming<Self::Response>>, Status>> {
        let mut service = client.approvals();
        Box::pin(async move { service.watch_approvals(request).await })
    }

    fn cursor(&self) -> &'static str {
        ""
    }

    fn resume_from(&mut self, _: &str) {}

    fn change(response: Self::Response) -> (Option<Change<Self::Item>>, String) {
        use v1::watch_approvals_response::Kind;
        (change!(Kind, response.approval), String::new())
    }
}
