//! `stateway purge`: permanently removes the record of one finished execution, or of every one that matches a filter.

use clap::Args;
use serde::Serialize;
use stateway_client as client;
use stateway_phrases::visible;

use crate::batch::Change;
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::matching::Matching;
use crate::write::WriteOptions;
use crate::{batch, resource};

/// Removes the records of finished executions from their engine.
#[derive(Debug, Args)]
#[command(after_help = "\
The purge is permanent: it removes state, history, input and output. The command refuses an \
execution that has not finished.

Examples:
  stateway purge builtin/order-17
  stateway purge builtin/order-17 --yes
  stateway purge --filter 'definition = order-saga AND end_time < 2026-11-01T00:00:00Z'")]
pub struct Purge {
    /// provider/id, or the full name
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    name: Option<String>,
    #[command(flatten)]
    write: WriteOptions,
    #[command(flatten)]
    matching: Matching,
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Purged<'n> {
    purged: &'n str,
}

const PURGE: Change = Change {
    verb: "Permanently remove the record of",
    done: "purged",
    risk: "a purge is permanent",
    condition: "(sub_state = SUCCEEDED OR sub_state = FAILED)",
};

impl Purge {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let Some(name) = &self.name else {
            let send = |name, write| send(context, name, write);
            return batch::run(context, &self.matching, PURGE, send).await;
        };
        let full = resource::execution(name)?;
        if !self.matching.yes {
            let question = format!("{} {}?", PURGE.verb, visible(name));
            confirm(&question, PURGE.risk, "nothing was removed")?;
        }
        send(context, full.clone(), self.write).await?;
        context.show(&Purged { purged: &full }, || {
            format!("purged {}", visible(name))
        })?;
        Ok(Exit::Ok)
    }
}

async fn send(context: &Context, name: String, write: WriteOptions) -> Result<(), client::Error> {
    let call = write.apply(client::Purge::new(name));
    context.client.purge(context.call(call)).await
}
