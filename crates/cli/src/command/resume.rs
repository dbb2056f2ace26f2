//! `stateway resume`: resumes one paused execution, or every one that matches a filter.

use clap::Args;
use stateway_client as client;

use crate::batch::{Change, OneOrMany};
use crate::context::Context;
use crate::failure::Outcome;
use crate::write::WriteOptions;

/// Resumes paused executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway resume builtin/order-17
  stateway resume --filter 'definition = order-saga'

With --filter, only paused executions are resumed.")]
pub struct Resume {
    #[command(flatten)]
    target: OneOrMany,
}

const RESUME: Change = Change {
    verb: "Resume",
    done: "resumed",
    risk: "resumed executions start their next steps",
    condition: "reason = PAUSED",
};

impl Resume {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let send = |name, write: WriteOptions| {
            let call = write.apply(client::Resume::new(name));
            context.client.resume(context.call(call))
        };
        self.target.run(context, RESUME, send).await
    }
}
