//! `stateway definitions delete`.

use clap::Args;
use serde::Serialize;
use stateway_client as client;
use stateway_phrases::visible;

use super::full_name;
use crate::confirm::confirm;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::write::RequestId;

/// Deletes a definition.
#[derive(Debug, Args)]
pub struct Delete {
    /// The definition, in full or without `definitions/`
    name: String,
    /// Delete even if executions are open; they finish under their revision
    #[arg(long)]
    keep_running: bool,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    key: RequestId,
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Deleted<'n> {
    deleted: &'n str,
    open_execution_count: i64,
}

impl Delete {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = full_name(&self.name)?;
        if !self.yes {
            confirm(
                &format!("Delete {}?", visible(&name)),
                "a deleted definition can no longer be started",
                "nothing was deleted",
            )?;
        }
        let call = client::DeleteDefinition::new(&name).keep_running(self.keep_running);
        let call = self.key.apply(call);
        let answer = context.client.delete_definition(context.call(call)).await?;
        let deleted = Deleted {
            deleted: &name,
            open_execution_count: answer.open_execution_count,
        };
        context.show(&deleted, || {
            if deleted.open_execution_count > 0 {
                print_message(&format!(
                    "open executions that finish under their revision: {}",
                    deleted.open_execution_count
                ));
            }
            format!("deleted {}", visible(&name))
        })?;
        Ok(Exit::Ok)
    }
}
