//! `stateway watch`: an execution, or a collection, as it changes.

use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use jiff::Timestamp;
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Change, is_finished, v1};

use super::wait::ended;
use crate::arguments::Output;
use crate::context::{Context, print, talk, to_json_line};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{Clock, Live, moment, phrase, short_name, trouble};
use crate::{resource, view};

/// How often a countdown is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Follows executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway watch memory/order-17
  stateway watch --provider memory
  stateway watch --filter 'sub_state = \"error\"' -o json | jq -r .execution.name

On a terminal one execution is shown live: a line per step, with a countdown to the next attempt.
In a pipe, and for a collection, each change is a line. A lost connection is taken up again from
where it was. One execution: ends with it, exits 1 when it failed.")]
pub struct Watch {
    /// provider/id, or the full name; a collection otherwise
    #[arg(conflicts_with_all = ["provider", "filter"])]
    name: Option<String>,
    /// Only this provider's; all providers' otherwise
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Only those that pass this filter (AIP-160)
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
}

/// One line of `-o json`.
#[derive(Debug, Serialize)]
struct Line {
    kind: &'static str,
    execution: Option<view::Execution>,
    unreachable: Vec<String>,
}

impl Watch {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let request = match &self.name {
            Some(name) => client::WatchRequest::new(resource::execution(name)?),
            None => client::WatchRequest::new(resource::parent(self.provider.as_deref())?)
                .filter(self.filter.unwrap_or_default()),
        };
        let changes = context.client.watch(request).into_stream();
        let live = context.terminal && context.output == Output::Table && self.name.is_some();
        let follow = async {
            match live {
                true => draw(changes, context).await,
                false => list(changes, context, self.name.is_some()).await,
            }
        };
        match context.timeout {
            None => follow.await,
            Some(limit) => tokio::time::timeout(limit, follow)
                .await
                .unwrap_or_else(|_| {
                    Err(Failure::new(Exit::Deadline, "the deadline came first")
                        .hint("The execution goes on; watch again, or longer."))
                }),
        }
    }
}

type Changes = futures::stream::BoxStream<'static, Result<Change, client::Error>>;

/// Each change is a line.
async fn list(mut changes: Changes, context: &Context, one: bool) -> Outcome {
    while let Some(change) = changes.next().await {
        let change = change?;
        match (context.output, &change) {
            (_, Change::Interrupted(error)) => interrupted(error),
            (Output::Json, _) => print(&to_json_line(&Line::of(&change))?)?,
            (Output::Table, _) => print_line(&change, context)?,
        }
        if let (true, Change::Added(execution) | Change::Modified(execution)) = (one, &change)
            && is_finished(execution.sub_state)
        {
            return Ok(ended(execution));
        }
        if let (true, Change::Removed(execution)) = (one, &change) {
            return Err(gone(execution));
        }
    }
    Ok(Exit::Ok)
}

/// One execution, drawn again and again until it has finished.
async fn draw(mut changes: Changes, context: &Context) -> Outcome {
    let mut live = Live::new(context.paint);
    let mut shown: Option<view::Execution> = None;
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            change = changes.next() => match change {
                None => return Ok(Exit::Ok),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(Change::Interrupted(error))) => live.aside(|| interrupted(&error)),
                Some(Ok(Change::Removed(execution))) => return Err(gone(&execution)),
                Some(Ok(Change::Added(execution) | Change::Modified(execution))) => {
                    let view = shown.insert(view::Execution::from(&execution));
                    live.draw(view, Timestamp::now());
                    if is_finished(execution.sub_state) {
                        return Ok(ended(&execution));
                    }
                }
                Some(Ok(Change::Bookmark { .. } | Change::Resync)) => {}
            },
        }
        if let Some(view) = &shown {
            live.draw(view, Timestamp::now());
        }
    }
}

fn interrupted(error: &client::Error) {
    talk(&format!(
        "connection lost ({error}); going on from where it was"
    ));
}

fn gone(execution: &v1::Execution) -> Failure {
    Failure::new(Exit::NotFound, format!("{} is gone", execution.name))
        .hint("Its engine has forgotten it.")
}

fn print_line(change: &Change, context: &Context) -> Result<(), Failure> {
    let (mark, execution) = match change {
        Change::Added(execution) | Change::Modified(execution) => ("", execution),
        Change::Removed(execution) => ("  (gone)", execution),
        Change::Bookmark { unreachable } => {
            for provider in unreachable {
                talk(&format!("warning: {provider} does not answer"));
            }
            return Ok(());
        }
        Change::Resync => {
            talk("changes were missed; the present set follows");
            return Ok(());
        }
        Change::Interrupted(_) => return Ok(()),
    };
    print(&format!(
        "{}{mark}",
        line(&view::Execution::from(execution), context)
    ))
}

fn line(execution: &view::Execution, context: &Context) -> String {
    let mut parts = vec![
        moment(Timestamp::now()),
        short_name(&execution.name),
        context.paint.sub_state(execution.sub_state),
    ];
    parts.extend(execution.reason.clone());
    if !execution.current_steps.is_empty() {
        parts.push(format!("[{}]", execution.current_steps.join(", ")));
    }
    let (retry, waits) = (&execution.retry, &execution.waits);
    parts.push(phrase(execution.sub_state, retry, waits, Clock::Kept));
    if is_trouble(execution.sub_state) {
        parts.extend(execution.last_error.as_ref().map(trouble));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
}

fn is_trouble(sub_state: &str) -> bool {
    matches!(sub_state, "failed" | "error")
}

impl Line {
    fn of(change: &Change) -> Self {
        let (kind, execution, unreachable) = match change {
            Change::Added(execution) => ("ADDED", Some(execution), &[][..]),
            Change::Modified(execution) => ("MODIFIED", Some(execution), &[][..]),
            Change::Removed(execution) => ("REMOVED", Some(execution), &[][..]),
            Change::Bookmark { unreachable } => ("BOOKMARK", None, &unreachable[..]),
            Change::Resync => ("RESYNC", None, &[][..]),
            Change::Interrupted(_) => ("INTERRUPTED", None, &[][..]),
        };
        Self {
            kind,
            execution: execution.map(view::Execution::from),
            unreachable: unreachable.to_vec(),
        }
    }
}
