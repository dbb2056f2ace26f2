//! `stateway workers`: who takes tasks.

use clap::{Args, Subcommand};
use futures::{StreamExt, TryStreamExt};
use serde::Serialize;

use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::screen::{Table, ago};
use crate::{resource, view};

/// Who takes tasks.
#[derive(Debug, Subcommand)]
pub enum Workers {
    /// List the workers that are connected or may still reconnect
    List(List),
}

/// Lists workers.
#[derive(Debug, Args)]
pub struct List {
    /// Only workers of this provider (default: all providers)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
}

/// The most workers that are listed.
const MOST: usize = 10_000;

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct Listed {
    workers: Vec<view::Worker>,
}

impl Workers {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let Self::List(list) = self;
        let parent = resource::parent(list.provider.as_deref())?;
        let found = context.client.workers_all(parent);
        let found: Vec<_> = found.take(MOST).try_collect().await?;
        let listed = Listed {
            workers: found.iter().map(view::Worker::from).collect(),
        };
        context.show(&listed, || {
            if listed.workers.is_empty() {
                talk("no worker is connected");
            }
            let now = jiff::Timestamp::now();
            let headings = [
                "WORKER",
                "PROVIDER",
                "ROLES",
                "SKILLS",
                "TENANT",
                "TASKS",
                "CONNECTED",
                "SEEN",
            ];
            let mut table = Table::new(&headings, context.paint);
            for worker in &listed.workers {
                let since = worker.connect_time.map(|time| ago(time, now));
                let seen = worker.heartbeat_time.map(|time| ago(time, now));
                table.row(vec![
                    worker.worker_id.to_string(),
                    provider_of(&worker.name),
                    words(&worker.roles),
                    words(&worker.skills),
                    worker.tenant.to_string(),
                    format!("{}/{}", worker.task_count, worker.capacity),
                    if worker.connected {
                        since.unwrap_or_default()
                    } else {
                        "lost".into()
                    },
                    seen.unwrap_or_default(),
                ]);
            }
            table.text()
        })?;
        Ok(Exit::Ok)
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
