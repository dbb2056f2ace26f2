//! `stateway approvals`: requests for a person's approval.

mod watch;

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_client as client;
use stateway_client::v1::decide_approval_request::Choice;
use stateway_client::{Call, quoted, v1};

use self::watch::Watch;
use crate::arguments::Output;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::paging::{Paging, more, warn_unreachable};
use crate::screen::{Paint, Table, ago, stamp, until};
use crate::write::WriteOptions;
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
pub struct List {
    /// Only approvals of this provider (default: all providers)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Only approvals that match this filter (default: pending approvals)
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
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
    /// Reason, recorded with the action
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    write: WriteOptions,
}

/// What `list -o json` prints.
#[derive(Debug, Default, Serialize)]
struct Listed {
    approvals: Vec<view::Approval>,
    next_page_token: String,
    unreachable: Vec<String>,
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
            comment: self.comment.unwrap_or_default(),
            ..v1::DecideApprovalRequest::default()
        });
        let call = context.call(self.write.apply(call));
        let decided = context.client.decide_approval(call).await?;
        show(context, &decided, &[])
    }
}

impl List {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut listed = Listed::default();
        let parent = resource::parent(self.provider.as_deref())?;
        let filter = self.filter.unwrap_or_default();
        let page = async |page_size, page_token| {
            let call = Call::from_message(v1::ListApprovalsRequest {
                parent: parent.clone(),
                page_size,
                page_token,
                filter: filter.clone(),
            });
            let page = context.client.approvals_page(context.call(call)).await?;
            let shown = page.approvals.iter().map(view::Approval::from);
            listed.approvals.extend(shown);
            listed.unreachable.extend(page.unreachable);
            Ok(page.next_page_token)
        };
        listed.next_page_token = self.paging.read(page).await?;
        warn_unreachable(&mut listed.unreachable, "approvals");
        context.show(&listed, || {
            if listed.approvals.is_empty() {
                print_message("no approval on this page");
            }
            more(&listed.next_page_token);
            table(&listed, context.paint)
        })
    }
}

fn table(listed: &Listed, paint: Paint) -> String {
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
    for approval in &listed.approvals {
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
    let mut line = |what: &str, value: String| {
        if !value.is_empty() {
            table.row(vec![what.to_owned(), value]);
        }
    };
    line("name", approval.name.to_string());
    line("state", approval.state.clone());
    line("asks", approval.summary.to_string());
    line("role", approval.role.to_string());
    line("policy rule", approval.policy_rule.to_string());
    line("execution", approval.execution.to_string());
    line("definition", approval.definition.to_string());
    line("started by", approval.initiator.to_string());
    let time = |time: Option<jiff::Timestamp>| time.map(stamp).unwrap_or_default();
    line("since", time(approval.create_time));
    line("expires", time(approval.expire_time));
    let input = approval.input.as_ref().map(ToString::to_string);
    line(
        "input",
        stateway_phrases::visible(&input.unwrap_or_default()).into_owned(),
    );
    if let Some(decision) = &approval.decision {
        line("decided by", decision.decided_by.to_string());
        line("at", time(decision.decide_time));
        line("because", decision.comment.to_string());
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
        line("earlier request", ended);
    }
    line("etag", approval.etag.to_string());
    table.text()
}
