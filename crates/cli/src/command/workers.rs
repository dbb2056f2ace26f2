//! `stateway workers`: who takes tasks.

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_client::{Call, v1};

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

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct Listed {
    workers: Vec<view::Worker>,
}

impl Workers {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let Self::List(list) = self;
        let parent = resource::parent(list.provider.as_deref())?;
        let call = Call::from_message(v1::ListWorkersRequest { parent });
        let answer = context.client.list_workers(context.call(call)).await?;
        let listed = Listed {
            workers: answer.workers.iter().map(view::Worker::from).collect(),
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
                let seen = worker.seen_time.map(|time| ago(time, now));
                table.row(vec![
                    worker.worker_id.to_string(),
                    worker.provider.to_string(),
                    words(&worker.roles),
                    words(&worker.skills),
                    worker.tenant.to_string(),
                    format!("{}/{}", worker.held, worker.capacity),
                    match worker.connected {
                        true => since.unwrap_or_default(),
                        false => "lost".into(),
                    },
                    seen.unwrap_or_default(),
                ]);
            }
            table.text()
        })?;
        Ok(Exit::Ok)
    }
}

fn words(list: &[view::Text]) -> String {
    let words: Vec<_> = list.iter().map(ToString::to_string).collect();
    words.join(",")
}
