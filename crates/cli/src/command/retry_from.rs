//! `stateway retry-from`: the work again, from a step on.

use clap::Args;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{input, resource};

/// Does the work again from a step on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway retry-from memory/order-17
  stateway retry-from memory/order-17 --step charge
  stateway retry-from builtin/r-17 --step draft --feedback 'shorter, please'
  stateway retry-from builtin/r-17 --step charge --input '{\"amount\": 20}'
  stateway retry-from builtin/r-17 --from-start

Side effects of the steps that are done again happen again.")]
pub struct RetryFrom {
    /// provider/id, or the full name
    name: String,
    /// From this step; from where it failed otherwise
    #[arg(long, value_parser = input::given)]
    step: Option<String>,
    /// Other input for that step, where the provider takes one: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    input: Option<String>,
    /// What whoever does that step is told, where the provider can pass it on
    #[arg(long, value_name = "TEXT", value_parser = input::given)]
    feedback: Option<String>,
    /// Everything again, from the first step on
    #[arg(long, conflicts_with_all = ["step", "input", "feedback"])]
    from_start: bool,
    /// Happens once, however often it is asked under this id
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

impl RetryFrom {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let mut call = client::RetryFrom::new(resource::execution(&self.name)?)
            .request_id(self.request_id.unwrap_or_default())
            .etag(self.etag.unwrap_or_default());
        call = call.step(self.step.unwrap_or_default());
        call = call.feedback(self.feedback.unwrap_or_default());
        call = call.from_start(self.from_start);
        if let Some(argument) = &self.input {
            call = call.json(input::json(argument)?);
        }
        context.show_execution(&context.client.retry_from(context.call(call)).await?)?;
        Ok(Exit::Ok)
    }
}
