//! `stateway replay`: an execution at any of its events, or under another definition.

mod source;
mod stepping;

use std::path::PathBuf;

use clap::Args;
use stateway_client::v1;
use v1::replay_execution_request::Variant;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{input, resource, screen, view};
use source::Source;

/// Replays an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway replay builtin/r-17 --at 12
  stateway replay builtin/r-17 --step
  stateway replay builtin/r-17 --revision latest
  stateway replay builtin/r-17 --definition order-v2.yaml -o json
  stateway replay --file r-17.jsonl --at 12

A replay does not change the execution. Under another definition, the simulation uses only recorded \
results and decisions; a step without a recorded result is named and stays open. Exits 8 if the \
simulation differs from the recording. Replaying a file of `stateway history export` needs no \
gateway.")]
pub struct Replay {
    /// provider/id, or the full name
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    name: Option<String>,
    /// Replay a file of `stateway history export` instead
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show the execution as of this event
    #[arg(long, value_name = "EVENT", value_parser = clap::value_parser!(i64).range(1..))]
    #[arg(group = "how")]
    at: Option<i64>,
    /// Show the execution event by event: with the arrow keys on a terminal, as a list in a pipe
    #[arg(long, group = "how")]
    step: bool,
    /// Simulate the execution with this revision of the definition: a hash, its first digits, or `latest`
    #[arg(long, value_name = "REVISION", group = "how", value_parser = input::non_empty)]
    revision: Option<String>,
    /// Simulate the execution with the definition in this file
    #[arg(long, value_name = "FILE", group = "how")]
    definition: Option<PathBuf>,
    /// Branch to replay: its number, or `current` (default: the current branch)
    #[arg(long, value_name = "BRANCH", value_parser = input::non_empty)]
    branch: Option<String>,
}

impl Replay {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let source = match &self.file {
            Some(path) => Source::file(path)?,
            None => Source::gateway(self.name.as_deref().unwrap_or_default())?,
        };
        let along = resource::branch_number(self.branch.as_deref().unwrap_or_default())?;
        if self.step {
            let steps = source.steps(context, along).await?;
            return stepping::run(context, &steps).await;
        }
        let request = v1::ReplayExecutionRequest {
            variant: self.variant()?,
            ..v1::ReplayExecutionRequest::default()
        };
        let derives = matches!(
            request.variant,
            Some(Variant::Revision(_) | Variant::Source(_))
        );
        let answer = source.replay(context, along, request).await?;
        let replayed = view::Replayed::from(&answer);
        context.show(&replayed, || {
            if derives {
                screen::report(&replayed, context.paint)
            } else {
                at_event(&replayed, context)
            }
        })?;
        let differs = !replayed.divergences.is_empty() || !replayed.unrecorded_steps.is_empty();
        Ok(if derives && differs {
            Exit::Found
        } else {
            Exit::Ok
        })
    }

    /// The kind of replay; the arguments exclude each other.
    fn variant(&self) -> Result<Option<Variant>, Failure> {
        if let Some(at) = self.at {
            return Ok(Some(Variant::AtSequence(at)));
        }
        if let Some(revision) = &self.revision {
            return Ok(Some(Variant::Revision(revision.clone())));
        }
        let source = self.definition()?;
        Ok((!source.is_empty()).then_some(Variant::Source(source)))
    }

    fn definition(&self) -> Result<String, Failure> {
        let Some(path) = &self.definition else {
            return Ok(String::new());
        };
        let text = std::fs::read_to_string(path);
        let text = text
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
        if text.trim().is_empty() {
            Err(Failure::usage(format!("{} is empty", path.display())))
        } else {
            Ok(text)
        }
    }
}

/// An execution as it was, at the time of its last event.
fn at_event(replayed: &view::Replayed, context: &Context) -> String {
    let Some(execution) = &replayed.execution else {
        return String::new();
    };
    let then = execution.update_time.unwrap_or_else(jiff::Timestamp::now);
    format!(
        "after event {} of branch {}, at {}\n{}",
        replayed.event_count,
        screen::branch_number(&replayed.branch),
        screen::stamp(then),
        screen::details(execution, context.paint, then)
    )
}
