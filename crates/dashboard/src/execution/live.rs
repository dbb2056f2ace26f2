//! The page's live updates: every change of the execution, and the passing of time while it is open.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream::{self, Stream, StreamExt};
use jiff::Timestamp;
use maud::html;
use stateway_proto::v1::WatchExecutionsRequest;

use super::facts::Facts;
use super::history;
use super::view::parts;
use crate::Site;
use crate::executions::ExecutionPath;
use crate::fields::Fields;
use crate::live::{Part, room, seen, send_in};
use crate::problem::Problem;
use crate::visitor::Visitor;

/// How often the page is looked at without a change: the timeline grows, and an execution that has
/// ended may be taken up again.
const PACE: Duration = Duration::from_secs(5);
/// A burst of changes is looked at once, when it is over or this has passed.
const BREATH: Duration = Duration::from_millis(100);
/// Changes that came together are shown together.
const TOGETHER: usize = 64;

pub(super) async fn follow(
    State(site): State<Site>,
    visitor: Visitor,
    path: ExecutionPath,
    fields: Fields,
) -> Result<Response, Problem> {
    let room = room(&site)?;
    let with_history = !fields.has("events");
    let changes = match changes(&site, &visitor, &path).await {
        Ok(changes) => changes,
        // Told, and over: the browser comes back by itself.
        Err(problem) => {
            let told = std::future::ready(in_the_way(problem));
            return Ok(send_in(room, &site, stream::once(told)));
        }
    };
    let ticks = stream::unfold((), |()| async {
        tokio::time::sleep(PACE).await;
        Some(((), ()))
    });
    let moments = stream::select(changes, ticks).ready_chunks(TOGETHER);
    let chosen = fields.get("step").to_owned();
    let seen = Arc::new((site.clone(), visitor, path, chosen));
    let parts = moments.then(move |_| {
        let seen = seen.clone();
        async move {
            tokio::time::sleep(BREATH).await;
            look(&seen.0, &seen.1, (&seen.2, &seen.3), with_history).await
        }
    });
    Ok(send_in(room, &site, parts))
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

/// What is on the page stays when it cannot be read just now, and is said to be old.
async fn look(
    site: &Site,
    visitor: &Visitor,
    (path, chosen): (&ExecutionPath, &str),
    with_history: bool,
) -> Vec<Part> {
    let facts = match Box::pin(Facts::read(site, visitor, path, chosen)).await {
        Ok(facts) => facts,
        Err(problem) => return in_the_way(problem),
    };
    let mut parts = parts(path, &facts, visitor, Timestamp::now());
    let history = history::whole(&facts).filter(|_| with_history);
    parts.extend(history.map(|html| Part::new("history", html)));
    seen(Ok(parts))
}

/// Why it cannot be read; nothing can be done about an execution that is not there any more.
fn in_the_way(problem: Problem) -> Vec<Part> {
    let gone = problem.status == StatusCode::NOT_FOUND;
    let mut parts = seen(Err(problem));
    if gone {
        parts.push(Part::new("actions", html! { div #actions {} }));
    }
    parts
}
