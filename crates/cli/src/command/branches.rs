//! `stateway branches`: the branches of an execution's log.

use clap::Args;
use serde::Serialize;
use stateway_client::{Call, v1};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::paging::{Paging, more};
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

/// What `-o json` prints.
#[derive(Debug, Default, Serialize)]
struct Listed {
    branches: Vec<view::Branch>,
    next_page_token: String,
}

impl Branches {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let listed = self.read(context).await?;
        context.show(&listed, || {
            more(&listed.next_page_token);
            table(&listed, context.paint)
        })?;
        Ok(Exit::Ok)
    }

    async fn read(self, context: &Context) -> Result<Listed, Failure> {
        let mut listed = Listed::default();
        let parent = resource::execution(&self.name)?;
        let page = async |page_size, page_token| {
            let call = Call::from_message(v1::ListBranchesRequest {
                parent: parent.clone(),
                page_size,
                page_token,
            });
            let page = context.client.branches_page(context.call(call)).await?;
            let shown = page.branches.iter().map(view::Branch::from);
            listed.branches.extend(shown);
            Ok(page.next_page_token)
        };
        listed.next_page_token = self.paging.read(page).await?;
        Ok(listed)
    }
}

fn table(listed: &Listed, paint: Paint) -> String {
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
    for branch in &listed.branches {
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
