//! The page of workers: connected workers, the tasks that they do, and the queues.

mod detail;
mod queue;
mod worker;

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};
use stateway_proto::v1::{GetQueueRequest, ListWorkersRequest, Queue, Worker};
use tonic::Code;

use crate::Site;
use crate::executions::unreachable;
use crate::layout::Section;
use crate::live::{Part, every, share};
use crate::page::Page;
use crate::problem::Problem;
use crate::providers;
use crate::time::Now;
use crate::visitor::Visitor;

/// How often the page is read again.
const PACE: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/workers", get(show))
        .route("/workers/live", get(follow))
        .route("/workers/{provider}/{worker}", get(detail::show))
        .route("/workers/{provider}/{worker}/live", get(detail::follow))
}

/// The most workers that are read.
const MOST_WORKERS: i32 = 1_000;

/// The workers and the queues of all providers, at one moment.
#[derive(Default)]
struct WorkOverview {
    workers: Vec<Worker>,
    /// Whether there are more workers than `MOST_WORKERS`.
    truncated: bool,
    queues: Vec<Queue>,
    unreachable: Vec<String>,
}

async fn look(site: &Site, visitor: &Visitor) -> Result<WorkOverview, Problem> {
    let mut overview = WorkOverview::default();
    let request = ListWorkersRequest {
        parent: "providers/-".into(),
        page_size: MOST_WORKERS,
        ..ListWorkersRequest::default()
    };
    let mut api = site.api.workers();
    match api.list_workers(visitor.request(request)).await {
        Ok(found) => {
            let found = found.into_inner();
            overview.truncated = !found.next_page_token.is_empty();
            overview.workers = found.workers;
            overview.unreachable = found.unreachable;
        }
        Err(status) if status.code() == Code::Unimplemented => {}
        Err(status) => return Err(status.into()),
    }
    for provider in providers::all(site, visitor).await? {
        if overview.unreachable.contains(&provider.name) {
            continue;
        }
        let request = GetQueueRequest {
            name: format!("{}/queue", provider.name),
        };
        match site.api.workers().get_queue(visitor.request(request)).await {
            Ok(found) => overview.queues.push(found.into_inner()),
            // Most engines have workers of their own and no tasks for ours.
            Err(status) if status.code() == Code::Unimplemented => {}
            Err(status) if is_outage(status.code()) => overview.unreachable.push(provider.name),
            Err(status) => return Err(status.into()),
        }
    }
    Ok(overview)
}

/// Whether a provider did not answer, rather than the gateway.
const fn is_outage(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::DeadlineExceeded)
}

async fn show(State(site): State<Site>, visitor: Visitor) -> Response {
    let overview = look(&site, &visitor).await;
    let page = Page {
        section: Section::Workers,
        title: "Workers",
        live: overview.is_ok().then_some("/workers/live"),
        content: html! {
            div.title { h1 { "Workers" } p.muted { "Connected workers, and the tasks that wait for a worker." } }
            @match &overview {
                Ok(overview) => (render(overview, Now::page())),
                Err(problem) => (problem.render()),
            }
        },
    };
    page.show(&visitor)
}

async fn follow(State(site): State<Site>, visitor: Visitor) -> Response {
    let key = format!("workers|{}", visitor.reader());
    let from = visitor.clone();
    let seen = (site.clone(), visitor);
    let look = move || {
        let (site, visitor) = seen.clone();
        async move {
            let overview = look(&site, &visitor).await?;
            let shown = render(&overview, Now::stream());
            Ok(vec![Part::new("work-overview", shown)])
        }
    };
    share(&site, &from, key, || every(PACE, look))
}

fn render(overview: &WorkOverview, now: Now) -> Markup {
    html! {
        div #work-overview {
            (unreachable(&overview.unreachable, "workers and tasks"))
            @if !overview.queues.is_empty() {
                @for queue in &overview.queues { (queue::render(queue, now)) }
                (worker::list(&overview.workers, overview.truncated, now))
            } @else if overview.unreachable.is_empty() {
                section.empty {
                    h2 { "No provider hands out tasks" }
                    p { "The built-in engine hands out tasks. Other engines have their own workers." }
                }
            }
        }
    }
}
