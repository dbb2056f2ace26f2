//! `stateway cancel`: ends one execution, or every open one that matches a filter.

use clap::Args;
use stateway_client as client;
use stateway_client::v1;

use crate::batch::{Change, OneOrMany};
use crate::context::Context;
use crate::failure::Outcome;
use crate::matching::OPEN;
use crate::write::WriteOptions;

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
    /// Compensate completed steps (default: according to the definition's failurePolicy)
    #[arg(long, conflicts_with = "no_compensate")]
    compensate: bool,
    /// Compensate nothing (default: according to the definition's failurePolicy)
    #[arg(long)]
    no_compensate: bool,
    /// Reason, recorded with the action
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
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
        let send = |name, write| self.send(context, name, write);
        self.target.run(context, CANCEL, send).await
    }

    async fn send(
        &self,
        context: &Context,
        name: String,
        write: WriteOptions,
    ) -> Result<v1::Execution, client::Error> {
        let mut call = write.apply(client::Cancel::new(name));
        call = call.comment(self.comment.clone().unwrap_or_default());
        if self.kill {
            call = call.kill();
        }
        if self.compensate || self.no_compensate {
            call = call.compensate(self.compensate);
        }
        context.client.cancel(context.call(call)).await
    }
}
