//! `stateway escalations`: escalated steps, which wait for a person's decision.

use clap::{Args, Subcommand};
use stateway_client as client;
use stateway_client::{Call, quoted, v1};
use v1::resolution::Action;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::paging::{self, Paging};
use crate::screen::{Paint, Table, ago, branch_number, cost, stamp, trouble};
use crate::selection::Selection;
use crate::write::{Comment, Compensation, WriteOptions};
use crate::{input, resource, view};

/// Escalated steps, which wait for a person's decision.
#[derive(Debug, Subcommand)]
pub enum Escalations {
    /// List pending escalations
    #[command(after_help = "\
Examples:
  stateway escalations list
  stateway escalations list --filter 'roles:operator'
  stateway escalations list --filter 'state = RESOLVED'
  stateway escalations list --filter 'execution = builtin/order-17' -o json

Fields of a filter: state, roles, step, definition, execution (docs/filters.md). Resolved \
escalations are listed with `state = RESOLVED`, or a filter on `execution`.")]
    List(List),
    /// Show an escalation, with every attempt of its step
    #[command(after_help = "\
Examples:
  stateway escalations get builtin/order-17/pay~3
  stateway escalations get builtin/order-17/pay")]
    Get(Get),
    /// Run the step again unchanged
    #[command(after_help = "\
Examples:
  stateway escalations resume builtin/order-17/pay~3 --as eve --role operator \\
    --comment 'the limit was raised'")]
    Resume(Decide),
    /// Run the step again with another role
    #[command(after_help = "\
Examples:
  stateway escalations reassign builtin/order-17/pay~3 --to treasury --as eve --role operator")]
    Reassign(Reassign),
    /// Cancel the execution
    #[command(after_help = "\
Examples:
  stateway escalations cancel builtin/order-17/pay~3 --as eve --role operator --comment 'not worth it'
  stateway escalations cancel builtin/order-17/pay~3 --as eve --role operator --no-compensate")]
    Cancel(Cancel),
}

/// Lists escalations.
#[derive(Debug, Args)]
#[command(mut_arg("filter", |it| it.help("Only escalations that match this filter (default: pending escalations)")))]
pub struct List {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    paging: Paging,
}

/// Names an escalation.
#[derive(Debug, Args)]
pub struct Get {
    /// provider/execution/step~attempt (the attempt may be left out while the escalation is pending), or
    /// the full name
    name: String,
}

/// Decides about an escalation.
#[derive(Debug, Args)]
pub struct Decide {
    /// provider/execution/step~attempt (the attempt may be left out while the escalation is pending), or
    /// the full name
    name: String,
    #[command(flatten)]
    comment: Comment,
    #[command(flatten)]
    write: WriteOptions,
}

/// Gives a step to another role.
#[derive(Debug, Args)]
pub struct Reassign {
    #[command(flatten)]
    decide: Decide,
    /// The role to run the step with; if the approval of a policy rule expired, the role to ask for it
    #[arg(long, value_name = "ROLE", value_parser = input::non_empty)]
    to: String,
}

/// Cancels the execution of an escalated step.
#[derive(Debug, Args)]
pub struct Cancel {
    #[command(flatten)]
    decide: Decide,
    #[command(flatten)]
    compensation: Compensation,
}

impl Escalations {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List(list) => list.run(context).await?,
            Self::Get(get) => get.run(context).await?,
            Self::Resume(decide) => {
                let request = decide.request(context, Action::Resume).await?;
                send(context, request).await?;
            }
            Self::Cancel(cancel) => {
                let compensation = match cancel.compensation.choice() {
                    Some(true) => v1::Compensation::Compensate,
                    Some(false) => v1::Compensation::Skip,
                    None => v1::Compensation::Unspecified,
                };
                let request = cancel.decide.request(context, Action::Cancel).await?;
                let request = v1::ResolveEscalationRequest {
                    compensation: compensation.into(),
                    ..request
                };
                send(context, request).await?;
            }
            Self::Reassign(Reassign { decide, to: role }) => {
                let request = decide.request(context, Action::Reassign).await?;
                send(context, v1::ResolveEscalationRequest { role, ..request }).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

impl List {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let (parent, filter) = self.selection.into_fields()?;
        let page = async |page_size, page_token| {
            let call = Call::from_message(v1::ListEscalationsRequest {
                parent: parent.clone(),
                page_size,
                page_token,
                filter: filter.clone(),
            });
            let page = context.client.escalations_page(context.call(call)).await?;
            let rows = page.escalations.iter().map(view::Escalation::from);
            Ok(paging::List::page(rows, page.next_page_token).unreachable(page.unreachable))
        };
        let list = self.paging.list(page).await?;
        context.show_list(&list, |rows| table(rows, context.paint))
    }
}

fn table(escalations: &[view::Escalation], paint: Paint) -> String {
    let now = jiff::Timestamp::now();
    let headings = ["NAME", "STATE", "ROLES", "DEFINITION", "AGE", "CAUSE"];
    let mut table = Table::new(&headings, paint);
    for escalation in escalations {
        let age = escalation.create_time.map(|time| ago(time, now));
        table.row(vec![
            resource::short_of_part(escalation.name.raw()),
            state(escalation),
            roles(escalation),
            escalation.definition.to_string(),
            age.unwrap_or_default(),
            escalation.cause.to_string(),
        ]);
    }
    table.text()
}

/// `pending`, or the decision and the person who made it.
fn state(escalation: &view::Escalation) -> String {
    let (Some(action), Some(decision)) = (&escalation.resolution, &escalation.decision) else {
        return escalation.state.clone();
    };
    format!("{}: {action} by {}", escalation.state, decision.decided_by)
}

fn roles(escalation: &view::Escalation) -> String {
    let roles: Vec<_> = escalation.roles.iter().map(ToString::to_string).collect();
    roles.join(", ")
}

/// The full name of an escalation. A step without an attempt names its pending escalation.
async fn named(context: &Context, text: &str) -> Result<String, Failure> {
    let name = resource::escalation(text)?;
    let Some((execution, step)) = name.rsplit_once("/escalations/") else {
        return Ok(name);
    };
    if step.contains('~') {
        return Ok(name);
    }
    let parent = execution.split("/executions/").next().unwrap_or_default();
    let call = Call::from_message(v1::ListEscalationsRequest {
        parent: parent.to_owned(),
        filter: format!(
            "state = PENDING AND step = {} AND execution = {}",
            quoted(step),
            quoted(execution)
        ),
        ..v1::ListEscalationsRequest::default()
    });
    let page = context.client.escalations_page(context.call(call)).await?;
    match page.escalations.as_slice() {
        [one] => Ok(one.name.clone()),
        pending => {
            let problem = if pending.is_empty() {
                format!("no escalation of {text} is pending")
            } else {
                format!("{} escalations of {text} are pending", pending.len())
            };
            Err(Failure::new(Exit::NotFound, problem).hint(
                "`stateway escalations list` shows the pending escalations with their names.",
            ))
        }
    }
}

impl Get {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let call = client::GetEscalation::new(named(context, &self.name).await?);
        let found = context.client.escalation(context.call(call)).await?;
        show(context, &found)
    }
}

fn show(context: &Context, wire: &v1::Escalation) -> Result<(), Failure> {
    let escalation = view::Escalation::from(wire);
    context.show(&escalation, || details(&escalation, context.paint))
}

/// All information for the decision, and the decision if there is one.
fn details(escalation: &view::Escalation, paint: Paint) -> String {
    let mut table = Table::new(&[], paint);
    let time = |time: Option<jiff::Timestamp>| time.map(stamp).unwrap_or_default();
    table.line("name", escalation.name.to_string());
    table.line("state", escalation.state.clone());
    table.line("cause", escalation.cause.to_string());
    table.line("reason", escalation.reason.to_owned());
    let error = escalation.last_error.as_ref();
    table.line("last error", error.map(trouble).unwrap_or_default());
    let category = error.and_then(|error| error.category);
    table.line("category", category.unwrap_or_default().to_owned());
    table.line("policy rule", escalation.policy_rule.to_string());
    table.line("roles", roles(escalation));
    table.line("since", time(escalation.create_time));
    table.line("execution", escalation.execution.to_string());
    table.line("definition", escalation.definition.to_string());
    table.line("started by", escalation.initiator.to_string());
    for attempt in &escalation.attempts {
        table.line(&heading(attempt), attempt_details(attempt));
    }
    table.line(
        "resolution",
        escalation.resolution.clone().unwrap_or_default(),
    );
    let role = escalation.reassigned_to.as_ref();
    table.line(
        "reassigned to",
        role.map(ToString::to_string).unwrap_or_default(),
    );
    if let Some(decision) = &escalation.decision {
        table.line("decided by", decision.decided_by.to_string());
        table.line("at", time(decision.decide_time));
        table.line("because", decision.comment.to_string());
    }
    table.line("etag", escalation.etag.to_string());
    table.text()
}

fn heading(attempt: &view::StepAttempt) -> String {
    match branch_number(&attempt.branch).as_str() {
        "0" => format!("attempt {}", attempt.attempt),
        number => format!("attempt {} on branch {number}", attempt.attempt),
    }
}

/// When, by which worker, with which result and at which cost.
fn attempt_details(attempt: &view::StepAttempt) -> String {
    let mut parts = vec![attempt.start_time.map(stamp).unwrap_or_default()];
    let worker = attempt.worker.as_ref();
    parts.extend(worker.map(|worker| format!("worker {worker}")));
    if let (Some(rule), Some(decision)) = (&attempt.policy_rule, &attempt.policy_decision) {
        parts.push(format!("policy rule {rule}: {decision}"));
    }
    let error = attempt.error.as_ref();
    parts.extend(error.map(|error| error.message.to_string()));
    parts.extend(attempt.usage.map(cost));
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

impl Decide {
    async fn request(
        self,
        context: &Context,
        action: Action,
    ) -> Result<v1::ResolveEscalationRequest, Failure> {
        let (request_id, etag) = self.write.into_fields();
        Ok(v1::ResolveEscalationRequest {
            name: named(context, &self.name).await?,
            action: action.into(),
            comment: self.comment.into(),
            request_id,
            etag,
            ..v1::ResolveEscalationRequest::default()
        })
    }
}

async fn send(context: &Context, request: v1::ResolveEscalationRequest) -> Result<(), Failure> {
    let call = client::ResolveEscalation::from_message(request);
    let call = context.call(call);
    show(context, &context.client.resolve_escalation(call).await?)
}
