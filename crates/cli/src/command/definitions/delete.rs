//! `stateway definitions delete`.

use clap::Args;
use serde::Serialize;
use stateway_client as client;

use super::full_name;
use crate::confirm::confirm;
use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::input;
use crate::visible::visible;

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
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
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
        let call = client::DeleteDefinition::new(&name)
            .keep_running(self.keep_running)
            .request_id(self.request_id.unwrap_or_default());
        let answer = context.client.delete_definition(context.call(call)).await?;
        let deleted = Deleted {
            deleted: &name,
            open_execution_count: answer.open_execution_count,
        };
        context.show(&deleted, || {
            if deleted.open_execution_count > 0 {
                talk(&format!(
                    "open executions that finish under their revision: {}",
                    deleted.open_execution_count
                ));
            }
            format!("deleted {}", visible(&name))
        })?;
        Ok(Exit::Ok)
    }
}
