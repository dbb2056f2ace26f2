//! `stateway pause`: pauses an execution.

use clap::Args;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{input, resource};

/// Pauses an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stateway pause builtin/order-17 --comment 'price is being checked'")]
pub struct Pause {
    /// provider/id, or the full name
    name: String,
    /// Reason, recorded with the action
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

impl Pause {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut call = client::Pause::new(resource::execution(&self.name)?)
            .request_id(self.request_id.unwrap_or_default())
            .etag(self.etag.unwrap_or_default());
        call = call.comment(self.comment.unwrap_or_default());
        context.show_execution(&context.client.pause(context.call(call)).await?)?;
        Ok(Exit::Ok)
    }
}
