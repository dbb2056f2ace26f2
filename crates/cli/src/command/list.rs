//! `stateway list`: executions of one provider or of all.

use clap::Args;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::paging::{self, Paging};
use crate::screen::{Clock, Paint, Table, ago, short_definition, short_name};
use crate::selection::Selection;
use crate::{screen, view};

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
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let (parent, filter) = self.selection.into_fields()?;
        let page = async |size, token| {
            let call = client::List::new(&parent).filter(&filter);
            let call = call.page_size(size).page_token(token);
            let page = context.client.list_page(context.call(call)).await?;
            let rows = page.executions.iter().map(view::Execution::from);
            Ok(paging::List::page(rows, page.next_page_token)
                .unreachable(page.unreachable)
                .examined(page.examined_count))
        };
        let list = self.paging.list(page).await?;
        context.show_list(&list, |rows| table(rows, context.paint))?;
        Ok(Exit::Ok)
    }
}

fn table(executions: &[view::Execution], paint: Paint) -> String {
    let now = jiff::Timestamp::now();
    let headings = ["NAME", "STATE", "REASON", "DEFINITION", "NOW", "AGE"];
    let mut table = Table::new(&headings, paint);
    for execution in executions {
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
