//! `stateway approvals watch`: the pending approvals as they come and go.

use clap::Args;
use futures::StreamExt;
use jiff::Timestamp;
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Change, v1};

use crate::arguments::Output;
use crate::command::connection::Connection;
use crate::command::watch::within;
use crate::context::{Context, print, print_message, to_json_line};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::stamp;
use crate::selection::Selection;
use crate::{resource, view};

/// Follows approvals.
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    selection: Selection,
}

/// One line of `-o json`.
#[derive(Debug, Serialize)]
struct Line {
    kind: &'static str,
    approval: Option<view::Approval>,
    unreachable: Vec<String>,
}

impl Watch {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let (parent, filter) = self.selection.into_fields()?;
        let request = client::WatchApprovals::new(parent).filter(filter);
        let mut connection = Connection::default();
        let followed = follow(context, request, &mut connection);
        let ended = within(context.timeout, followed).await;
        ended.unwrap_or_else(|| Err(connection.late()))
    }
}

/// Prints each change on its line.
async fn follow(
    context: &Context,
    request: client::WatchApprovals,
    connection: &mut Connection,
) -> Outcome {
    let mut changes = context.client.watch_approvals(request).into_stream();
    while let Some(change) = changes.next().await {
        let change = change?;
        if let Some(message) = connection.take(&change, Timestamp::now())? {
            print_message(&message);
        }
        match (context.output, &change) {
            (_, Change::Interrupted(_)) => {}
            (Output::Json, _) => print(&to_json_line(&Line::of(&change))?)?,
            (Output::Table, _) => print_line(&change)?,
        }
    }
    Ok(Exit::Ok)
}

fn print_line(change: &Change<v1::Approval>) -> Result<(), Failure> {
    match change {
        Change::Added(approval) | Change::Modified(approval) => {
            print(&line(&view::Approval::from(approval), false))
        }
        Change::Removed(approval) => print(&line(&view::Approval::from(approval), true)),
        Change::Bookmark { unreachable } => {
            for provider in unreachable {
                print_message(&format!("warning: {provider} does not answer"));
            }
            Ok(())
        }
        Change::Resync => {
            print_message("changes were missed; the pending approvals follow");
            Ok(())
        }
        Change::Interrupted(_) => Ok(()),
    }
}

/// An approval that ended shows the decision and who made it. An approval that disappeared without
/// a decision is marked.
fn line(approval: &view::Approval, removed: bool) -> String {
    let mut parts = vec![
        stamp(Timestamp::now()),
        resource::short_of_part(approval.name.raw()),
        approval.state.clone(),
        approval.role.to_string(),
        approval.definition.to_string(),
    ];
    match &approval.decision {
        Some(decision) => parts.push(format!("by {}", decision.decided_by)),
        None if removed && approval.state == "pending" => parts.push("(gone)".to_owned()),
        None => {}
    }
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
}

impl Line {
    fn of(change: &Change<v1::Approval>) -> Self {
        let (kind, approval, unreachable) = match change {
            Change::Added(approval) => ("ADDED", Some(approval), &[][..]),
            Change::Modified(approval) => ("MODIFIED", Some(approval), &[][..]),
            Change::Removed(approval) => ("REMOVED", Some(approval), &[][..]),
            Change::Bookmark { unreachable } => ("BOOKMARK", None, &unreachable[..]),
            Change::Resync => ("RESYNC", None, &[][..]),
            Change::Interrupted(_) => ("INTERRUPTED", None, &[][..]),
        };
        Self {
            kind,
            approval: approval.map(view::Approval::from),
            unreachable: unreachable.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(state: v1::approval::State, decided_by: &str, removed: bool) -> String {
        let decision = v1::Decision {
            decided_by: decided_by.to_owned(),
            ..v1::Decision::default()
        };
        let approval = v1::Approval {
            name: "providers/b/executions/r1/approvals/sign-off~1".to_owned(),
            state: state.into(),
            role: "ops".to_owned(),
            definition: "definitions/release".to_owned(),
            decision: (!decided_by.is_empty()).then_some(decision),
            ..v1::Approval::default()
        };
        let line = line(&view::Approval::from(&approval), removed);
        let (_, rest) = line.split_once("  ").expect("a time, then the rest");
        rest.to_owned()
    }

    #[test]
    fn a_line_says_how_an_approval_ended() {
        use v1::approval::State;
        assert_eq!(
            shown(State::Pending, "", false),
            "b/r1/sign-off~1  pending  ops  definitions/release"
        );
        assert_eq!(
            shown(State::Granted, "eve", true),
            "b/r1/sign-off~1  granted  ops  definitions/release  by eve"
        );
        assert_eq!(
            shown(State::Expired, "", true),
            "b/r1/sign-off~1  expired  ops  definitions/release"
        );
        assert_eq!(
            shown(State::Pending, "", true),
            "b/r1/sign-off~1  pending  ops  definitions/release  (gone)"
        );
    }
}
