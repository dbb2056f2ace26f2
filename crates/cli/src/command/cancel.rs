//! `stateway cancel`: ends an execution.

use clap::Args;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{input, resource};

/// Ends an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway cancel builtin/order-17 --comment 'ordered twice'
  stateway cancel builtin/order-17 --no-compensate
  stateway cancel builtin/order-17 --kill")]
pub struct Cancel {
    /// provider/id, or the full name
    name: String,
    /// End the execution immediately, without cleaning up or compensating
    #[arg(long, conflicts_with_all = ["compensate", "no_compensate"])]
    kill: bool,
    /// Compensate completed steps (default: according to the definition's failurePolicy)
    #[arg(long, conflicts_with = "no_compensate")]
    compensate: bool,
    /// Compensate nothing (default: according to the definition's failurePolicy)
    #[arg(long)]
    no_compensate: bool,
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

impl Cancel {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut call = client::Cancel::new(resource::execution(&self.name)?)
            .request_id(self.request_id.unwrap_or_default())
            .etag(self.etag.unwrap_or_default());
        call = call.comment(self.comment.unwrap_or_default());
        if self.kill {
            call = call.kill();
        }
        if self.compensate || self.no_compensate {
            call = call.compensate(self.compensate);
        }
        context.show_execution(&context.client.cancel(context.call(call)).await?)?;
        Ok(Exit::Ok)
    }
}
