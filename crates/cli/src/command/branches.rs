//! `stateway branches`: the branches of an execution's log.

use clap::Args;
use stateway_client::{Call, v1};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::paging::{self, Paging};
use crate::screen::{Paint, Table, branch_number, cost, stamp};
use crate::{resource, view};

/// Lists branches.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway branches builtin/r-17
  stateway history builtin/r-17 --branch 0")]
pub struct Branches {
    /// provider/id, or the full name
    name: String,
    #[command(flatten)]
    paging: Paging,
}

impl Branches {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let parent = resource::execution(&self.name)?;
        let page = async |page_size, page_token| {
            let call = Call::from_message(v1::ListBranchesRequest {
                parent: parent.clone(),
                page_size,
                page_token,
            });
            let page = context.client.branches_page(context.call(call)).await?;
            let rows = page.branches.iter().map(view::Branch::from);
            Ok(paging::List::page(rows, page.next_page_token))
        };
        let list = self.paging.list(page).await?;
        context.show_list(&list, |rows| table(rows, context.paint))?;
        Ok(Exit::Ok)
    }
}

fn table(branches: &[view::Branch], paint: Paint) -> String {
    let headings = [
        "BRANCH",
        "FROM",
        "AFTER EVENT",
        "OPENED",
        "BY",
        "WHY",
        "USAGE",
    ];
    let mut table = Table::new(&headings, paint);
    for branch in branches {
        let number = branch_number(&branch.name);
        let number = if branch.current {
            format!("{number} (current)")
        } else {
            number
        };
        let grown = !branch.parent_branch.is_empty();
        table.row(vec![
            number,
            branch_number(&branch.parent_branch),
            if grown {
                branch.cutoff_sequence.to_string()
            } else {
                String::new()
            },
            branch.create_time.map(stamp).unwrap_or_default(),
            branch.created_by.to_string(),
            branch.cause.to_string(),
            branch.usage.map(cost).unwrap_or_default(),
        ]);
    }
    table.text()
}
