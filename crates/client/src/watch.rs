//! A watch that resumes automatically.
//!
//! After a broken connection, a watch resumes from the last cursor, so no change is lost or
//! reported twice. If that is not possible (the cursor is too old, or there is none), the watch
//! reports [`Change::Resync`] and then the current set. Every interruption is reported, but needs
//! no action.

mod message;

use futures::stream::{BoxStream, StreamExt, unfold};
use stateway_proto::v1;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Streaming};

pub use self::message::WatchMessage;
use crate::back_off::{BackOff, spread};
use crate::{Call, Client, Error, WatchApprovals, WatchRequest};

/// One change that a watch reports: of executions, or of approvals.
#[derive(Debug, Clone)]
pub enum Change<T = v1::Execution> {
    /// It exists, or passes the filter now.
    Added(T),
    /// It changed.
    Modified(T),
    /// It was removed, or no longer matches the filter; in its last known state. An approval that
    /// has ended is in its final state.
    Removed(T),
    /// The current set is complete, or nothing has changed for a while.
    Bookmark {
        /// The providers that do not answer.
        unreachable: Vec<String>,
    },
    /// Changes were missed. The current set follows: drop everything that is not in it.
    Resync,
    /// The connection broke. The watch resumes automatically; if changes were missed, it reports
    /// [`Change::Resync`].
    Interrupted(Error),
}

/// Changes as they come: of executions, or of approvals ([`Client::watch_approvals`]).
pub struct Watch<M: WatchMessage = v1::WatchExecutionsRequest> {
    client: Client,
    request: Call<M>,
    stream: Option<Streaming<M::Response>>,
    cursor: String,
    /// A change was reported that a new current set would report again.
    told: bool,
    /// Set if the current set begins again and [`Change::Resync`] must come first.
    resync: bool,
    /// Consecutive tries without a message.
    failures: u32,
    not_before: Instant,
    ended: bool,
}

impl Client {
    /// Follows one execution, or a collection of them.
    ///
    /// A watch does not end automatically, not even when the one execution that it follows has
    /// finished: the gateway keeps the stream open. The caller drops the watch;
    /// [`is_finished`](crate::is_finished) tells when.
    #[must_use]
    pub fn watch(&self, request: WatchRequest) -> Watch {
        Watch::new(self, request)
    }

    /// Follows the pending approvals of one provider or of all.
    ///
    /// A watch does not end automatically. After a broken connection it begins again with
    /// [`Change::Resync`] and the pending approvals.
    #[must_use]
    pub fn watch_approvals(&self, request: WatchApprovals) -> Watch<v1::WatchApprovalsRequest> {
        Watch::new(self, request)
    }
}

impl<M: WatchMessage> Watch<M> {
    fn new(client: &Client, request: Call<M>) -> Self {
        Self {
            client: client.clone(),
            cursor: request.message.cursor().to_owned(),
            request,
            stream: None,
            told: false,
            resync: false,
            failures: 0,
            not_before: Instant::now(),
            ended: false,
        }
    }

    /// The next change; none after an error, which ends the watch.
    pub async fn next(&mut self) -> Option<Result<Change<M::Item>, Error>> {
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
    pub fn into_stream(self) -> BoxStream<'static, Result<Change<M::Item>, Error>> {
        let step = |mut watch: Self| async move { Some((watch.next().await?, watch)) };
        unfold(self, step).boxed()
    }

    /// Where a later watch can resume; empty before the first cursor, and for approvals.
    #[must_use]
    pub fn cursor(&self) -> &str {
        &self.cursor
    }

    async fn open(&mut self) -> Result<(), tonic::Status> {
        sleep_until(self.not_before).await;
        let mut message = self.request.message.clone();
        message.resume_from(&self.cursor);
        let opening = M::open(&self.client, self.client.request(message));
        self.stream = Some(opening.await?.into_inner());
        if self.cursor.is_empty() && self.told {
            self.resync = true;
            self.told = false;
        }
        Ok(())
    }

    fn take(&mut self, response: M::Response) -> Option<Change<M::Item>> {
        self.failures = 0;
        let (change, cursor) = M::change(response);
        if !cursor.is_empty() {
            self.cursor = cursor;
        } else if matches!(change, Some(Change::Resync)) {
            self.cursor.clear();
        }
        self.told = true;
        change
    }

    /// Decides whether an error ends the watch, restarts it or is retried.
    fn failed(&mut self, error: Error) -> Result<Change<M::Item>, Error> {
        let expired = error.code() == Code::OutOfRange && error.reason() == "CURSOR_EXPIRED";
        if expired && !self.cursor.is_empty() {
            self.stream = None;
            self.cursor.clear();
            self.told = false;
            return Ok(Change::Resync);
        }
        // The credential of an open watch expired or was revoked. Another try sends what a token file has by now.
        let is_outlived = self.stream.is_some() && error.code() == Code::Unauthenticated;
        if is_outlived || may_pass(&error) || is_of_the_way(&error) {
            return self.broken(error);
        }
        self.ended = true;
        Err(error)
    }

    fn broken(&mut self, error: Error) -> Result<Change<M::Item>, Error> {
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

/// Errors that are retried. A watch also retries if the gateway is too busy to open it.
fn may_pass(error: &Error) -> bool {
    error.retry_after().is_some()
        || matches!(
            error.code(),
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded
        )
}

/// A stream can break with any code. An error that does not come from a gateway is a broken
/// connection.
fn is_of_the_way(error: &Error) -> bool {
    !error.is_from_gateway()
        && matches!(
            error.code(),
            Code::Unknown | Code::Internal | Code::Cancelled | Code::Aborted
        )
}
