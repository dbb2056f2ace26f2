//! `stateway cancel`: ends one execution, or every open one that matches a filter.

use clap::Args;
use stateway_client as client;

use crate::batch::{Change, OneOrMany};
use crate::context::Context;
use crate::failure::Outcome;
use crate::matching::OPEN;
use crate::write::{Comment, Compensation, WriteOptions};

/// Cancels executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway cancel builtin/order-17 --comment 'ordered twice'
  stateway cancel builtin/order-17 --no-compensate
  stateway cancel builtin/order-17 --kill
  stateway cancel --filter 'labels.team = shop AND sub_state = ERROR' --dry-run")]
pub struct Cancel {
    /// End the execution immediately, without cleaning up or compensating
    #[arg(long, conflicts_with_all = ["compensate", "no_compensate"])]
    kill: bool,
    #[command(flatten)]
    compensation: Compensation,
    #[command(flatten)]
    comment: Comment,
    #[command(flatten)]
    target: OneOrMany,
}

const CANCEL: Change = Change {
    verb: "Cancel",
    done: "cancelled",
    risk: "a cancelled execution does not continue",
    condition: OPEN,
};

impl Cancel {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let send = |name, write: WriteOptions| {
            let call = write.apply(client::Cancel::new(name));
            let mut call = call.comment(self.comment.clone());
            if self.kill {
                call = call.kill();
            }
            if let Some(compensate) = self.compensation.choice() {
                call = call.compensate(compensate);
            }
            context.client.cancel(context.call(call))
        };
        self.target.run(context, CANCEL, send).await
    }
}
