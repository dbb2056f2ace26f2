//! The inbox's live updates: new approvals appear, those that are decided elsewhere leave.
//!
//! The gateway reports each change of the pending approvals. Escalations have no watch and are read at a
//! pace.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use futures::FutureExt;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use stateway_proto::v1::watch_approvals_response::Kind;
use stateway_proto::v1::{WatchApprovalsRequest, WatchApprovalsResponse};
use tonic::Streaming;

use super::reader::{InboxAddress, InboxReader, Reading};
use super::show::parts;
use crate::Site;
use crate::fields::Fields;
use crate::live::{Part, pause, seen, share};
use crate::time::Now;
use crate::visitor::Visitor;

/// How often escalations are read, and approvals where they cannot be watched.
const PACE: Duration = Duration::from_secs(1);
/// The least time between two reads; changes that come meanwhile are read together.
const FASTEST: Duration = Duration::from_millis(100);
/// How long the gateway may take to report the pending approvals.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn follow(State(site): State<Site>, visitor: Visitor, fields: Fields) -> Response {
    let asked = InboxAddress::of(&fields);
    let key = asked.link("inbox", &asked.requests, &asked.stuck);
    let key = format!("{key}|{}", visitor.reader_with_roles());
    share(&site, &visitor, key, || {
        reader(&site, visitor.clone(), &fields)
    })
}

/// What the inbox shows, whenever something changes.
fn reader(site: &Site, visitor: Visitor, fields: &Fields) -> BoxStream<'static, Vec<Part>> {
    let reader = InboxReader::new(site, &visitor, InboxAddress::of(fields));
    let follower = Follower {
        site: site.clone(),
        visitor,
        reader,
        changes: None,
        rest: Duration::ZERO,
    };
    let looks = stream::unfold(follower, |mut follower| async move {
        let parts = follower.next().await;
        Some((parts, follower))
    });
    looks.boxed()
}

struct Follower {
    site: Site,
    visitor: Visitor,
    reader: InboxReader,
    /// The watch on approvals; none where it could not be opened or has ended.
    changes: Option<Streaming<WatchApprovalsResponse>>,
    /// How long to wait after the last read.
    rest: Duration,
}

impl Follower {
    async fn next(&mut self) -> Vec<Part> {
        tokio::time::sleep(self.rest).await;
        let reading = self.wait().await;
        let begun = Instant::now();
        let look = self.reader.look(reading).await;
        let look = look.map(|inbox| parts(&inbox, &self.reader, Now::stream()));
        self.rest = pause(begun.elapsed(), FASTEST);
        seen(look)
    }

    /// Waits until approvals change or escalations are due; what has to be read then.
    async fn wait(&mut self) -> Reading {
        let Some(changes) = &mut self.changes else {
            if !self.rest.is_zero() {
                tokio::time::sleep(PACE).await;
            }
            self.changes = open(&self.site, &self.visitor).await;
            return Reading::Everything;
        };
        let Ok(mut change) = tokio::time::timeout(PACE, changes.message()).await else {
            return Reading::Escalations;
        };
        while let Ok(Some(_)) = change {
            match changes.message().now_or_never() {
                Some(next) => change = next,
                None => return Reading::Everything,
            }
        }
        self.changes = None;
        Reading::Everything
    }
}

/// Opens a watch on approvals and passes over those that are pending now.
async fn open(site: &Site, visitor: &Visitor) -> Option<Streaming<WatchApprovalsResponse>> {
    let request = WatchApprovalsRequest {
        parent: "providers/-".into(),
        ..WatchApprovalsRequest::default()
    };
    let opened = async {
        let mut api = site.api.approvals();
        let watch = api.watch_approvals(visitor.stream(request)).await.ok()?;
        let mut changes = watch.into_inner();
        while changes.message().await.ok()??.kind() != Kind::Bookmark {}
        Some(changes)
    };
    tokio::time::timeout(PATIENCE, opened).await.ok()?
}
