//! Reading a watch one answer at a time, without waiting for ever.

use std::time::Duration;

use stateway_client::v1::watch_executions_response::Kind;
use stateway_client::v1::{WatchExecutionsRequest, WatchExecutionsResponse};
use tonic::{Status, Streaming};

use super::Running;

/// The longest a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// The filter of a watch that follows finished executions too.
pub(crate) const EVERYTHING: &str = "sub_state:*";

pub(crate) struct Watching(Streaming<WatchExecutionsResponse>);

impl Watching {
    pub(crate) async fn open(
        gateway: &Running,
        request: WatchExecutionsRequest,
    ) -> Result<Self, Status> {
        let stream = gateway.executions().await.watch_executions(request).await?;
        Ok(Self(stream.into_inner()))
    }

    /// A watch of one execution, or of all executions of a collection, from the current set.
    pub(crate) async fn on(gateway: &Running, name: &str) -> Self {
        let mut request = WatchExecutionsRequest::default();
        if name.contains("/executions/") {
            request.names.push(name.into());
        } else {
            request.parent = name.into();
            request.filter = EVERYTHING.into();
        }
        Self::open(gateway, request).await.expect("it opens")
    }

    pub(crate) async fn next(&mut self) -> Result<WatchExecutionsResponse, Status> {
        let next = tokio::time::timeout(PATIENCE, self.0.message())
            .await
            .expect("it comes in time");
        next.map(|answer| answer.expect("the stream goes on"))
    }

    /// The next answer, which must be of this kind.
    pub(crate) async fn expect(&mut self, kind: Kind) -> WatchExecutionsResponse {
        let answer = self.next().await.expect("an answer");
        assert_eq!(answer.kind(), kind, "{answer:?}");
        answer
    }

    /// The next answer about an execution, bookmarks passed over: kind, id and native state.
    pub(crate) async fn change(&mut self) -> (Kind, String, String) {
        loop {
            let answer = self.next().await.expect("an answer");
            if let Some(execution) = &answer.execution {
                let id = execution
                    .name
                    .rsplit('/')
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                return (answer.kind(), id, execution.native_state.clone());
            }
        }
    }
}
