//! A watch that goes on by itself.
//!
//! A broken connection is taken up again from the last cursor, so nothing is lost and nothing
//! comes twice. Where that cannot be (the cursor is too old, or none was given yet) the reader is
//! told by [`Change::Resync`] that the present set follows anew. A reader is told of every
//! interruption and never has to act on one.

use futures::stream::{BoxStream, StreamExt, unfold};
use stateway_proto::v1::watch_executions_response::Kind;
use stateway_proto::v1::{Execution, WatchExecutionsResponse};
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Streaming};

use crate::back_off::{BackOff, spread};
use crate::{Client, Error, WatchRequest};

/// One thing a watch tells.
#[derive(Debug, Clone)]
pub enum Change {
    /// It is there, or passes the filter now.
    Added(Execution),
    /// It changed.
    Modified(Execution),
    /// It is gone, or does not pass the filter any more; shown as it was last seen.
    Removed(Execution),
    /// The present set is complete, or nothing has happened for a while.
    Bookmark {
        /// The providers that do not answer at present.
        unreachable: Vec<String>,
    },
    /// Changes were missed. The present set follows: forget what is not in it.
    Resync,
    /// The connection broke. The watch goes on by itself and misses nothing, or says so.
    Interrupted(Error),
}

/// Changes as they come.
pub struct Watch {
    client: Client,
    request: WatchRequest,
    stream: Option<Streaming<WatchExecutionsResponse>>,
    cursor: String,
    /// Something was told that a new present set would tell again.
    told: bool,
    /// Set when the present set begins anew and the reader must know first.
    resync: bool,
    /// Tries in a row that brought nothing.
    failures: u32,
    not_before: Instant,
    ended: bool,
}

impl Client {
    /// Follows one execution, or a collection of them.
    ///
    /// A watch does not end by itself, not even when the one execution it follows has finished:
    /// the gateway keeps the stream open. The caller drops it when it has seen enough, for which
    /// [`is_finished`](crate::is_finished) helps.
    #[must_use]
    pub fn watch(&self, request: WatchRequest) -> Watch {
        Watch {
            client: self.clone(),
            cursor: request.message.cursor.clone(),
            request,
            stream: None,
            told: false,
            resync: false,
            failures: 0,
            not_before: Instant::now(),
            ended: false,
        }
    }
}

impl Watch {
    /// The next change. The watch is over only after an error, and then there is none.
    pub async fn next(&mut self) -> Option<Result<Change, Error>> {
        while !self.ended {
            if std::mem::take(&mut self.resync) {
                return Some(Ok(Change::Resync));
            }
            let received = match self.stream.as_mut() {
                Some(stream) => stream.message().await,
                None => match self.open().await {
                    Ok(()) => continue,
                    Err(status) => Err(status),
                },
            };
            match received {
                Ok(Some(response)) => match self.take(response) {
                    Some(change) => return Some(Ok(change)),
                    None => continue,
                },
                Ok(None) => {
                    let closed = tonic::Status::unavailable("it closed the stream");
                    return Some(self.broken(Error::from_status(&closed)));
                }
                Err(status) => return Some(self.failed(Error::from_status(&status))),
            }
        }
        None
    }

    /// The watch as a stream.
    #[must_use]
    pub fn into_stream(self) -> BoxStream<'static, Result<Change, Error>> {
        let step = |mut watch: Self| async move { Some((watch.next().await?, watch)) };
        unfold(self, step).boxed()
    }

    /// Where a later watch can go on from; empty before the first cursor.
    #[must_use]
    pub fn cursor(&self) -> &str {
        &self.cursor
    }

    async fn open(&mut self) -> Result<(), tonic::Status> {
        sleep_until(self.not_before).await;
        let mut message = self.request.message.clone();
        message.cursor.clone_from(&self.cursor);
        let mut service = self.client.executions();
        let request = self.client.request(message);
        self.stream = Some(service.watch_executions(request).await?.into_inner());
        if self.cursor.is_empty() && self.told {
            self.resync = true;
            self.told = false;
        }
        Ok(())
    }

    fn take(&mut self, response: WatchExecutionsResponse) -> Option<Change> {
        self.failures = 0;
        let kind = response.kind();
        if !response.cursor.is_empty() {
            self.cursor = response.cursor;
        } else if kind == Kind::Resync {
            self.cursor.clear();
        }
        self.told = true;
        match (kind, response.execution) {
            (Kind::Added, Some(execution)) => Some(Change::Added(execution)),
            (Kind::Modified, Some(execution)) => Some(Change::Modified(execution)),
            (Kind::Removed, Some(execution)) => Some(Change::Removed(execution)),
            (Kind::Bookmark, _) => Some(Change::Bookmark {
                unreachable: response.unreachable,
            }),
            (Kind::Resync, _) => Some(Change::Resync),
            // A kind of a newer gateway, or one without its execution, tells nothing.
            _ => None,
        }
    }

    /// What becomes of an error: the end, a new beginning, or another try.
    fn failed(&mut self, error: Error) -> Result<Change, Error> {
        let expired = error.code() == Code::OutOfRange && error.reason() == "CURSOR_EXPIRED";
        if expired && !self.cursor.is_empty() {
            self.stream = None;
            self.cursor.clear();
            self.told = false;
            return Ok(Change::Resync);
        }
        if may_pass(&error) || is_of_the_way(&error) {
            return self.broken(error);
        }
        self.ended = true;
        Err(error)
    }

    fn broken(&mut self, error: Error) -> Result<Change, Error> {
        self.stream = None;
        self.failures += 1;
        match BackOff::WATCH.pause(self.failures, error.retry_after(), spread()) {
            Some(pause) => {
                self.not_before = Instant::now() + pause;
                Ok(Change::Interrupted(error))
            }
            None => {
                self.ended = true;
                Err(error)
            }
        }
    }
}

/// What another try may not meet again. A watch outlives whoever was too busy to open it.
fn may_pass(error: &Error) -> bool {
    error.retry_after().is_some()
        || matches!(
            error.code(),
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded
        )
}

/// Streams break in many ways, and the code a break is reported under says little. What counts
/// is that no gateway said it.
fn is_of_the_way(error: &Error) -> bool {
    !error.is_from_gateway()
        && matches!(
            error.code(),
            Code::Unknown | Code::Internal | Code::Cancelled | Code::Aborted
        )
}
