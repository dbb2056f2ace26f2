//! The whole history as a file.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use futures::stream;
use serde_json::json;
use stateway_proto::v1::{Event, ExecutionView, ExportHistoryRequest, ListEventsRequest};
use tonic::{Code, Status};

use crate::Site;
use crate::executions::{ExecutionPath, shown};
use crate::problem::Problem;
use crate::time::{moment, stamp};
use crate::visitor::Visitor;

/// Events per call.
const EVENTS: i32 = 1_000;
/// The most events of a file that is made of pages.
const MOST_PAGES: usize = 1_000;

/// The log as `stateway history export` writes it; of engines without a log, their events as JSON, a line
/// each.
pub(super) async fn history(
    State(site): State<Site>,
    visitor: Visitor,
    path: ExecutionPath,
) -> Result<Response, Problem> {
    let request = ExportHistoryRequest {
        name: path.name(),
        redact: false,
    };
    let mut api = site.api.recovery();
    match api.export_history(visitor.stream(request)).await {
        Ok(opened) => {
            let parts = opened.into_inner().map(|part| part.map(|part| part.data));
            Ok(file(&path, Body::from_stream(parts)))
        }
        Err(status) if status.code() == Code::Unimplemented => {
            let first = page(&site, &visitor, &path, String::new()).await?;
            Ok(file(&path, lines(site, visitor, path.clone(), first)))
        }
        Err(status) => Err(status.into()),
    }
}

fn file(path: &ExecutionPath, body: Body) -> Response {
    let name = path.name();
    let (_, id) = shown(&name);
    let plain = |symbol: char| symbol.is_ascii_alphanumeric() || matches!(symbol, '-' | '_' | '.');
    let id: String = id
        .chars()
        .filter(|symbol| plain(*symbol))
        .take(100)
        .collect();
    let place = format!("attachment; filename=\"{id}.history.jsonl\"");
    let headers = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CONTENT_DISPOSITION, place.as_str()),
    ];
    (headers, body).into_response()
}

async fn page(
    site: &Site,
    visitor: &Visitor,
    path: &ExecutionPath,
    token: String,
) -> Result<(Vec<Event>, String), Status> {
    let request = ListEventsRequest {
        parent: path.name(),
        page_size: EVENTS,
        page_token: token,
        view: ExecutionView::Full.into(),
        ..ListEventsRequest::default()
    };
    let mut api = site.api.executions();
    let page = api.list_events(visitor.request(request)).await?;
    let page = page.into_inner();
    Ok((page.events, page.next_page_token))
}

/// One line for each event, read a page at a time.
fn lines(site: Site, visitor: Visitor, path: ExecutionPath, first: (Vec<Event>, String)) -> Body {
    let pages = stream::unfold((Some(first), 0), move |(page_now, read)| {
        let (site, visitor, path) = (site.clone(), visitor.clone(), path.clone());
        async move {
            let (events, token) = page_now?;
            let text: String = events.iter().map(line).collect();
            let next = if token.is_empty() || read == MOST_PAGES {
                None
            } else {
                page(&site, &visitor, &path, token).await.ok()
            };
            Some((Ok::<_, Status>(text), (next, read + 1)))
        }
    });
    Body::from_stream(pages)
}

fn line(event: &Event) -> String {
    let time = moment(event.occur_time.as_ref()).map(stamp);
    let line = json!({
        "sequence": event.sequence,
        "occur_time": time,
        "native_type": event.native_type,
        "step": event.step,
        "attempt": event.attempt,
        "summary": event.summary,
    });
    format!("{line}\n")
}
