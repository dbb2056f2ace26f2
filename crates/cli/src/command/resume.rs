//! `stateway resume`: resumes a paused execution.

use clap::Args;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{input, resource};

/// Resumes a paused execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stateway resume builtin/order-17")]
pub struct Resume {
    /// provider/id, or the full name
    name: String,
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

impl Resume {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let call = client::Resume::new(resource::execution(&self.name)?)
            .request_id(self.request_id.unwrap_or_default())
            .etag(self.etag.unwrap_or_default());
        context.show_execution(&context.client.resume(context.call(call)).await?)?;
        Ok(Exit::Ok)
    }
}
