//! One client's view of one or more topics, as a stream.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use stateway_model::ExecutionName;
use stateway_proto::v1;
use stateway_proto::v1::WatchExecutionsResponse as Response;
use stateway_proto::v1::watch_executions_response::Kind;
use stateway_provider_api::filter::Filter;
use tokio::time::Instant;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tonic::{Code, Status};

use super::coverage::Coverage;
use super::hub::{Hub, Membership};
use super::present::CachedExecution;
use super::topic::{Change, News as TopicNews};
use crate::access::Access;
use crate::parent::Parent;
use crate::status::Refusal;
use crate::streams::StreamPermit;

/// What a client wants to watch.
pub(crate) enum Target {
    One(ExecutionName),
    /// Some executions. One that does not exist is not reported.
    Some(Vec<ExecutionName>),
    Collection(Parent),
}

/// A checked request to watch.
pub(crate) struct WatchRequest {
    pub(crate) target: Target,
    pub(crate) filter: Filter,
    /// What the caller may read.
    pub(crate) access: Access,
    /// What the cursor is bound to.
    pub(crate) purpose: String,
    /// Where to resume; from the current set when empty.
    pub(crate) cursor: String,
    /// The right to the stream.
    pub(crate) permit: StreamPermit,
}

/// Where a reader is at each topic, in the order of its topics: epoch and sequence.
type Cursor = Vec<(u64, u64)>;
/// The place at a topic that has ended: its current set is sent again when it is resumed.
const NOWHERE: (u64, u64) = (0, 0);
/// How long a reader waits for a narrower topic after the one that it had became too large.
const NARROWED_WITHIN: Duration = Duration::from_secs(30);
type TopicStream = BoxStream<'static, (usize, Result<TopicNews, BroadcastStreamRecvError>)>;

/// What a reader waited for.
enum News {
    /// Something changed at this topic.
    Change(usize, Arc<Change>),
    /// Nothing was sent for a while.
    Quiet,
    /// The reader takes the current set again: it was too slow, or a provider can no longer be
    /// watched.
    Again,
}

/// One client's stream.
pub(crate) struct Reader {
    hub: Arc<Hub>,
    members: Vec<Membership>,
    coverage: Coverage,
    filter: Filter,
    access: Access,
    purpose: String,
    cursor: Cursor,
    news: SelectAll<TopicStream>,
    /// The current set, still to be sent.
    present: VecDeque<Arc<CachedExecution>>,
    /// Changes since the cursor, still to be sent.
    missed: VecDeque<(usize, Arc<Change>)>,
    /// A bookmark is owed once the current set is sent.
    owes_bookmark: bool,
    owes_resync: bool,
    last_sent: Instant,
    _permit: StreamPermit,
}

impl Reader {
    /// Joins the topics and takes the current set, or what was missed since the cursor. Ends by
    /// `deadline`.
    pub(crate) async fn open(
        hub: &Arc<Hub>,
        request: WatchRequest,
        deadline: std::time::Instant,
    ) -> Result<Self, Status> {
        let coverage = Coverage::of(&request);
        let members = coverage.join(hub, &request.access, deadline).await?;
        let mut reader = Self {
            hub: hub.clone(),
            members,
            coverage,
            filter: request.filter,
            access: request.access,
            purpose: request.purpose,
            cursor: Cursor::new(),
            news: SelectAll::new(),
            present: VecDeque::new(),
            missed: VecDeque::new(),
            owes_bookmark: false,
            owes_resync: false,
            last_sent: Instant::now(),
            _permit: request.permit,
        };
        if request.cursor.is_empty() {
            reader.take_snapshot();
            if let (Target::One(name), true) = (&request.target, reader.present.is_empty()) {
                return Err(gone(name));
            }
        } else {
            reader.resume(&request.cursor)?;
        }
        Ok(reader)
    }

    /// The stream a client reads. It ends with `UNAVAILABLE` when the gateway drains.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Response, Status>> + Send {
        // Boxed, because the future of a step would have room for several readers.
        futures::stream::unfold(Some(Box::new(self)), async |reader| {
            let mut reader = reader?;
            match reader.next().await {
                Ok(response) => {
                    reader.last_sent = Instant::now();
                    Some((Ok(response), Some(reader)))
                }
                Err(status) => Some((Err(status), None)),
            }
        })
    }

    fn take_snapshot(&mut self) {
        self.news = SelectAll::new();
        self.cursor.clear();
        self.present.clear();
        self.missed.clear();
        for (index, member) in self.members.iter().enumerate() {
            let snapshot = member.topic.snapshot();
            self.cursor.push(if member.topic.has_ended() {
                NOWHERE
            } else {
                (member.topic.epoch, snapshot.sequence)
            });
            self.present.extend(snapshot.present);
            let news = BroadcastStream::new(snapshot.news);
            self.news.push(news.map(move |news| (index, news)).boxed());
        }
        self.owes_bookmark = true;
    }

    fn resume(&mut self, cursor: &str) -> Result<(), Status> {
        let expired = || {
            let message = "the cursor is too old to resume from";
            Status::from(
                Refusal::new(Code::OutOfRange, "CURSOR_EXPIRED", message).hint(
                    "Watch again without a cursor, and drop every execution that is not in the current set.",
                ),
            )
        };
        let places: Cursor = self
            .hub
            .sealer
            .open(&self.purpose, cursor)
            .map_err(|_| expired())?;
        if places.len() != self.members.len() {
            return Err(expired());
        }
        self.cursor.clone_from(&places);
        for (index, (member, place)) in self.members.iter().zip(places).enumerate() {
            let topic = &member.topic;
            if place == NOWHERE {
                let snapshot = topic.snapshot();
                self.cursor[index] = (topic.epoch, snapshot.sequence);
                self.present.extend(snapshot.present);
                let news = BroadcastStream::new(snapshot.news);
                self.news.push(news.map(move |news| (index, news)).boxed());
                continue;
            }
            let continuation = Some(place)
                .filter(|(epoch, _)| *epoch == topic.epoch)
                .and_then(|(_, sequence)| topic.continue_after(sequence))
                .ok_or_else(expired)?;
            self.missed.extend(
                continuation
                    .missed
                    .into_iter()
                    .map(|change| (index, change)),
            );
            let news = BroadcastStream::new(continuation.news);
            self.news.push(news.map(move |news| (index, news)).boxed());
        }
        // Shows the client immediately that it is connected again.
        self.owes_bookmark = true;
        Ok(())
    }

    async fn next(&mut self) -> Result<Response, Status> {
        loop {
            if std::mem::take(&mut self.owes_resync) {
                return Ok(Response {
                    kind: Kind::Resync.into(),
                    ..Response::default()
                });
            }
            if let Some(seen) = self.present.pop_front() {
                if self.admits(&seen) {
                    return Ok(Response {
                        kind: Kind::Added.into(),
                        execution: Some(self.message(&seen)),
                        ..Response::default()
                    });
                }
                continue;
            }
            if std::mem::take(&mut self.owes_bookmark) {
                return Ok(self.bookmark());
            }
            let (index, change) = match self.missed.pop_front() {
                Some(missed) => missed,
                None => match self.await_news().await? {
                    News::Change(index, change) => (index, change),
                    News::Quiet => return Ok(self.bookmark()),
                    // The current set is owed now, and a bookmark only after it.
                    News::Again => continue,
                },
            };
            if let Some(response) = self.tell(index, &change) {
                return Ok(response);
            }
        }
    }

    /// Waits for the next change, or until a bookmark is due because nothing was sent for a while.
    /// Changes that the filter leaves out do not put the bookmark off.
    async fn await_news(&mut self) -> Result<News, Status> {
        let due = self.last_sent + self.hub.settings.heartbeat;
        tokio::select! {
            biased;
            () = self.hub.stop.cancelled() => Err(draining("Resume from the last cursor.")),
            () = tokio::time::sleep_until(due) => Ok(News::Quiet),
            Some((index, item)) = self.news.next() => match item {
                Ok(TopicNews::Change(change)) => Ok(News::Change(index, change)),
                Ok(TopicNews::Failed(status)) => self.narrow_or_end(&status).await,
                Err(BroadcastStreamRecvError::Lagged(_)) => {
                    self.resync();
                    Ok(News::Again)
                }
            },
        }
    }

    /// A topic has ended. Where the provider turned out to have too many open executions, the reader continues
    /// with those that its filter can admit.
    async fn narrow_or_end(&mut self, status: &Status) -> Result<News, Status> {
        let Self { hub, access, .. } = &*self;
        if self.coverage.is_narrower_than(&self.members, hub, access) {
            let deadline = std::time::Instant::now() + NARROWED_WITHIN;
            let joined = tokio::select! {
                () = hub.stop.cancelled() => return Err(draining("Resume from the last cursor.")),
                joined = self.coverage.join(hub, access, deadline) => joined,
            };
            self.members = joined?;
        } else if !self.coverage.tolerant {
            return Err(status.clone());
        }
        self.resync();
        Ok(News::Again)
    }

    fn resync(&mut self) {
        metrics::counter!("stateway_watch_resyncs_total").increment(1);
        self.take_snapshot();
        self.owes_resync = true;
    }

    /// What a change means to this reader: nothing, if it concerns only what the filter leaves
    /// out.
    fn tell(&mut self, index: usize, change: &Change) -> Option<Response> {
        let topic = &self.members[index].topic;
        self.cursor[index] = (topic.epoch, change.sequence);
        let admitted =
            |seen: &Option<Arc<CachedExecution>>| seen.clone().filter(|seen| self.admits(seen));
        let readable = || change.after.clone().filter(|seen| self.reads(seen));
        let (kind, shown) = match (admitted(&change.before), admitted(&change.after)) {
            (None, None) => return None,
            (None, Some(after)) => (Kind::Added, after),
            (Some(_), Some(after)) => (Kind::Modified, after),
            (Some(before), None) => (Kind::Removed, readable().unwrap_or(before)),
        };
        Some(Response {
            kind: kind.into(),
            execution: Some(self.message(&shown)),
            cursor: self.sealed_cursor(),
            unreachable: Vec::new(),
        })
    }

    /// Whether the caller wants an execution, and may know of it.
    fn admits(&self, seen: &CachedExecution) -> bool {
        self.filter.admits(&seen.execution) && self.reads(seen)
    }

    fn reads(&self, seen: &CachedExecution) -> bool {
        self.access.reads(&seen.execution)
    }

    fn message(&self, seen: &CachedExecution) -> v1::Execution {
        let mut message = seen.message();
        self.access.redact(&seen.execution, &mut message);
        message
    }

    fn bookmark(&self) -> Response {
        let unreachable = self.members.iter().map(|member| &member.topic);
        let unreachable = unreachable.filter(|topic| topic.is_unreachable() || !topic.is_known());
        let unreachable: BTreeSet<_> = unreachable.map(|topic| &topic.key.provider).collect();
        Response {
            kind: Kind::Bookmark.into(),
            execution: None,
            cursor: self.sealed_cursor(),
            unreachable: unreachable
                .into_iter()
                .map(|provider| provider.resource_name())
                .collect(),
        }
    }

    fn sealed_cursor(&self) -> String {
        self.hub.sealer.seal(&self.purpose, &self.cursor)
    }
}

/// The answer to a new reader of an execution that was removed while others watched it.
pub(super) fn gone(name: &ExecutionName) -> Status {
    let message = format!("`{name}` does not exist any more");
    Refusal::new(Code::NotFound, "EXECUTION_NOT_FOUND", message).into()
}

/// The answer to a reader whose deadline came before the current set was known.
pub(crate) fn not_in_time() -> Status {
    let message = "the current executions were not read before the deadline";
    Refusal::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message)
        .hint("Call again with a later deadline; the gateway keeps the data that it has read for a while.")
        .into()
}

/// How a stream ends when the gateway shuts down.
pub(crate) fn draining(hint: &str) -> Status {
    Refusal::new(
        Code::Unavailable,
        "GATEWAY_DRAINING",
        "the gateway is shutting down",
    )
    .hint(hint)
    .retry_after(Duration::from_secs(1))
    .into()
}
