//! Watches. The server pushes the history of one run and nothing else, so a watch of one execution is a
//! long poll with descriptions in between, and a watch of all executions is one list again and again with
//! descriptions of the open ones.

mod all;
mod one;
mod poll;
mod server_time;

use std::sync::Arc;
use std::time::Duration;

use stateway_provider_api::{Call, Result, WatchScope, WatchStream};
use tokio::sync::{Semaphore, broadcast};

use crate::id::WorkflowRef;
use crate::reader::Reader;

/// The most news that a watch may be behind before it misses some; a watch of all executions then ends, and
/// the gateway opens it again.
const MOST_NEWS: usize = 1_024;
/// No call of a watch may take longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of calls in a row that may fail before the stream fails.
const MOST_FAILURES: u32 = 3;
/// The pause after a failed call.
const PAUSE: Duration = Duration::from_secs(2);

/// What happened through this provider, so that watches need not wait to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// Something was requested of this workflow.
    Changed(String),
    /// The execution of this name was deleted.
    Gone(String),
}

/// Opens watches.
pub(crate) struct Watches {
    reader: Arc<Reader>,
    /// One permit for each long poll.
    long_polls: Arc<Semaphore>,
    news: broadcast::Sender<News>,
}

impl Watches {
    pub(crate) fn new(reader: Arc<Reader>, long_polls: usize) -> Self {
        Self {
            reader,
            long_polls: Arc::new(Semaphore::new(long_polls.min(Semaphore::MAX_PERMITS))),
            news: broadcast::Sender::new(MOST_NEWS),
        }
    }

    /// To be without a watch is no failure.
    pub(crate) fn report(&self, news: News) {
        let _ = self.news.send(news);
    }

    pub(crate) async fn open(&self, call: &Call, scope: WatchScope) -> Result<WatchStream> {
        let verb = scope.verb();
        let reader = Arc::clone(&self.reader);
        let news = self.news.subscribe();
        let (id, only_end) = match scope {
            WatchScope::All | WatchScope::Within(_) => return all::open(reader, news, call).await,
            WatchScope::One(id) => (id, false),
            WatchScope::End(id) => (id, true),
        };
        let of = WorkflowRef::of(&id, verb)?;
        let long_polls = Arc::clone(&self.long_polls);
        one::open(reader, (news, long_polls), (call, verb), (of, only_end)).await
    }
}
