//! `stateway retry-from`: the work again, from a step on.

use clap::Args;
use stateway_client as client;

use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::screen::short_name;
use crate::{input, resource};

/// Runs an execution again from a step on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway retry-from builtin/order-17
  stateway retry-from builtin/order-17 --step charge
  stateway retry-from builtin/r-17 --step draft --feedback 'shorter, please'
  stateway retry-from builtin/r-17 --step charge --input '{\"amount\": 20}'
  stateway retry-from builtin/r-17 --from-start
  stateway retry-from temporal/order-17 --step event:7

Side effects of the steps that run again happen again. An execution of the built-in engine that failed, \
was cancelled or was rolled back is reopened under its name. A succeeded execution never changes: it is \
forked, and the command prints the new execution.")]
pub struct RetryFrom {
    /// provider/id, or the full name
    name: String,
    /// From this step (default: the step that failed). Temporal also takes `event:N`, an event number of
    /// `stateway history`
    #[arg(long, value_parser = input::given)]
    step: Option<String>,
    /// New input of the step, if the provider supports it: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    input: Option<String>,
    /// Message for the worker that runs the step, if the provider supports it
    #[arg(long, value_name = "TEXT", value_parser = input::given)]
    feedback: Option<String>,
    /// Run every step again, from the first step
    #[arg(long, conflicts_with_all = ["step", "input", "feedback"])]
    from_start: bool,
    /// Id of the new execution if a succeeded execution is forked (default: chosen by the provider)
    #[arg(long, value_name = "ID", value_parser = input::given)]
    id: Option<String>,
    /// Idempotency key: repeating the request with the same key has no further effect
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

impl RetryFrom {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = resource::execution(&self.name)?;
        let mut call = client::RetryFrom::new(&name)
            .id(self.id.unwrap_or_default())
            .request_id(self.request_id.unwrap_or_default())
            .etag(self.etag.unwrap_or_default());
        if let Some(step) = self.step {
            call = call.step(step);
        }
        call = call.feedback(self.feedback.unwrap_or_default());
        if self.from_start {
            call = call.from_start();
        }
        if let Some(argument) = &self.input {
            call = call.json(input::json(argument)?);
        }
        let answer = context.client.retry_from(context.call(call)).await?;
        if answer.name != name {
            let forked = short_name(&(&answer.name).into());
            talk(&format!(
                "{} has succeeded and does not change: forked as {forked}",
                self.name
            ));
        }
        context.show_execution(&answer)?;
        Ok(Exit::Ok)
    }
}
