//! `stateway approvals`: requests for a person's approval.

mod watch;

use clap::{Args, Subcommand};
use stateway_client as client;
use stateway_client::v1::decide_approval_request::Choice;
use stateway_client::{Call, quoted, v1};

use self::watch::Watch;
use crate::arguments::Output;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::paging::{self, Paging};
use crate::screen::{Paint, Table, ago, stamp, until};
use crate::selection::Selection;
use crate::write::{Comment, WriteOptions};
use crate::{resource, view};

/// The maximum number of earlier requests of a step that are shown.
const MOST_EARLIER: i32 = 100;

/// Requests for a person's approval.
#[derive(Debug, Subcommand)]
pub enum Approvals {
    /// List pending approvals
    #[command(after_help = "\
Examples:
  stateway approvals list
  stateway approvals list --filter 'role = \"ops\"'
  stateway approvals list --filter 'state = GRANTED OR state = REJECTED'
  stateway approvals list --filter 'execution = builtin/r-17' -o json

Fields of a filter: state, role, step, definition, execution (docs/filters.md). Decided \
approvals are listed with `state = GRANTED OR state = REJECTED`, or a filter on `execution`.")]
    List(List),
    /// Follow pending approvals, each change on a line
    #[command(after_help = "\
Examples:
  stateway approvals watch
  stateway approvals watch --filter 'role = \"ops\"'
  stateway approvals watch -o json | jq -r 'select(.kind == \"ADDED\") | .approval.name'

The pending approvals come first, then every change. An approval that was decided, has expired or was \
withdrawn is shown a last time, in its final state. After a lost connection the pending approvals are \
shown again. Fields of a filter: role, step, definition, execution (docs/filters.md).")]
    Watch(Watch),
    /// Show an approval with all information for the decision
    Get(Get),
    /// Grant an approval, in your own name (--as) and role (--role)
    #[command(after_help = "\
Examples:
  stateway approvals grant builtin/r-17/sign-off~1 --as eve --role ops --comment 'looks good'")]
    Grant(Decide),
    /// Reject an approval, in your own name (--as) and role (--role)
    // The name of older versions.
    #[command(
        alias = "deny",
        after_help = "\
Examples:
  stateway approvals reject builtin/r-17/sign-off~1 --as eve --role ops --comment 'too early'"
    )]
    Reject(Decide),
}

/// Lists approvals.
#[derive(Debug, Args)]
#[command(mut_arg("filter", |it| it.help("Only approvals that match this filter (default: pending approvals)")))]
pub struct List {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    paging: Paging,
}

/// Names an approval.
#[derive(Debug, Args)]
pub struct Get {
    /// provider/execution/step~attempt, followed by ~b{branch} on a later branch, or the full name
    name: String,
}

/// Decides about an approval.
#[derive(Debug, Args)]
pub struct Decide {
    /// provider/execution/step~attempt, followed by ~b{branch} on a later branch, or the full name
    name: String,
    #[command(flatten)]
    comment: Comment,
    #[command(flatten)]
    write: WriteOptions,
}

impl Approvals {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List(list) => list.run(context).await?,
            Self::Watch(watch) => return watch.run(context).await,
            Self::Get(get) => {
                let call = client::GetApproval::new(resource::approval(&get.name)?);
                let found = context.client.approval(context.call(call)).await?;
                let earlier = match context.output {
                    Output::Json => Vec::new(),
                    Output::Table => earlier(context, &found).await?,
                };
                show(context, &found, &earlier)?;
            }
            Self::Grant(decide) => decide.run(context, true).await?,
            Self::Reject(decide) => decide.run(context, false).await?,
        }
        Ok(Exit::Ok)
    }
}

impl Decide {
    async fn run(self, context: &Context, grant: bool) -> Result<(), Failure> {
        let call = client::DecideApproval::from_message(v1::DecideApprovalRequest {
            name: resource::approval(&self.name)?,
            decision: if grant { Choice::Grant } else { Choice::Reject }.into(),
            comment: self.comment.into(),
            ..v1::DecideApprovalRequest::default()
        });
        let call = context.call(self.write.apply(call));
        let decided = context.client.decide_approval(call).await?;
        show(context, &decided, &[])
    }
}

impl List {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let (parent, filter) = self.selection.into_fields()?;
        let page = async |page_size, page_token| {
            let call = Call::from_message(v1::ListApprovalsRequest {
                parent: parent.clone(),
                page_size,
                page_token,
                filter: filter.clone(),
            });
            let page = context.client.approvals_page(context.call(call)).await?;
            let rows = page.approvals.iter().map(view::Approval::from);
            Ok(paging::List::page(rows, page.next_page_token).unreachable(page.unreachable))
        };
        let list = self.paging.list(page).await?;
        context.show_list(&list, |rows| table(rows, context.paint))
    }
}

fn table(approvals: &[view::Approval], paint: Paint) -> String {
    let now = jiff::Timestamp::now();
    let headings = [
        "NAME",
        "STATE",
        "ROLE",
        "DEFINITION",
        "STARTED BY",
        "AGE",
        "EXPIRES",
    ];
    let mut table = Table::new(&headings, paint);
    for approval in approvals {
        let age = approval.create_time.map(|time| ago(time, now));
        let pending = approval.state == "pending";
        let expires = approval.expire_time.filter(|_| pending);
        let expires = expires.map(|time| until(time, now));
        table.row(vec![
            resource::short_of_part(approval.name.raw()),
            approval.state.clone(),
            approval.role.to_string(),
            approval.definition.to_string(),
            approval.initiator.to_string(),
            age.unwrap_or_default(),
            expires.unwrap_or_default(),
        ]);
    }
    table.text()
}

/// The requests of the same step before this one.
async fn earlier(
    context: &Context,
    approval: &v1::Approval,
) -> Result<Vec<view::Approval>, Failure> {
    let (execution, step) = (quoted(&approval.execution), quoted(&approval.step));
    let call = Call::from_message(v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        page_size: MOST_EARLIER,
        filter: format!("execution = {execution} AND step = {step}"),
        ..v1::ListApprovalsRequest::default()
    });
    let page = context.client.approvals_page(context.call(call)).await?;
    let since = view::Approval::from(approval).create_time;
    // The list has the newest request of a step first.
    let oldest_first = page.approvals.iter().rev().map(view::Approval::from);
    let earlier = oldest_first.filter(|other| other.create_time < since);
    Ok(earlier.collect())
}

fn show(context: &Context, wire: &v1::Approval, earlier: &[view::Approval]) -> Result<(), Failure> {
    let approval = view::Approval::from(wire);
    context.show(&approval, || details(&approval, earlier, context.paint))
}

fn details(approval: &view::Approval, earlier: &[view::Approval], paint: Paint) -> String {
    let mut table = Table::new(&[], paint);
    table.line("name", approval.name.to_string());
    table.line("state", approval.state.clone());
    table.line("asks", approval.summary.to_string());
    table.line("role", approval.role.to_string());
    table.line("policy rule", approval.policy_rule.to_string());
    table.line("execution", approval.execution.to_string());
    table.line("definition", approval.definition.to_string());
    table.line("started by", approval.initiator.to_string());
    let time = |time: Option<jiff::Timestamp>| time.map(stamp).unwrap_or_default();
    table.line("since", time(approval.create_time));
    table.line("expires", time(approval.expire_time));
    let input = approval.input.as_ref().map(ToString::to_string);
    table.line(
        "input",
        stateway_phrases::visible(&input.unwrap_or_default()).into_owned(),
    );
    if let Some(decision) = &approval.decision {
        table.line("decided by", decision.decided_by.to_string());
        table.line("at", time(decision.decide_time));
        table.line("because", decision.comment.to_string());
    }
    for past in earlier {
        let by = past
            .decision
            .as_ref()
            .map(|made| made.decided_by.to_string());
        let name = resource::short_of_part(past.name.raw());
        let ended = match by {
            Some(by) => format!("{name}: {} by {by}", past.state),
            None => format!("{name}: {}", past.state),
        };
        table.line("earlier request", ended);
    }
    table.line("etag", approval.etag.to_string());
    table.text()
}
