//! `stateway pause`: pauses one execution, or every open one that matches a filter.

use clap::Args;
use stateway_client as client;
use stateway_client::v1;

use crate::batch::{Change, OneOrMany};
use crate::context::Context;
use crate::failure::Outcome;
use crate::matching::OPEN;
use crate::write::WriteOptions;

/// Pauses executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway pause builtin/order-17 --comment 'price is being checked'
  stateway pause --filter 'definition = order-saga' --comment 'the card gateway is down'")]
pub struct Pause {
    /// Reason, recorded with the action
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    target: OneOrMany,
}

const PAUSE: Change = Change {
    verb: "Pause",
    done: "paused",
    risk: "a paused execution starts no further step",
    condition: OPEN,
};

impl Pause {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let send = |name, write| self.send(context, name, write);
        self.target.run(context, PAUSE, send).await
    }

    async fn send(
        &self,
        context: &Context,
        name: String,
        write: WriteOptions,
    ) -> Result<v1::Execution, client::Error> {
        let call = write
            .apply(client::Pause::new(name))
            .comment(self.comment.clone().unwrap_or_default());
        context.client.pause(context.call(call)).await
    }
}
