//! `stateway escalations`: steps that are stuck until a person decides.

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Call, v1};
use v1::resolution::Action;

use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{Table, ago};
use crate::{input, resource, view};

/// Steps that are stuck until a person decides.
#[derive(Debug, Subcommand)]
pub enum Escalations {
    /// List the steps that a person has to decide about
    List(List),
    /// Try the step again as it is
    #[command(after_help = "\
Examples:
  stateway escalations resume builtin/order-17/pay --comment 'the limit was raised'")]
    Resume(Decide),
    /// Try the step again with another role
    #[command(after_help = "\
Examples:
  stateway escalations reassign builtin/order-17/pay --to treasury")]
    Reassign(Reassign),
    /// End the execution
    #[command(after_help = "\
Examples:
  stateway escalations cancel builtin/order-17/pay --comment 'not worth it'")]
    Cancel(Decide),
}

/// Lists escalations.
#[derive(Debug, Args)]
pub struct List {
    /// Only this provider's; all providers' otherwise
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// At most this many on a page
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    page_size: i32,
    /// The page after the one that gave this token
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    page_token: Option<String>,
}

/// Decides about an escalation.
#[derive(Debug, Args)]
pub struct Decide {
    /// provider/execution/step, or the full name
    name: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Happens once, however often it is asked under this id
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the escalation still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

/// Gives a step to another role.
#[derive(Debug, Args)]
pub struct Reassign {
    #[command(flatten)]
    decide: Decide,
    /// The role to try it with
    #[arg(long, value_name = "ROLE", value_parser = input::given)]
    to: String,
}

/// What `list -o json` prints.
#[derive(Debug, Serialize)]
struct Listed {
    escalations: Vec<view::Escalation>,
    next_page_token: String,
}

impl Escalations {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List(list) => list.run(context).await?,
            Self::Resume(decide) => decide.run(context, Action::Resume, String::new()).await?,
            Self::Cancel(decide) => decide.run(context, Action::Cancel, String::new()).await?,
            Self::Reassign(Reassign { decide, to }) => {
                decide.run(context, Action::Reassign, to).await?;
            }
        }
        Ok(Exit::Ok)
    }
}

impl List {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let call = Call::from_message(v1::ListEscalationsRequest {
            parent: resource::parent(self.provider.as_deref())?,
            page_size: self.page_size,
            page_token: self.page_token.unwrap_or_default(),
        });
        let page = context.client.escalations_page(context.call(call)).await?;
        let listed = Listed {
            escalations: page
                .escalations
                .iter()
                .map(view::Escalation::from)
                .collect(),
            next_page_token: page.next_page_token,
        };
        context.show(&listed, || {
            if listed.escalations.is_empty() {
                talk("nothing is escalated on this page");
            }
            if !listed.next_page_token.is_empty() {
                let token = &listed.next_page_token;
                talk(&format!("there is more: --page-token {token}"));
            }
            let now = jiff::Timestamp::now();
            let headings = ["NAME", "DEFINITION", "ATTEMPTS", "AGE", "CAUSE"];
            let mut table = Table::new(&headings, context.paint);
            for escalation in &listed.escalations {
                let age = escalation.create_time.map(|time| ago(time, now));
                table.row(vec![
                    resource::short_of_part(escalation.name.raw()),
                    escalation.definition.to_string(),
                    escalation.attempts.to_string(),
                    age.unwrap_or_default(),
                    escalation.cause.first_line().to_string(),
                ]);
            }
            table.text()
        })
    }
}

impl Decide {
    async fn run(self, context: &Context, action: Action, role: String) -> Result<(), Failure> {
        let call = client::ResolveEscalation::from_message(v1::ResolveEscalationRequest {
            name: resource::escalation(&self.name)?,
            action: action.into(),
            role,
            comment: self.comment.unwrap_or_default(),
            request_id: self.request_id.unwrap_or_default(),
            etag: self.etag.unwrap_or_default(),
        });
        let resolved = context
            .client
            .resolve_escalation(context.call(call))
            .await?;
        let shown = view::Escalation::from(&resolved);
        context.show(&shown, || {
            let mut table = Table::new(&[], context.paint);
            table.row(vec!["name".into(), shown.name.to_string()]);
            let resolution = shown.resolution.clone().unwrap_or_default();
            table.row(vec!["decided".into(), resolution]);
            if let Some(decision) = &shown.decision {
                table.row(vec!["by".into(), decision.decided_by.to_string()]);
                table.row(vec!["because".into(), decision.comment.to_string()]);
            }
            table.text()
        })
    }
}
