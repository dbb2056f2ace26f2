//! `stateway signal`: sends a signal to one execution, or to every open one that matches a filter.

use clap::Args;
use stateway_client as client;
use stateway_client::v1;

use crate::batch::Change;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::matching::{Matching, OPEN};
use crate::write::WriteOptions;
use crate::{batch, input, resource};

/// Sends a signal to executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway signal builtin/order-17 approve
  stateway signal builtin/order-17 paid --input '{\"amount\":12}'
  stateway signal --filter 'waits.kind:SIGNAL AND labels.team = shop' approve")]
#[command(override_usage = "stateway signal [OPTIONS] <NAME> <SIGNAL>\n       \
                            stateway signal [OPTIONS] --filter <FILTER> <SIGNAL>")]
pub struct Signal {
    /// provider/id, or the full name; not with --filter
    #[arg(value_name = "NAME", value_parser = input::non_empty)]
    first: String,
    /// Name of the signal
    // The options for many executions conflict with the id `name`: with a filter, SIGNAL is the only argument.
    #[arg(id = "name", value_name = "SIGNAL", value_parser = input::non_empty)]
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    second: Option<String>,
    /// Payload of the signal: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    input: Option<String>,
    #[command(flatten)]
    write: WriteOptions,
    #[command(flatten)]
    matching: Matching,
}

const SIGNAL: Change = Change {
    verb: "Send the signal to",
    done: "sent the signal to",
    risk: "a signal cannot be taken back",
    condition: OPEN,
};

impl Signal {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let input = self.input.as_deref().map(input::json).transpose()?;
        // With a filter, the only positional argument is the signal.
        let Some(signal) = &self.second else {
            let send = |name, write| send(context, name, &self.first, write, input.clone());
            return batch::run(context, &self.matching, SIGNAL, send).await;
        };
        let name = resource::execution(&self.first)?;
        let answer = send(context, name, signal, self.write, input).await?;
        context.show_execution(&answer)?;
        Ok(Exit::Ok)
    }
}

async fn send(
    context: &Context,
    name: String,
    signal: &str,
    write: WriteOptions,
    input: Option<String>,
) -> Result<v1::Execution, client::Error> {
    let mut call = write.apply(client::Signal::new(name)).signal(signal);
    if let Some(input) = input {
        call = call.json(input);
    }
    context.client.signal(context.call(call)).await
}
