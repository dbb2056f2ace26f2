//! `stateway get`: one execution.

use clap::Args;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::resource;

/// Shows an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway get memory/order-17
  stateway get providers/memory/executions/order-17 -o json")]
pub struct Get {
    /// provider/id, or the full name
    name: String,
}

impl Get {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let call = client::Get::new(resource::execution(&self.name)?);
        context.show_execution(&context.client.get(context.call(call)).await?)?;
        Ok(Exit::Ok)
    }
}
