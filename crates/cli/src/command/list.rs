//! `stateway list`: executions of one provider or of all.

use clap::Args;
use serde::Serialize;
use stateway_client as client;

use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::paging::{Paging, more, warn_unreachable};
use crate::screen::{Clock, Table, ago, short_definition, short_name};
use crate::{resource, screen, view};

/// Lists executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway list
  stateway list --provider builtin --filter 'sub_state = BACKING_OFF AND retry.attempt >= 3'
  stateway list --filter 'labels.team = \"shop\"' --all -o json

Fields of a filter: sub_state, name, definition (such as order-saga, or payments/refund of an engine), \
reason, retry.attempt, retry.next_attempt_time, start_time, labels.<key> and more; with AND, OR, \
NOT and comparisons. OR binds tighter than AND. See docs/filters.md for all fields.")]
pub struct List {
    /// Only executions of this provider (default: all providers)
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Only executions that match this filter (AIP-160)
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// What `-o json` prints.
#[derive(Debug, Default, Serialize)]
struct Listed {
    executions: Vec<view::Execution>,
    next_page_token: String,
    unreachable: Vec<String>,
}

impl List {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut listed = self.read(context).await?;
        warn_unreachable(&mut listed.unreachable, "executions");
        context.show(&listed, || {
            if listed.executions.is_empty() {
                print_message("no executions on this page");
            }
            more(&listed.next_page_token);
            table(&listed, context)
        })?;
        Ok(Exit::Ok)
    }

    async fn read(self, context: &Context) -> Result<Listed, Failure> {
        let mut listed = Listed::default();
        let parent = resource::parent(self.provider.as_deref())?;
        let filter = self.filter.as_deref().unwrap_or_default();
        let page = async |size, token| {
            let call = client::List::new(&parent).filter(filter);
            let call = call.page_size(size).page_token(token);
            let page = context.client.list_page(context.call(call)).await?;
            let shown = page.executions.iter().map(view::Execution::from);
            listed.executions.extend(shown);
            listed.unreachable.extend(page.unreachable);
            Ok(page.next_page_token)
        };
        listed.next_page_token = self.paging.read(page).await?;
        Ok(listed)
    }
}

fn table(listed: &Listed, context: &Context) -> String {
    let now = jiff::Timestamp::now();
    let headings = ["NAME", "STATE", "REASON", "DEFINITION", "NOW", "AGE"];
    let mut table = Table::new(&headings, context.paint);
    for execution in &listed.executions {
        let begun = execution.start_time.or(execution.create_time);
        table.row(vec![
            short_name(&execution.name),
            execution.sub_state.into(),
            execution.reason.unwrap_or_default().to_owned(),
            short_definition(&execution.definition),
            screen::now(execution, Clock::Live(now)),
            begun.map(|time| ago(time, now)).unwrap_or_default(),
        ]);
    }
    table.text()
}
