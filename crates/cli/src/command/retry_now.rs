//! `stateway retry-now`: the next attempt now.

use clap::Args;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{input, resource};

/// Makes the next attempt now.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway retry-now builtin/order-17
  stateway retry-now builtin/order-17 --step charge")]
pub struct RetryNow {
    /// provider/id, or the full name
    name: String,
    /// Only this step (default: every step that backs off)
    #[arg(long, value_parser = input::given)]
    step: Option<String>,
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

impl RetryNow {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut call = client::RetryNow::new(resource::execution(&self.name)?)
            .request_id(self.request_id.unwrap_or_default())
            .etag(self.etag.unwrap_or_default());
        call = call.step(self.step.unwrap_or_default());
        context.show_execution(&context.client.retry_now(context.call(call)).await?)?;
        Ok(Exit::Ok)
    }
}
