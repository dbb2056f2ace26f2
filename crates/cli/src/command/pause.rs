//! `stateway pause`: pauses one execution, or every open one that matches a filter.

use clap::Args;
use stateway_client as client;
use stateway_client::v1;

use crate::batch::Change;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::matching::{Matching, OPEN};
use crate::write::WriteOptions;
use crate::{batch, resource};

/// Pauses executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway pause builtin/order-17 --comment 'price is being checked'
  stateway pause --filter 'definition = order-saga' --comment 'the card gateway is down'")]
pub struct Pause {
    /// provider/id, or the full name
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    name: Option<String>,
    /// Reason, recorded with the action
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    #[command(flatten)]
    write: WriteOptions,
    #[command(flatten)]
    matching: Matching,
}

const PAUSE: Change = Change {
    verb: "Pause",
    done: "paused",
    risk: "a paused execution starts no further step",
    condition: OPEN,
};

impl Pause {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let Some(name) = &self.name else {
            let send = |name, write| self.send(context, name, write);
            return batch::run(context, &self.matching, PAUSE, send).await;
        };
        let name = resource::execution(name)?;
        let answer = self.send(context, name, self.write.clone()).await?;
        context.show_execution(&answer)?;
        Ok(Exit::Ok)
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
