//! `stateway signal`: a named message to an execution.

use clap::Args;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{input, resource};

/// Sends a signal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway signal builtin/order-17 approve
  stateway signal builtin/order-17 paid --input '{\"amount\":12}'")]
pub struct Signal {
    /// provider/id, or the full name
    name: String,
    /// The signal's name
    #[arg(value_parser = input::given)]
    signal: String,
    /// Payload of the signal: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    input: Option<String>,
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

impl Signal {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut call = client::Signal::new(resource::execution(&self.name)?)
            .signal(self.signal)
            .request_id(self.request_id.unwrap_or_default())
            .etag(self.etag.unwrap_or_default());
        if let Some(argument) = &self.input {
            call = call.json(input::json(argument)?);
        }
        context.show_execution(&context.client.signal(context.call(call)).await?)?;
        Ok(Exit::Ok)
    }
}
