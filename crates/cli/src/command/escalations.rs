//! `stateway escalations`: steps that are stuck until a person decides.

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Call, v1};
use v1::resolution::Action;

use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::paging::{Paging, more};
use crate::screen::{Paint, Table, ago, moment, trouble};
use crate::{input, resource, view};

/// How many are read at once when one is looked for.
const MOST_ON_A_PAGE: i32 = 1_000;

/// Steps that are stuck until a person decides.
#[derive(Debug, Subcommand)]
pub enum Escalations {
    /// List the steps that a person has to decide about
    List(List),
    /// Show an escalation and what is needed to decide
    #[command(after_help = "\
Examples:
  stateway escalations get builtin/order-17/pay")]
    Get(Get),
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
    #[command(flatten)]
    paging: Paging,
}

/// Names an escalation.
#[derive(Debug, Args)]
pub struct Get {
    /// provider/execution/step, or the full name
    name: String,
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
#[derive(Debug, Default, Serialize)]
struct Listed {
    escalations: Vec<view::Escalation>,
    next_page_token: String,
}

impl Escalations {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match self {
            Self::List(list) => list.run(context).await?,
            Self::Get(get) => get.run(context).await?,
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
        let mut listed = Listed::default();
        let parent = resource::parent(self.provider.as_deref())?;
        let page = async |page_size, page_token| {
            let page = page(context, &parent, page_size, page_token).await?;
            let shown = page.escalations.iter().map(view::Escalation::from);
            listed.escalations.extend(shown);
            Ok(page.next_page_token)
        };
        listed.next_page_token = self.paging.read(page).await?;
        context.show(&listed, || {
            if listed.escalations.is_empty() {
                talk("nothing is escalated on this page");
            }
            more(&listed.next_page_token);
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
                    escalation.cause.to_string(),
                ]);
            }
            table.text()
        })
    }
}

async fn page(
    context: &Context,
    parent: &str,
    page_size: i32,
    page_token: String,
) -> Result<v1::ListEscalationsResponse, Failure> {
    let call = Call::from_message(v1::ListEscalationsRequest {
        parent: parent.to_owned(),
        page_size,
        page_token,
    });
    Ok(context.client.escalations_page(context.call(call)).await?)
}

impl Get {
    /// The API has only the list of what is open; the one that is wanted is in it or is not open.
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let name = resource::escalation(&self.name)?;
        let parent = name.split("/executions/").next().unwrap_or_default();
        let mut token = String::new();
        loop {
            let page = page(context, parent, MOST_ON_A_PAGE, token).await?;
            if let Some(found) = page.escalations.iter().find(|it| it.name == name) {
                let shown = view::Escalation::from(found);
                return context.show(&shown, || details(&shown, context.paint));
            }
            token = page.next_page_token;
            if token.is_empty() {
                let message = format!("{name} is not escalated");
                return Err(Failure::new(Exit::NotFound, message)
                    .hint("`stateway escalations list` shows what is."));
            }
        }
    }
}

/// What is needed to decide.
fn details(escalation: &view::Escalation, paint: Paint) -> String {
    let mut table = Table::new(&[], paint);
    let mut line = |what: &str, value: String| {
        if !value.is_empty() {
            table.row(vec![what.to_owned(), value]);
        }
    };
    line("name", escalation.name.to_string());
    line("cause", escalation.cause.to_string());
    let error = escalation.last_error.as_ref();
    line("last error", error.map(trouble).unwrap_or_default());
    let category = error.and_then(|error| error.category.clone());
    line("category", category.unwrap_or_default().to_string());
    line("attempts", escalation.attempts.to_string());
    let since = escalation.create_time.map(moment);
    line("since", since.unwrap_or_default());
    line("execution", escalation.execution.to_string());
    line("definition", escalation.definition.to_string());
    line("started by", escalation.initiator.to_string());
    line("etag", escalation.etag.to_string());
    table.text()
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
