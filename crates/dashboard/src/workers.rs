//! Who takes tasks, what they hold, and what waits for whom.

mod queue;
mod worker;

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use jiff::Timestamp;
use maud::{Markup, html};
use stateway_proto::v1::{GetQueueRequest, ListWorkersRequest, Queue, Worker};
use tonic::Code;

use crate::Site;
use crate::layout::Section;
use crate::live::{Part, every};
use crate::page::Page;
use crate::problem::Problem;
use crate::providers;
use crate::visitor::Visitor;

/// How often they are looked at.
const PACE: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> Router<Site> {
    Router::new()
        .route("/workers", get(show))
        .route("/workers/live", get(follow))
}

/// Who works and what waits, at one moment.
/// The most workers that are shown.
const MOST_WORKERS: i32 = 1_000;

struct Floor {
    workers: Vec<Worker>,
    queues: Vec<Queue>,
}

async fn look(site: &Site, visitor: &Visitor) -> Result<Floor, Problem> {
    let request = ListWorkersRequest {
        parent: "providers/-".into(),
        page_size: MOST_WORKERS,
        ..ListWorkersRequest::default()
    };
    let workers = site
        .api
        .workers()
        .list_workers(visitor.request(request))
        .await;
    let workers = match workers {
        Ok(found) => found.into_inner().workers,
        Err(status) if status.code() == Code::Unimplemented => Vec::new(),
        Err(status) => return Err(status.into()),
    };
    let mut queues = Vec::new();
    for provider in providers::all(site, visitor).await? {
        let request = GetQueueRequest {
            name: format!("{}/queue", provider.name),
        };
        match site.api.workers().get_queue(visitor.request(request)).await {
            Ok(found) => queues.push(found.into_inner()),
            // Most engines have workers of their own and no tasks for ours.
            Err(status) if status.code() == Code::Unimplemented => {}
            Err(status) => return Err(status.into()),
        }
    }
    Ok(Floor { workers, queues })
}

async fn show(State(site): State<Site>, visitor: Visitor) -> Response {
    let floor = look(&site, &visitor).await;
    let page = Page {
        section: Section::Workers,
        title: "Workers",
        live: floor.is_ok().then_some("/workers/live"),
        content: html! {
            div.title { h1 { "Workers" } p.muted { "Who takes the tasks of steps, and what waits for them." } }
            @match &floor {
                Ok(floor) => (render(floor, Timestamp::now())),
                Err(problem) => (problem.render()),
            }
        },
    };
    page.show(&visitor)
}

async fn follow(State(site): State<Site>, visitor: Visitor) -> Response {
    let seen = (site.clone(), visitor);
    every(&site, PACE, move || {
        let (site, visitor) = seen.clone();
        async move {
            let floor = look(&site, &visitor).await;
            let part = |floor| Part::new("floor", render(&floor, Timestamp::now()));
            Ok(vec![part(floor?)])
        }
    })
}

fn render(floor: &Floor, now: Timestamp) -> Markup {
    html! {
        div #floor {
            @if floor.queues.is_empty() {
                section.empty {
                    h2 { "No provider here hands out tasks" }
                    p { "The built-in engine does. Other engines have workers of their own." }
                }
            } @else {
                @for queue in &floor.queues { (queue::render(queue, now)) }
                (worker::list(&floor.workers, now))
            }
        }
    }
}
