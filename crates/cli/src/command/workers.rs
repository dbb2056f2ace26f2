//! `stateway workers`: the connected workers.

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_client::{Call, v1};
use stateway_phrases::per_minute;

use crate::arguments::Output;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::paging::warn_unreachable;
use crate::screen::{Paint, Table, ago};
use crate::selection::Scope;
use crate::view;

/// Shows the workers.
#[derive(Debug, Subcommand)]
pub enum Workers {
    /// List the workers that are connected or may still reconnect
    List(List),
}

/// Lists workers.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    scope: Scope,
}

/// The maximum number of workers that are listed.
const MOST: usize = 10_000;
/// Workers on one page.
const PAGE: i32 = 1_000;

/// What `-o json` prints.
#[derive(Debug, Default, Serialize)]
struct Listed {
    workers: Vec<view::Worker>,
    /// Tasks completed and failed per minute, of each worker.
    #[serde(skip)]
    rates: Vec<(String, String)>,
    unreachable: Vec<String>,
    /// Whether there are more workers than are listed.
    truncated: bool,
}

impl Workers {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let Self::List(list) = self;
        let mut listed = read(context, &list.scope.parent()?).await?;
        listed.unreachable.sort();
        listed.unreachable.dedup();
        warn_unreachable(&listed.unreachable, "workers");
        if listed.truncated {
            print_message(&format!("only the first {MOST} workers are listed"));
        }
        context.show(&listed, || table(&listed, context.paint))?;
        if listed.workers.is_empty() && context.output == Output::Table {
            print_message("no worker is connected");
        }
        Ok(Exit::Ok)
    }
}

fn table(listed: &Listed, paint: Paint) -> String {
    let now = jiff::Timestamp::now();
    let headings = [
        "WORKER",
        "PROVIDER",
        "ROLES",
        "SKILLS",
        "TENANT",
        "TASKS",
        "DONE/MIN",
        "FAILED/MIN",
        "VERSION",
        "CONNECTED",
        "SEEN",
    ];
    let mut table = Table::new(&headings, paint);
    for (worker, (done, failed)) in listed.workers.iter().zip(&listed.rates) {
        let since = worker.connect_time.map(|time| ago(time, now));
        let seen = worker.heartbeat_time.map(|time| ago(time, now));
        table.row(vec![
            worker.worker_id.to_string(),
            provider_of(&worker.name),
            words(&worker.roles),
            words(&worker.skills),
            worker.tenant.to_string(),
            format!("{}/{}", worker.task_count, worker.capacity),
            done.clone(),
            failed.clone(),
            version(worker),
            match (worker.connected, worker.capacity) {
                (true, _) => since.unwrap_or_default(),
                // A worker that stops first offers no capacity.
                (false, 0) => "drained".into(),
                (false, _) => "disconnected".into(),
            },
            seen.unwrap_or_default(),
        ]);
    }
    table.text()
}

/// Reads page after page.
async fn read(context: &Context, parent: &str) -> Result<Listed, Failure> {
    let (mut listed, mut token) = (Listed::default(), String::new());
    loop {
        let call = Call::from_message(v1::ListWorkersRequest {
            parent: parent.to_owned(),
            page_size: PAGE,
            page_token: token,
        });
        let page = context.client.workers_page(context.call(call)).await?;
        let workers = page.workers.iter().map(view::Worker::from);
        listed.workers.extend(workers);
        listed.rates.extend(page.workers.iter().map(rates));
        listed.unreachable.extend(page.unreachable);
        token = page.next_page_token;
        if token.is_empty() {
            return Ok(listed);
        }
        if listed.workers.len() >= MOST {
            listed.truncated = true;
            return Ok(listed);
        }
    }
}

/// Tasks per minute; nothing if the gateway has not seen the worker since it started.
fn rates(worker: &v1::Worker) -> (String, String) {
    worker
        .recent_tasks
        .as_ref()
        .map(per_minute)
        .unwrap_or_default()
}

/// The version of the program and the library: `1.4 (stateway-rust/0.1.0)`.
fn version(worker: &view::Worker) -> String {
    let (version, sdk) = (worker.version.to_string(), worker.sdk.to_string());
    match (version.is_empty(), sdk.is_empty()) {
        (_, true) => version,
        (true, false) => sdk,
        (false, false) => format!("{version} ({sdk})"),
    }
}

/// `providers/p` of `providers/p/workers/w`.
fn provider_of(name: &view::Text) -> String {
    let name = name.to_string();
    let provider = name.split_once("/workers/").map(|(provider, _)| provider);
    provider.unwrap_or(&name).to_owned()
}

fn words(list: &[view::Text]) -> String {
    let words: Vec<_> = list.iter().map(ToString::to_string).collect();
    words.join(",")
}
