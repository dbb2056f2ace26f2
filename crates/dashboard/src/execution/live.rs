//! The page's live updates: every change of the execution, and the passing of time while it is open.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use maud::html;
use stateway_proto::v1::WatchExecutionsRequest;

use super::chosen::Chosen;
use super::facts::Facts;
use super::history;
use super::view::parts;
use crate::Site;
use crate::executions::ExecutionPath;
use crate::fields::Fields;
use crate::live::{Part, seen, share};
use crate::problem::Problem;
use crate::time::Now;
use crate::visitor::Visitor;

/// How often the page is read without a change: the timeline grows, and an execution that has ended
/// may be reopened.
const PACE: Duration = Duration::from_secs(5);
/// Several quick changes are read together, after the last one or after this time.
const BREATH: Duration = Duration::from_millis(100);
/// Changes that came together are shown together.
const TOGETHER: usize = 64;

pub(super) async fn follow(
    State(site): State<Site>,
    visitor: Visitor,
    path: ExecutionPath,
    fields: Fields,
) -> Response {
    let chosen = Chosen::of(&fields);
    let key = chosen.address(&path.path(), fields.get("events"));
    let key = format!("execution|{key}|{}", visitor.reader_with_roles());
    let with_history = !fields.has("events");
    let tab = Tab {
        site: site.clone(),
        visitor,
        path,
        chosen,
        with_history,
    };
    let from = tab.visitor.clone();
    share(&site, &from, key, || reader(Arc::new(tab)))
}

/// What the page shows.
struct Tab {
    site: Site,
    visitor: Visitor,
    path: ExecutionPath,
    chosen: Chosen,
    /// Whether the newest events are on the page, not an older page of them.
    with_history: bool,
}

/// The parts of the page, whenever the execution changes and at a pace.
fn reader(tab: Arc<Tab>) -> BoxStream<'static, Vec<Part>> {
    let opening = {
        let tab = tab.clone();
        async move { changes(&tab.site, &tab.visitor, &tab.path).await }
    };
    let parts = stream::once(opening).flat_map(move |opened| match opened {
        // The stream ends after this message; the browser reconnects automatically.
        Err(problem) => stream::once(std::future::ready(in_the_way(problem))).boxed(),
        Ok(changes) => {
            let ticks = stream::unfold((), |()| async {
                tokio::time::sleep(PACE).await;
                Some(((), ()))
            });
            let moments = stream::select(changes, ticks).ready_chunks(TOGETHER);
            let tab = tab.clone();
            let looks = moments.then(move |_| {
                let tab = tab.clone();
                async move {
                    tokio::time::sleep(BREATH).await;
                    look(&tab).await
                }
            });
            looks.boxed()
        }
    });
    parts.boxed()
}

async fn changes(
    site: &Site,
    visitor: &Visitor,
    path: &ExecutionPath,
) -> Result<impl Stream<Item = ()> + Send + use<>, Problem> {
    let request = WatchExecutionsRequest {
        names: vec![path.name()],
        ..WatchExecutionsRequest::default()
    };
    let mut api = site.api.executions();
    let watch = api.watch_executions(visitor.stream(request)).await?;
    Ok(watch
        .into_inner()
        .filter_map(|change| std::future::ready(change.ok().map(|_| ()))))
}

/// If the execution cannot be read, the page stays as it is, with a note that it is out of date.
async fn look(tab: &Tab) -> Vec<Part> {
    let Tab {
        site,
        visitor,
        path,
        chosen,
        with_history,
    } = tab;
    let facts = match Box::pin(Facts::read(site, visitor, path, chosen)).await {
        Ok(facts) => facts,
        Err(problem) => return in_the_way(problem),
    };
    let mut parts = parts(path, &facts, visitor, Now::stream());
    let history = history::whole(path, &facts).filter(|_| *with_history);
    parts.extend(history.map(|html| Part::new("history", html)));
    seen(Ok(parts))
}

/// Why the execution cannot be read; an execution that no longer exists has no actions.
fn in_the_way(problem: Problem) -> Vec<Part> {
    let gone = problem.status == StatusCode::NOT_FOUND;
    let mut parts = seen(Err(problem));
    if gone {
        parts.push(Part::new("actions", html! { div #actions {} }));
    }
    parts
}
