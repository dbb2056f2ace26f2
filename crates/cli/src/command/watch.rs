//! `stateway watch`: an execution, or a collection, as it changes.

use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use jiff::Timestamp;
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Change, is_finished, v1};

use super::connection::Connection;
use super::serve::Stop;
use super::wait::{ended, late};
use crate::arguments::Output;
use crate::context::{Context, print, print_message, to_json_line};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::outline::{ChildLoader, Outline};
use crate::screen::{Clock, Live, now, picture, short_name, stamp};
use crate::selection::Selection;
use crate::{resource, view};

/// How often a countdown is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Follows executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway watch builtin/order-17
  stateway watch builtin/order-17 builtin/order-18
  stateway watch --provider builtin
  stateway watch --filter 'sub_state = \"error\"' -o json | jq -r .execution.name

On a terminal, one execution is shown as a live tree of all its steps, with progress, a countdown \
to the next attempt, and child executions below their steps; q quits, arrows scroll, and the last \
picture stays. In a pipe, and for several executions, \
each change is a line. After a lost connection the watch resumes without a gap. If the gateway never \
answers, the exit code is 6. The watch of one execution ends with the execution and exits 1 if it \
failed. docs/filters.md describes filters.")]
pub struct Watch {
    /// provider/id, or the full name, up to 100 (default: all executions)
    #[arg(value_name = "NAME", conflicts_with_all = ["provider", "filter"])]
    names: Vec<String>,
    #[command(flatten)]
    selection: Selection,
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
        let request = match self.names.as_slice() {
            [name] => {
                let name = resource::execution(name)?;
                if context.terminal && context.output == Output::Table {
                    let end = live(context, &name).await?;
                    return Ok(end.as_ref().map_or(Exit::Ok, ended));
                }
                client::WatchRequest::of([name])
            }
            [] => {
                let (parent, filter) = self.selection.into_fields()?;
                client::WatchRequest::new(parent).filter(filter)
            }
            several => {
                let names = several.iter().map(|name| resource::execution(name));
                client::WatchRequest::of(names.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let changes = context.client.watch(request).into_stream();
        let one = self.names.len() == 1;
        let mut seen = LatestChange::default();
        let outcome = within(context.timeout, list(changes, context, &mut seen, one)).await;
        outcome.unwrap_or_else(|| Err(seen.late(one)))
    }
}

/// The result of a future; none if it takes longer than this.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    follow: impl Future<Output = T>,
) -> Option<T> {
    match limit {
        None => Some(follow.await),
        Some(limit) => tokio::time::timeout(limit, follow).await.ok(),
    }
}

type Changes = futures::stream::BoxStream<'static, Result<Change, client::Error>>;

/// The last data of a watch when its deadline expires.
#[derive(Debug, Default)]
struct LatestChange {
    connection: Connection,
    /// The execution that changed last.
    last: Option<v1::Execution>,
}

impl LatestChange {
    fn take(&mut self, change: &Change) -> Result<Option<String>, Failure> {
        if let Change::Added(execution) | Change::Modified(execution) = change {
            self.last = Some(execution.clone());
        }
        self.connection.take(change, Timestamp::now())
    }

    fn late(&self, one: bool) -> Failure {
        match &self.last {
            Some(execution) if one && self.connection.answered => late(execution, "watch"),
            _ => self.connection.late(),
        }
    }
}

/// Each change is a line.
async fn list(
    mut changes: Changes,
    context: &Context,
    seen: &mut LatestChange,
    one: bool,
) -> Outcome {
    while let Some(change) = changes.next().await {
        let change = change?;
        if let Some(said) = seen.take(&change)? {
            print_message(&said);
        }
        match (context.output, &change) {
            (_, Change::Interrupted(_)) => {}
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

/// Draws an execution until it has finished. Returns the finished execution.
///
/// # Errors
/// The deadline expired, or the gateway does not answer.
pub(super) async fn live(context: &Context, name: &str) -> Result<Option<v1::Execution>, Failure> {
    let changes = context.client.watch(client::WatchRequest::of([name]));
    let mut seen = LatestChange::default();
    let drawn = draw(changes.into_stream(), context, &mut seen);
    let ended = within(context.timeout, drawn).await;
    ended.unwrap_or_else(|| Err(seen.late(true)))
}

/// Draws one execution until it has finished; none if the watch ended first. The last picture stays
/// on the screen, however the watch ends.
async fn draw(
    changes: Changes,
    context: &Context,
    seen: &mut LatestChange,
) -> Result<Option<v1::Execution>, Failure> {
    let children = ChildLoader::new(context.client.clone());
    let mut shown: Option<view::Execution> = None;
    let mut last = LastPicture::default();
    let ended = follow(changes, context, seen, &children, &mut shown, &mut last).await?;
    if let Some(view) = shown.filter(|_| ended.is_some()) {
        // The children may have ended with their parent.
        let outline = Outline::of(view, &children.settled().await);
        last.lines = picture(&outline, context.paint, None, Timestamp::now());
    }
    Ok(ended)
}

/// Draws until the execution has finished.
async fn follow(
    mut changes: Changes,
    context: &Context,
    seen: &mut LatestChange,
    children: &ChildLoader,
    shown: &mut Option<view::Execution>,
    last: &mut LastPicture,
) -> Result<Option<v1::Execution>, Failure> {
    let mut stop = Stop::new()?;
    let mut ticks = tokio::time::interval(TICK);
    // The terminal is taken when there is something to draw, so that errors before it are readable.
    let mut live: Option<Live> = None;
    loop {
        tokio::select! {
            () = stop.next() => return Err(interrupted()),
            wanted = changed(&mut live) => {
                if !wanted {
                    return Err(interrupted());
                }
            }
            _ = ticks.tick() => {}
            change = changes.next() => {
                let Some(change) = change.transpose()? else {
                    return Ok(None);
                };
                // The picture itself shows an outage.
                seen.take(&change)?;
                match change {
                    Change::Removed(execution) => return Err(gone(&execution)),
                    Change::Added(execution) | Change::Modified(execution) => {
                        children.load(shown.insert(view::Execution::from(&execution)));
                        if is_finished(execution.sub_state) {
                            return Ok(Some(execution));
                        }
                    }
                    Change::Bookmark { .. } | Change::Resync | Change::Interrupted(_) => {}
                }
            }
        }
        if let Some(view) = &shown {
            let outline = Outline::of(view.clone(), &children.loaded());
            let (lost, now) = (seen.connection.lost, Timestamp::now());
            last.lines = picture(&outline, context.paint, lost, now);
            let live = match &mut live {
                Some(live) => live,
                none => none.insert(Live::begin()?),
            };
            live.draw(&last.lines)?;
        }
    }
}

/// Resolves when a key or a new size asks for another picture: false when the person quits.
async fn changed(live: &mut Option<Live>) -> bool {
    match live {
        Some(live) => live.changed().await,
        None => std::future::pending().await,
    }
}

fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "the watch was interrupted")
        .hint("The execution continues without the watch.")
}

/// The picture that was drawn last: printed when the terminal has been restored, also when the deadline
/// ends the watch.
#[derive(Default)]
struct LastPicture {
    lines: Vec<String>,
}

impl Drop for LastPicture {
    fn drop(&mut self) {
        if !self.lines.is_empty() {
            // If standard output is closed, the picture is lost.
            let _ = print(&self.lines.join("\n"));
        }
    }
}

fn gone(execution: &v1::Execution) -> Failure {
    Failure::new(Exit::NotFound, format!("{} is gone", execution.name))
        .hint("Its engine no longer has a record of it.")
}

fn print_line(change: &Change, context: &Context) -> Result<(), Failure> {
    let (mark, execution) = match change {
        Change::Added(execution) | Change::Modified(execution) => ("", execution),
        Change::Removed(execution) => ("  (gone)", execution),
        Change::Bookmark { unreachable } => {
            for provider in unreachable {
                print_message(&format!("warning: {provider} does not answer"));
            }
            return Ok(());
        }
        Change::Resync => {
            print_message("changes were missed; the current executions follow");
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
        stamp(Timestamp::now()),
        short_name(&execution.name),
        context.paint.sub_state(execution.sub_state),
    ];
    parts.extend(execution.reason.as_ref().map(ToString::to_string));
    parts.push(now(execution, Clock::Kept));
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
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
