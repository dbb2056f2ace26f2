//! `stateway purge`: permanently removes the record of a finished execution.

use clap::Args;
use serde::Serialize;
use stateway_client as client;

use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::visible::visible;
use crate::{input, resource};

/// Removes the record of a finished execution from its engine.
#[derive(Debug, Args)]
#[command(after_help = "\
The purge is permanent: it removes state, history, input and output. The command refuses an \
execution that has not finished.

Examples:
  stateway purge builtin/order-17
  stateway purge builtin/order-17 --yes")]
pub struct Purge {
    /// provider/id, or the full name
    name: String,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long)]
    yes: bool,
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Purged<'n> {
    purged: &'n str,
}

impl Purge {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = resource::execution(&self.name)?;
        if !self.yes {
            confirm(
                &format!("Permanently remove the record of {}?", visible(&self.name)),
                "a purge is permanent",
                "nothing was removed",
            )?;
        }
        let call = client::Purge::new(&name)
            .request_id(self.request_id.unwrap_or_default())
            .etag(self.etag.unwrap_or_default());
        context.client.purge(context.call(call)).await?;
        context.show(&Purged { purged: &name }, || {
            format!("purged {}", visible(&self.name))
        })?;
        Ok(Exit::Ok)
    }
}
