//! The list's live updates: the rows of the page in place, how many are new, and the counts.
//!
//! The address names the rows that the browser shows. One watch follows the open ones by their names, so
//! that a row changes immediately and stays where it is, whether it still passes the filter or not. The others, what
//! is new, what is counted and who does not answer are looked up now and then. Nothing here reads more
//! than a page, however many executions there are. Tabs with the same filter share the looks, and tabs with the
//! same rows share the watch.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::Response;
use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use stateway_proto::v1::watch_executions_response::Kind;
use stateway_proto::v1::{
    CountExecutionsResponse, Execution, GetExecutionRequest, ListExecutionsResponse,
    WatchExecutionsRequest, WatchExecutionsResponse,
};
use tonic::Code;

use super::list::{ListAddress, ROWS, fresh, unreachable};
use super::name::ExecutionPath;
use super::{counts, row};
use crate::Site;
use crate::fields::Fields;
use crate::live::{Part, SLOWEST, pause, share, trouble};
use crate::problem::Problem;
use crate::sub_state::finished;
use crate::time::{Now, moment};
use crate::visitor::Visitor;

/// The shortest interval between two reads of the page. A row that is neither watched nor on the current page is
/// read at the interval `SLOWEST`.
const FASTEST: Duration = Duration::from_secs(1);
/// How long the watch may take to open, or a row to be read.
const PATIENCE: Duration = Duration::from_secs(3);
/// Changes that came together are sent together.
const TOGETHER: usize = 64;
/// Rows that are read at the same time.
const AT_ONCE: usize = 8;

pub(super) async fn follow(State(site): State<Site>, visitor: Visitor, fields: Fields) -> Response {
    let follower = Follower::new(&site, visitor, &fields);
    let key = follower.key();
    let from = follower.visitor.clone();
    share(&site, &from, key, || reader(Arc::new(follower)))
}

/// The current rows, their changes, and the parts around the list that change more slowly.
fn reader(follower: Arc<Follower>) -> BoxStream<'static, Vec<Part>> {
    let beginning = {
        let follower = follower.clone();
        async move {
            let mut looks = follower.looks();
            let look = looks.next().await;
            let page = look.as_ref().and_then(|look| look.page.as_ref().ok());
            let rows = follower.unwatched(page).await;
            let changes = follower.watch(&rows).await;
            let now = Now::stream();
            let mut present: Vec<_> = rows.iter().map(|row| row.part(now)).collect();
            if let Some(look) = look {
                present.extend(follower.parts(&look).await);
            }
            (present, changes, looks)
        }
    };
    let parts = stream::once(beginning).flat_map(move |(present, changes, looks)| {
        let follower = follower.clone();
        let looks = looks.then(move |look| {
            let follower = follower.clone();
            async move { follower.parts(&look).await }
        });
        let later = stream::select(changes.ready_chunks(TOGETHER), looks);
        stream::once(std::future::ready(present)).chain(later)
    });
    parts.boxed()
}

/// A page of the list and the counts, at one moment.
pub(crate) struct ListLook {
    page: Result<ListExecutionsResponse, Problem>,
    counted: Option<CountExecutionsResponse>,
}

/// Reads immediately, then repeatedly; the pause grows when a read takes long.
fn read_list(site: Site, visitor: Visitor, asked: ListAddress) -> BoxStream<'static, ListLook> {
    let tab = Arc::new((site, visitor, asked));
    let looks = stream::unfold(Duration::ZERO, move |rest| {
        let tab = tab.clone();
        async move {
            tokio::time::sleep(rest).await;
            let begun = Instant::now();
            let (site, visitor, asked) = &*tab;
            let (page, counted) =
                futures::join!(asked.rows(site, visitor), counts::read(site, visitor));
            let rest = pause(begun.elapsed(), FASTEST);
            Some((ListLook { page, counted }, rest))
        }
    });
    looks.boxed()
}

/// The state of a row as the browser shows it.
enum Row {
    Is(Box<Execution>),
    Removed(String),
}

impl Row {
    fn part(&self, now: Now) -> Part {
        match self {
            Self::Is(execution) => row::part(execution, now),
            Self::Removed(name) => row::removed(name),
        }
    }
}

struct Follower {
    site: Site,
    visitor: Visitor,
    asked: ListAddress,
    /// The names that the browser shows.
    shown: Vec<String>,
    /// When the last row was made, if more follow: what is older belongs to the pages after this.
    oldest: Timestamp,
    /// The rows that are watched, until the stream ends.
    watched: Arc<Mutex<HashSet<String>>>,
    /// When a row was asked for by itself.
    asked_for: Mutex<HashMap<String, Instant>>,
}

impl Follower {
    fn new(site: &Site, visitor: Visitor, fields: &Fields) -> Self {
        let oldest = fields.get("oldest").parse().ok();
        let oldest = oldest.and_then(|time| Timestamp::from_nanosecond(time).ok());
        let most = usize::try_from(ROWS).unwrap_or(usize::MAX);
        let shown = fields.all("row").filter_map(ExecutionPath::at).take(most);
        Self {
            site: site.clone(),
            visitor,
            asked: ListAddress::of(fields),
            shown: shown.map(|path| path.name()).collect(),
            oldest: oldest.unwrap_or(Timestamp::MIN),
            watched: Arc::default(),
            asked_for: Mutex::default(),
        }
    }

    /// The changes of the rows that can still change. None where they cannot be watched in time: then
    /// they are looked up now and then.
    async fn watch(&self, rows: &[Row]) -> BoxStream<'static, Part> {
        let open = rows.iter().filter_map(|row| match row {
            Row::Is(execution) if !finished(execution.sub_state()) => Some(execution.name.clone()),
            _ => None,
        });
        let names: Vec<String> = open.collect();
        if names.is_empty() {
            return stream::empty().boxed();
        }
        let request = WatchExecutionsRequest {
            names: names.clone(),
            ..WatchExecutionsRequest::default()
        };
        let mut api = self.site.api.executions();
        let opening = api.watch_executions(self.visitor.stream(request));
        let Ok(Ok(watch)) = tokio::time::timeout(PATIENCE, opening).await else {
            return stream::empty().boxed();
        };
        let changes = watch
            .into_inner()
            .filter_map(|change| std::future::ready(change.ok().and_then(changed)));
        let watched = self.watched.clone();
        locked(&watched).extend(names);
        let end = stream::once(async move {
            locked(&watched).clear();
        });
        let end = end.filter_map(|()| std::future::ready(None));
        changes.chain(end).boxed()
    }

    /// What names the page: the filter, and the rows that the browser shows.
    fn key(&self) -> String {
        let mut rows = self.shown.clone();
        rows.sort();
        let ListAddress { filter, page } = &self.asked;
        let (reader, rows) = (self.visitor.reader(), rows.join(" "));
        format!("list|{filter}|{page}|{}|{rows}|{reader}", self.oldest)
    }

    /// The page of the list as it is now, again and again. Every tab with the same filter shares it.
    fn looks(&self) -> BoxStream<'static, Arc<ListLook>> {
        let ListAddress { filter, page } = &self.asked;
        let key = format!("{filter}|{page}|{}", self.visitor.reader());
        let (site, visitor, asked) = (&self.site, &self.visitor, &self.asked);
        let read = || read_list(site.clone(), visitor.clone(), asked.clone());
        site.lists.follow(key, read)
    }

    async fn parts(&self, look: &ListLook) -> Vec<Part> {
        let now = Now::stream();
        let mut parts = Vec::new();
        if look.counted.is_some() {
            let html = counts::render(look.counted.as_ref(), &self.asked.filter);
            parts.push(Part::new("counts", html));
        }
        let page = match &look.page {
            Ok(page) => page,
            Err(problem) => {
                parts.push(trouble(Some(problem)));
                return parts;
            }
        };
        let fresh_ones = page.executions.iter().filter(|row| self.is_new(row));
        let fresh_ones = fresh(&self.asked, fresh_ones.count());
        parts.push(Part::new(
            "unreachable",
            unreachable(&page.unreachable, "executions"),
        ));
        parts.push(Part::new("fresh", fresh_ones));
        let rows = self.unwatched(Some(page)).await;
        parts.extend(rows.iter().map(|row| row.part(now)));
        parts.push(trouble(None));
        parts
    }

    /// The shown rows that are not watched: as the page of now has them, or else by themselves.
    async fn unwatched(&self, page: Option<&ListExecutionsResponse>) -> Vec<Row> {
        let watched = locked(&self.watched).clone();
        let mut names: HashSet<_> = self.shown.iter().cloned().collect();
        names.retain(|name| !watched.contains(name));
        let mut rows = Vec::new();
        for execution in page.into_iter().flat_map(|page| &page.executions) {
            if names.remove(&execution.name) {
                rows.push(Row::Is(Box::new(execution.clone())));
            }
        }
        names.retain(|name| self.is_due(name));
        let asked: Vec<_> = names.into_iter().map(|name| self.get(name)).collect();
        let asked = stream::iter(asked).buffer_unordered(AT_ONCE);
        rows.extend(
            asked
                .filter_map(std::future::ready)
                .collect::<Vec<_>>()
                .await,
        );
        rows
    }

    /// Whether a row may be asked for by itself again; if so, it is.
    fn is_due(&self, name: &str) -> bool {
        let mut asked_for = locked(&self.asked_for);
        let recent = asked_for.get(name).is_some_and(|at| at.elapsed() < SLOWEST);
        if !recent {
            asked_for.insert(name.to_owned(), Instant::now());
        }
        !recent
    }

    /// None if the call failed.
    async fn get(&self, name: String) -> Option<Row> {
        let request = GetExecutionRequest {
            name: name.clone(),
            ..GetExecutionRequest::default()
        };
        let mut api = self.site.api.executions();
        let getting = api.get_execution(self.visitor.request(request));
        match tokio::time::timeout(PATIENCE, getting).await.ok()? {
            Ok(found) => Some(Row::Is(Box::new(found.into_inner()))),
            Err(status) if status.code() == Code::NotFound => Some(Row::Removed(name)),
            Err(_) => None,
        }
    }

    /// Whether a row of the first page is new since the page in the browser was rendered: its execution
    /// began, or passes the filter now. A row that moved up from the next page is not new.
    fn is_new(&self, row: &Execution) -> bool {
        let moved_up = moment(row.create_time.as_ref()).is_some_and(|time| time < self.oldest);
        self.asked.page.is_empty() && !moved_up && !self.shown.contains(&row.name)
    }
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The row after a change; nothing if the change is not about a row.
fn changed(change: WatchExecutionsResponse) -> Option<Part> {
    let kind = change.kind();
    let execution = change.execution?;
    Some(match kind {
        Kind::Removed => row::removed(&execution.name),
        _ => row::part(&execution, Now::stream()),
    })
}
