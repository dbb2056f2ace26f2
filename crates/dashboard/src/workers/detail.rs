//! One worker: what it can do, and every task that it has.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use stateway_proto::v1::{ListWorkersRequest, Worker};

use super::worker::{facts, presence, task_line};
use crate::Site;
use crate::execution::trouble;
use crate::layout::Section;
use crate::live::{Part, every, share};
use crate::page::Page;
use crate::problem::Problem;
use crate::text::said_within;
use crate::time::Now;
use crate::visitor::Visitor;

/// How often the worker is read again.
const PACE: Duration = Duration::from_secs(1);
/// Workers per call, and the maximum number of calls to find one.
const ROWS: i32 = 1_000;
const MOST_PAGES: usize = 20;

/// Where the page of a worker is, by its name.
pub(super) fn path_of(name: &str) -> String {
    let rest = name.strip_prefix("providers/").unwrap_or(name);
    let (provider, worker) = rest.split_once("/workers/").unwrap_or((rest, ""));
    format!("/workers/{provider}/{worker}")
}

pub(super) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    Path((provider, worker)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let found = find(&site, &visitor, &provider, &worker).await?;
    let live = format!("{}/live", path_of(&found.name));
    let page = Page {
        section: Section::Workers,
        title: &worker,
        live: Some(&live),
        content: html! {
            p.crumbs { a href="/workers" { "Workers" } }
            div.title { h1 { (said_within(&found.worker_id, 80)) } }
            (part(&found, Now::page()))
        },
    };
    Ok(page.show(&visitor))
}

pub(super) async fn follow(
    State(site): State<Site>,
    visitor: Visitor,
    Path((provider, worker)): Path<(String, String)>,
) -> Response {
    let key = format!("worker|{provider}|{worker}|{}", visitor.reader());
    let from = visitor.clone();
    let tab = (site.clone(), visitor, provider, worker);
    let look = move || {
        let (site, visitor, provider, worker) = tab.clone();
        async move {
            let found = find(&site, &visitor, &provider, &worker).await?;
            Ok(vec![Part::new("worker", part(&found, Now::stream()))])
        }
    };
    share(&site, &from, key, || every(PACE, look))
}

/// The worker with this id, as it gave it.
async fn find(
    site: &Site,
    visitor: &Visitor,
    provider: &str,
    worker: &str,
) -> Result<Worker, Problem> {
    let mut token = String::new();
    for _ in 0..MOST_PAGES {
        let request = ListWorkersRequest {
            parent: format!("providers/{provider}"),
            page_size: ROWS,
            page_token: token,
        };
        let mut api = site.api.workers();
        let page = api.list_workers(visitor.request(request)).await?;
        let page = page.into_inner();
        let mut workers = page.workers.into_iter();
        if let Some(found) = workers.find(|one| one.worker_id == worker) {
            return Ok(found);
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    Err(Problem::not_found(
        "This worker is not connected.",
        "A worker that has disconnected leaves the list after its lease. The list shows the connected workers.",
    ))
}

fn part(worker: &Worker, now: Now) -> Markup {
    html! {
        div #worker {
            section.card aria-labelledby="worker-title" {
                div.card-head { h2 #worker-title { "Worker" } (presence(worker)) }
                (facts(worker, now))
                @if let Some(failure) = &worker.last_failure { (trouble(failure, now)) }
            }
            section.card aria-labelledby="tasks-title" {
                h2 #tasks-title { "Tasks " span.count { (worker.task_count) } }
                @if worker.tasks.is_empty() { p.nothing { "The worker has no task." } }
                ul.plain { @for task in &worker.tasks { (task_line(task)) } }
                @let shown = i32::try_from(worker.tasks.len()).unwrap_or(i32::MAX);
                @if worker.task_count > shown { p.hint { "and " (worker.task_count - shown) " more" } }
            }
        }
    }
}
