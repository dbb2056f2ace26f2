//! `stateway triggers`: events and schedules that start executions, disabled and enabled.

use clap::{Args, Subcommand};
use stateway_client as client;

use super::definitions::full_name;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::screen::stamp;
use crate::view;
use crate::write::{Comment, RequestId};

/// Events and schedules that start executions.
#[derive(Debug, Subcommand)]
pub enum Triggers {
    /// Disable the trigger of a definition: neither events nor its schedule start executions
    #[command(after_help = "\
The trigger stays disabled across restarts and new revisions of the definition. Executions can still be \
started with `stateway start`.

Examples:
  stateway triggers disable nightly --comment 'database maintenance'")]
    Disable(Disable),
    /// Enable the trigger of a definition
    #[command(after_help = "\
Scheduled times that passed while the trigger was disabled start no executions later.

Examples:
  stateway triggers enable nightly")]
    Enable(Enable),
}

/// Disables a trigger.
#[derive(Debug, Args)]
pub struct Disable {
    /// The definition, in full or without `definitions/`
    name: String,
    #[command(flatten)]
    comment: Comment,
    #[command(flatten)]
    key: RequestId,
}

/// Enables a trigger.
#[derive(Debug, Args)]
pub struct Enable {
    /// The definition, in full or without `definitions/`
    name: String,
    #[command(flatten)]
    key: RequestId,
}

impl Triggers {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let answer = match self {
            Self::Disable(disable) => {
                let call = client::DisableTrigger::new(&full_name(&disable.name)?)
                    .comment(disable.comment);
                let call = disable.key.apply(call);
                context.client.disable_trigger(context.call(call)).await?
            }
            Self::Enable(enable) => {
                let call = client::EnableTrigger::new(&full_name(&enable.name)?);
                let call = enable.key.apply(call);
                context.client.enable_trigger(context.call(call)).await?
            }
        };
        let trigger = view::Trigger::from(&answer);
        context.show(&trigger, || text(&trigger))?;
        Ok(Exit::Ok)
    }
}

fn text(trigger: &view::Trigger) -> String {
    let state = match (&trigger.disabled, trigger.next_start_time) {
        (Some(disabled), _) => disabled.summary(),
        (None, Some(next)) => format!("enabled, next start at {}", stamp(next)),
        (None, None) => "enabled".to_owned(),
    };
    let definition = trigger.name.to_string();
    let definition = definition.trim_end_matches("/trigger");
    format!("{definition}: {state}")
}
