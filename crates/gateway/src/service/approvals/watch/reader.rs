//! One client's view of the approvals of one or more providers, as a stream.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::join_all;
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use stateway_proto::v1::WatchApprovalsResponse as Response;
use stateway_proto::v1::watch_approvals_response::Kind;
use stateway_provider_api::Approval;
use tokio::time::Instant;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;
use tonic::Status;

use super::super::filter::Filter;
use super::super::shown;
use super::hub::{ApprovalHub, Membership};
use super::topic::{Change, News};
use crate::access::Access;
use crate::streams::StreamPermit;
use crate::upstream::Upstream;
use crate::watch::{draining, not_in_time};

/// A checked request to watch.
pub(super) struct WatchRequest {
    /// A provider that cannot be watched is named in the bookmarks and does not end the stream.
    pub(super) tolerant: bool,
    pub(super) filter: Filter,
    /// What the caller may read.
    pub(super) access: Access,
    /// The right to the stream.
    pub(super) permit: StreamPermit,
}

type TopicStream = BoxStream<'static, (usize, Result<News, BroadcastStreamRecvError>)>;

/// What a reader waited for.
enum Awaited {
    /// Something changed at this topic.
    Change(usize, Arc<Change>),
    /// Nothing was sent for a while.
    Quiet,
    /// The reader takes the pending approvals again: it was too slow, or a provider can no longer be
    /// watched.
    Again,
}

/// One client's stream.
pub(in super::super) struct Reader {
    hub: Arc<ApprovalHub>,
    /// The provider of each member.
    upstreams: Vec<Arc<Upstream>>,
    members: Vec<Membership>,
    tolerant: bool,
    filter: Filter,
    access: Access,
    news: SelectAll<TopicStream>,
    /// The pending approvals, still to be sent, each with the place of its topic.
    present: VecDeque<(usize, Arc<Approval>)>,
    /// A bookmark is owed once the pending approvals are sent.
    owes_bookmark: bool,
    owes_resync: bool,
    last_sent: Instant,
    _permit: StreamPermit,
}

impl Reader {
    /// Joins the topics and takes the pending approvals. Ends by `deadline`.
    pub(super) async fn open(
        hub: &Arc<ApprovalHub>,
        upstreams: Vec<Arc<Upstream>>,
        request: WatchRequest,
        deadline: std::time::Instant,
    ) -> Result<Self, Status> {
        let members = upstreams.iter().map(|one| hub.join(one, &request.access));
        let mut members = members.collect::<Result<Vec<_>, Status>>()?;
        let mut known = synced(&members, &upstreams, request.tolerant, deadline).await;
        if narrow(hub, &upstreams, &request.access, &mut members)? {
            known = synced(&members, &upstreams, request.tolerant, deadline).await;
        }
        known?;
        let mut reader = Self {
            hub: hub.clone(),
            upstreams,
            members,
            tolerant: request.tolerant,
            filter: request.filter,
            access: request.access,
            news: SelectAll::new(),
            present: VecDeque::new(),
            owes_bookmark: false,
            owes_resync: false,
            last_sent: Instant::now(),
            _permit: request.permit,
        };
        reader.take_snapshot();
        Ok(reader)
    }

    /// The stream a client reads. It ends with `UNAVAILABLE` when the gateway drains.
    pub(in super::super) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<Response, Status>> + Send {
        futures::stream::unfold(Some(self), async |reader| {
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
        self.present.clear();
        for (index, member) in self.members.iter().enumerate() {
            let snapshot = member.topic.snapshot();
            let pending = snapshot.pending.into_iter();
            self.present.extend(pending.map(|one| (index, one)));
            let news = BroadcastStream::new(snapshot.news);
            self.news.push(news.map(move |news| (index, news)).boxed());
        }
        self.owes_bookmark = true;
    }

    async fn next(&mut self) -> Result<Response, Status> {
        loop {
            if std::mem::take(&mut self.owes_resync) {
                return Ok(Response {
                    kind: Kind::Resync.into(),
                    ..Response::default()
                });
            }
            if let Some((index, approval)) = self.present.pop_front() {
                if self.admits(index, &approval) {
                    return Ok(self.response(Kind::Added, index, &approval));
                }
                continue;
            }
            if std::mem::take(&mut self.owes_bookmark) {
                return Ok(self.bookmark());
            }
            match self.await_news().await? {
                Awaited::Change(index, change) => {
                    if let Some(response) = self.report(index, &change) {
                        return Ok(response);
                    }
                }
                Awaited::Quiet => return Ok(self.bookmark()),
                // The pending approvals are owed now, and a bookmark only after them.
                Awaited::Again => {}
            }
        }
    }

    /// Waits for the next change, or until a bookmark is due because nothing was sent for a while.
    /// Changes that the filter leaves out do not put the bookmark off.
    async fn await_news(&mut self) -> Result<Awaited, Status> {
        let due = self.last_sent + self.hub.settings.heartbeat;
        let (index, item) = tokio::select! {
            biased;
            () = self.hub.stop.cancelled() => return Err(draining("Watch again.")),
            () = tokio::time::sleep_until(due) => return Ok(Awaited::Quiet),
            Some(news) = self.news.next() => news,
        };
        match item {
            Ok(News::Change(change)) => return Ok(Awaited::Change(index, change)),
            Ok(News::Failed(status)) => {
                let (hub, members) = (&self.hub, &mut self.members);
                if narrow(hub, &self.upstreams, &self.access, members)? {
                    let deadline =
                        std::time::Instant::now() + self.upstreams[index].settings.timeout;
                    synced(members, &self.upstreams, self.tolerant, deadline).await?;
                } else if !self.tolerant {
                    return Err(Status::clone(&status));
                }
            }
            Err(BroadcastStreamRecvError::Lagged(_)) => {}
        }
        metrics::counter!("stateway_watch_resyncs_total").increment(1);
        self.take_snapshot();
        self.owes_resync = true;
        Ok(Awaited::Again)
    }

    /// What a change means to this reader: nothing, if it concerns only what the filter leaves out.
    fn report(&self, index: usize, change: &Change) -> Option<Response> {
        let admitted = |one: &Option<Arc<Approval>>| {
            let one = one.clone();
            one.filter(|approval| self.admits(index, approval))
        };
        let (kind, shown) = match (admitted(&change.before), admitted(&change.after)) {
            (None, None) => return None,
            (None, Some(after)) => (Kind::Added, after),
            (Some(_), Some(after)) => (Kind::Modified, after),
            (Some(before), None) => {
                let after = change.after.clone();
                let readable = after.filter(|after| self.reads(index, after));
                (Kind::Removed, readable.unwrap_or(before))
            }
        };
        Some(self.response(kind, index, &shown))
    }

    fn admits(&self, index: usize, approval: &Approval) -> bool {
        let provider = &self.members[index].topic.provider;
        self.filter.admits_pending(provider, approval) && self.reads(index, approval)
    }

    fn reads(&self, index: usize, approval: &Approval) -> bool {
        let provider = &self.members[index].topic.provider;
        self.access.approval(provider, approval).0
    }

    fn response(&self, kind: Kind, index: usize, approval: &Approval) -> Response {
        let provider = &self.members[index].topic.provider;
        Response {
            kind: kind.into(),
            approval: Some(shown::approval(&self.access, provider, approval.clone())),
            unreachable: Vec::new(),
        }
    }

    fn bookmark(&self) -> Response {
        let unreachable = self.members.iter().map(|member| &member.topic);
        let unreachable = unreachable.filter(|topic| topic.is_unreachable());
        Response {
            kind: Kind::Bookmark.into(),
            approval: None,
            unreachable: unreachable
                .map(|topic| topic.provider.resource_name())
                .collect(),
        }
    }
}

/// Waits for the pending approvals of the members, until `deadline`.
async fn synced(
    members: &[Membership],
    upstreams: &[Arc<Upstream>],
    tolerant: bool,
    deadline: std::time::Instant,
) -> Result<(), Status> {
    let synced = join_all(members.iter().map(|member| member.topic.synced()));
    if tolerant {
        // A provider that takes longer is named in the bookmark; its approvals come later, as changes.
        let upstreams = upstreams.iter();
        let patience = upstreams.map(|one| one.settings.multi_provider_timeout);
        let patience = Instant::now() + patience.max().unwrap_or_default();
        let _ = tokio::time::timeout_at(patience.min(deadline.into()), synced).await;
        return Ok(());
    }
    let synced = tokio::time::timeout_at(deadline.into(), synced).await;
    synced.map_err(|_| not_in_time())?.into_iter().collect()
}

/// Joins smaller parts in place of those that have ended because their providers have too many approvals. False if
/// there are none.
fn narrow(
    hub: &Arc<ApprovalHub>,
    upstreams: &[Arc<Upstream>],
    access: &Access,
    members: &mut [Membership],
) -> Result<bool, Status> {
    let mut is_narrower = false;
    for (member, upstream) in members.iter_mut().zip(upstreams) {
        is_narrower |= hub.narrow(member, upstream, access)?;
    }
    Ok(is_narrower)
}
