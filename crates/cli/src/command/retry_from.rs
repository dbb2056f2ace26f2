//! `stateway retry-from`: runs one execution again from a step, or every failed one that matches a filter.

use clap::Args;
use stateway_client as client;
use stateway_client::v1;

use crate::batch::Change;
use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::matching::Matching;
use crate::screen::short_name;
use crate::write::WriteOptions;
use crate::{batch, input, resource};

/// Runs executions again from a step.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway retry-from builtin/order-17
  stateway retry-from builtin/order-17 --step charge
  stateway retry-from builtin/r-17 --step draft --feedback 'shorter, please'
  stateway retry-from builtin/r-17 --step charge --input '{\"amount\": 20}'
  stateway retry-from builtin/r-17 --from-start
  stateway retry-from temporal/order-17 --step event:7
  stateway retry-from --filter 'definition = order-saga AND reason = RETRIES_EXHAUSTED'

Side effects of the steps that run again happen again. An execution of the built-in engine that failed, \
was cancelled or was rolled back is reopened under its name. A succeeded execution never changes: it is \
forked, and the command prints the new execution. With --filter, only executions in `failed` or `error` run \
again.")]
pub struct RetryFrom {
    /// provider/id, or the full name
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    name: Option<String>,
    /// From this step (default: the step that failed). Temporal also takes `event:N`, an event number of
    /// `stateway history`
    #[arg(long, value_parser = input::non_empty)]
    step: Option<String>,
    /// New input of the step, if the provider supports it: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    input: Option<String>,
    /// Message for the worker that runs the step, if the provider supports it
    #[arg(long, value_name = "TEXT", value_parser = input::non_empty)]
    feedback: Option<String>,
    /// Run every step again, from the first step
    #[arg(long, conflicts_with_all = ["step", "input", "feedback"])]
    from_start: bool,
    /// Id of the new execution if a succeeded execution is forked (default: chosen by the provider)
    #[arg(long, value_name = "ID", conflicts_with = "filter", value_parser = input::non_empty)]
    id: Option<String>,
    #[command(flatten)]
    write: WriteOptions,
    #[command(flatten)]
    matching: Matching,
}

const RETRY_FROM: Change = Change {
    verb: "Run again",
    done: "reopened",
    risk: "side effects of the steps that run again happen again",
    condition: "(sub_state = FAILED OR sub_state = ERROR)",
};

impl RetryFrom {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let input = self.input.as_deref().map(input::json).transpose()?;
        let Some(name) = &self.name else {
            let send = |name, write| self.send(context, name, write, input.clone());
            return batch::run(context, &self.matching, RETRY_FROM, send).await;
        };
        let full = resource::execution(name)?;
        let write = self.write.clone();
        let answer = self.send(context, full.clone(), write, input).await?;
        if answer.name != full {
            let forked = short_name(&(&answer.name).into());
            print_message(&format!(
                "{name} has succeeded and does not change: forked as {forked}"
            ));
        }
        context.show_execution(&answer)?;
        Ok(Exit::Ok)
    }

    async fn send(
        &self,
        context: &Context,
        name: String,
        write: WriteOptions,
        input: Option<String>,
    ) -> Result<v1::Execution, client::Error> {
        let mut call = write
            .apply(client::RetryFrom::new(name))
            .id(self.id.clone().unwrap_or_default())
            .feedback(self.feedback.clone().unwrap_or_default());
        if let Some(step) = &self.step {
            call = call.step(step);
        }
        if self.from_start {
            call = call.from_start();
        }
        if let Some(input) = input {
            call = call.json(input);
        }
        context.client.retry_from(context.call(call)).await
    }
}
