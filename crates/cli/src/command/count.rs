//! `stateway count`: how many executions show each sub-state.

use clap::Args;
use serde::Serialize;
use stateway_client as client;
use stateway_client::word_of;

use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::screen::Table;
use crate::selection::Scope;

/// Counts executions by sub-state.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway count
  stateway count --provider builtin -o json")]
pub struct Count {
    #[command(flatten)]
    scope: Scope,
}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct Counted {
    counts: Vec<Line>,
    uncounted: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Line {
    sub_state: &'static str,
    execution_count: i64,
    at_least: bool,
}

impl Count {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let parent = self.scope.parent()?;
        let call = client::Count::new(&parent);
        let answer = context.client.count(context.call(call)).await?;
        let counts = answer.counts.iter().map(|count| Line {
            sub_state: word_of(count.sub_state),
            execution_count: count.execution_count,
            at_least: count.at_least,
        });
        let counted = Counted {
            counts: counts.collect(),
            uncounted: answer.uncounted,
        };
        for provider in &counted.uncounted {
            print_message(&format!("warning: {provider} is not counted"));
        }
        context.show(&counted, || table(&counted, context))?;
        Ok(Exit::Ok)
    }
}

fn table(counted: &Counted, context: &Context) -> String {
    let mut table = Table::new(&["STATE", "COUNT"], context.paint);
    for line in &counted.counts {
        let more = if line.at_least { "+" } else { "" };
        table.row(vec![
            line.sub_state.into(),
            format!("{}{more}", line.execution_count),
        ]);
    }
    table.text()
}
