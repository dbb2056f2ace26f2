//! `stateway cancel`: the end of an execution, asked for.

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
  stateway cancel memory/order-17 --cause 'ordered twice'
  stateway cancel memory/order-17 --kill")]
pub struct Cancel {
    /// provider/id, or the full name
    name: String,
    /// At once, without a chance to clean up or compensate
    #[arg(long)]
    kill: bool,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    cause: Option<String>,
    /// Happens once, however often it is asked under this id
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
        call = call.cause(self.cause.unwrap_or_default());
        if self.kill {
            call = call.kill();
        }
        context.show_execution(&context.client.cancel(context.call(call)).await?)?;
        Ok(Exit::Ok)
    }
}
