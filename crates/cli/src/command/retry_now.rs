//! `stateway retry-now`: makes the next attempt of one execution now, or of every one that matches a filter.

use clap::Args;
use stateway_client as client;

use crate::batch::{Change, OneOrMany};
use crate::context::Context;
use crate::failure::Outcome;
use crate::input;
use crate::write::WriteOptions;

/// Makes the next attempt now instead of after the back-off.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway retry-now builtin/order-17
  stateway retry-now builtin/order-17 --step charge
  stateway retry-now --filter 'definition = order-saga'

With --filter, only executions that are backing off are retried.")]
pub struct RetryNow {
    /// Only this step (default: every step that backs off)
    #[arg(long, value_parser = input::non_empty)]
    step: Option<String>,
    #[command(flatten)]
    target: OneOrMany,
}

const RETRY_NOW: Change = Change {
    verb: "Retry",
    done: "retried",
    risk: "the steps that back off run immediately",
    condition: "sub_state = BACKING_OFF",
};

impl RetryNow {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let send = |name, write: WriteOptions| {
            let call = write.apply(client::RetryNow::new(name));
            let call = call.step(self.step.clone().unwrap_or_default());
            context.client.retry_now(context.call(call))
        };
        self.target.run(context, RETRY_NOW, send).await
    }
}
