//! `stateway pause`: pauses one execution, or every open one that matches a filter.

use clap::Args;
use stateway_client as client;

use crate::batch::{Change, OneOrMany};
use crate::context::Context;
use crate::failure::Outcome;
use crate::matching::OPEN;
use crate::write::{Comment, WriteOptions};

/// Pauses executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway pause builtin/order-17 --comment 'price is being checked'
  stateway pause --filter 'definition = order-saga' --comment 'the card gateway is down'")]
pub struct Pause {
    #[command(flatten)]
    comment: Comment,
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
        let send = |name, write: WriteOptions| {
            let call = write.apply(client::Pause::new(name));
            let call = call.comment(self.comment.clone());
            context.client.pause(context.call(call))
        };
        self.target.run(context, PAUSE, send).await
    }
}
