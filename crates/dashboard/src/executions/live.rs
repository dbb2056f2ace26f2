//! The list's live updates: the rows of the page in place, how many are new, and the counts.
//!
//! Each open row is watched by itself, so that it changes at once and stays where it is, whether it
//! still passes the filter or not. What is new, what is counted and who does not answer is looked up
//! now and then. Neither reads more than a page, however many executions there are.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use futures::future::join_all;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use jiff::Timestamp;
use stateway_proto::v1::{Execution, WatchExecutionsRequest};

use super::list::{Asked, fresh, unreachable};
use super::{counts, row};
use crate::Site;
use crate::fields::Fields;
use crate::live::{Part, send};
use crate::problem::Problem;
use crate::sub_state::finished;
use crate::time::moment;
use crate::visitor::Visitor;

/// How often the page is looked up again, at best and at worst.
const FASTEST: Duration = Duration::from_secs(1);
const SLOWEST: Duration = Duration::from_secs(15);
/// How long a row's watch may take to open.
const PATIENCE: Duration = Duration::from_secs(2);
/// Looking takes at most one part in so many of the time.
const SHARE: u32 = 10;
/// Changes that came together are sent together.
const TOGETHER: usize = 64;

pub(super) async fn follow(
    State(site): State<Site>,
    visitor: Visitor,
    fields: Fields,
) -> Result<Response, Problem> {
    let newest = fields.get("newest").parse().unwrap_or_default();
    let mut follower = Follower {
        site: site.clone(),
        visitor,
        asked: Asked::of(&fields),
        newest: Timestamp::from_nanosecond(newest).unwrap_or_default(),
        watched: HashSet::new(),
    };
    let page = follower.asked.rows(&site, &follower.visitor).await?;
    let changes = follower.watch(&page.executions).await;
    let changes = changes.ready_chunks(TOGETHER).map(|rows: Vec<Execution>| {
        let now = Timestamp::now();
        rows.iter().map(|seen| row::part(seen, now)).collect()
    });
    let looks = looks(Arc::new(follower));
    Ok(send(&site, stream::select(changes, looks)))
}

/// Looks at once, then again and again, slower when looking takes long.
fn looks(follower: Arc<Follower>) -> impl Stream<Item = Vec<Part>> + Send {
    stream::unfold(Duration::ZERO, move |pause| {
        let follower = follower.clone();
        async move {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            let parts = follower.look().await;
            let pause = (begun.elapsed() * SHARE).clamp(FASTEST, SLOWEST);
            Some((parts, pause))
        }
    })
}

struct Follower {
    site: Site,
    visitor: Visitor,
    asked: Asked,
    /// Nothing on the page was made later.
    newest: Timestamp,
    /// The rows that are watched by themselves.
    watched: HashSet<String>,
}

impl Follower {
    /// The changes of the rows that can still change.
    async fn watch(&mut self, rows: &[Execution]) -> impl Stream<Item = Execution> + Send + use<> {
        let open = rows.iter().filter(|row| !finished(row.sub_state()));
        let opened = join_all(open.map(|row| self.watch_one(&row.name))).await;
        let mut streams = Vec::new();
        for (name, changes) in opened.into_iter().flatten() {
            self.watched.insert(name);
            streams.push(changes);
        }
        stream::select_all(streams)
    }

    /// None for a row that cannot be watched in time; it is looked up with the page.
    async fn watch_one(&self, name: &str) -> Option<(String, BoxStream<'static, Execution>)> {
        let request = WatchExecutionsRequest {
            parent: name.to_owned(),
            ..WatchExecutionsRequest::default()
        };
        let mut api = self.site.api.executions();
        let opening = api.watch_executions(self.visitor.stream(request));
        let watch = tokio::time::timeout(PATIENCE, opening).await.ok()?.ok()?;
        let changes = watch.into_inner().filter_map(|change| {
            std::future::ready(change.ok().and_then(|change| change.execution))
        });
        Some((name.to_owned(), changes.boxed()))
    }

    async fn look(&self) -> Vec<Part> {
        let now = Timestamp::now();
        let (page, counted) = futures::join!(
            self.asked.rows(&self.site, &self.visitor),
            counts::read(&self.site, &self.visitor)
        );
        let mut parts = Vec::new();
        if counted.is_some() {
            let html = counts::render(counted.as_ref(), &self.asked.filter);
            parts.push(Part::new("counts", html));
        }
        if let Ok(page) = page {
            let fresh_ones = page
                .executions
                .iter()
                .filter(|row| self.is_new(row))
                .count();
            parts.push(Part::new("unreachable", unreachable(&page.unreachable)));
            parts.push(Part::new("fresh", fresh(&self.asked, fresh_ones)));
            let others = page
                .executions
                .iter()
                .filter(|row| !self.watched.contains(&row.name) && !self.is_new(row));
            parts.extend(others.map(|seen| row::part(seen, now)));
        }
        parts
    }

    fn is_new(&self, row: &Execution) -> bool {
        moment(row.create_time.as_ref()).is_some_and(|time| time > self.newest)
    }
}
