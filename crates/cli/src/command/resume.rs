//! `stateway resume`: resumes one paused execution, or every one that matches a filter.

use clap::Args;
use stateway_client as client;
use stateway_client::v1;

use crate::batch::Change;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::matching::Matching;
use crate::write::WriteOptions;
use crate::{batch, resource};

/// Resumes paused executions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway resume builtin/order-17
  stateway resume --filter 'definition = order-saga'

With --filter, only paused executions are resumed.")]
pub struct Resume {
    /// provider/id, or the full name
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    name: Option<String>,
    #[command(flatten)]
    write: WriteOptions,
    #[command(flatten)]
    matching: Matching,
}

const RESUME: Change = Change {
    verb: "Resume",
    done: "resumed",
    risk: "resumed executions start their next steps",
    condition: "reason = PAUSED",
};

impl Resume {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let Some(name) = &self.name else {
            let send = |name, write| self.send(context, name, write);
            return batch::run(context, &self.matching, RESUME, send).await;
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
        let call = write.apply(client::Resume::new(name));
        context.client.resume(context.call(call)).await
    }
}
