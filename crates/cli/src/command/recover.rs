//! `stateway recover`: repairs stored data that differs from an execution's log.

use std::fmt::Write as _;

use clap::Args;
use stateway_client as client;
use stateway_client::{Call, v1};

use super::verify::to_do;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::screen::branch_number;
use crate::write::WriteOptions;
use crate::{resource, view};

/// Recovers an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway recover builtin/r-17 --dry-run
  stateway recover builtin/r-17
  stateway recover builtin/r-17 --repair-only

If the log is intact, the derived data is repaired from the log and no step runs again. If the log is \
damaged, the execution continues on a new branch after the last trusted event, and side effects of the \
named steps may happen again. Nothing is removed. The log records the recovery as an event.")]
pub struct Recover {
    /// provider/id, or the full name
    name: String,
    /// Only print the planned changes
    #[arg(long)]
    dry_run: bool,
    /// Refuse a recovery that would run steps again
    #[arg(long)]
    repair_only: bool,
    #[command(flatten)]
    write: WriteOptions,
}

impl Recover {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = resource::execution(&self.name)?;
        if self.dry_run {
            return dry(context, name).await;
        }
        let call = Call::from_message(v1::RecoverExecutionRequest {
            name,
            repair_only: self.repair_only,
            ..v1::RecoverExecutionRequest::default()
        });
        let call = context.call(self.write.apply(call));
        let answer = context.client.recover(call).await?;
        let recovered = view::Recovered::from(&answer);
        context.show(&recovered, || text(&recovered))?;
        Ok(Exit::Ok)
    }
}

async fn dry(context: &Context, name: String) -> Outcome {
    let call = client::Verify::new(name);
    let answer = context.client.verify(context.call(call)).await?;
    let verdict = view::Verdict::from(&answer.verdict.unwrap_or_default());
    context.show(&verdict, || {
        let mut text = findings("found", &verdict.findings);
        // Writing to a String cannot fail.
        let _ = write!(text, "would be done: {}", to_do(&verdict.remedy));
        text
    })?;
    Ok(Exit::Ok)
}

fn findings(what: &str, found: &[view::Finding]) -> String {
    found.iter().fold(String::new(), |mut text, finding| {
        let _ = writeln!(text, "{what}: {}  {}", finding.code, finding.summary);
        text
    })
}

fn text(recovered: &view::Recovered) -> String {
    if recovered.repaired.is_empty() {
        return "no problem was found, and nothing was changed".to_owned();
    }
    let mut text = findings("repaired", &recovered.repaired);
    if !recovered.branch.is_empty() {
        let _ = writeln!(
            text,
            "continues on branch {} after event {}; branch {} is unchanged",
            branch_number(&recovered.branch),
            recovered.cutoff_sequence,
            branch_number(&recovered.previous_branch)
        );
    }
    let steps: Vec<_> = recovered
        .repeated_steps
        .iter()
        .map(ToString::to_string)
        .collect();
    let _ = if !steps.is_empty() {
        writeln!(
            text,
            "steps that may run again, with their side effects: {}",
            steps.join(", ")
        )
    } else if recovered.branch.is_empty() {
        writeln!(text, "no step runs again")
    } else {
        writeln!(text, "steps after that event may run again")
    };
    if let Some(execution) = &recovered.execution {
        let _ = write!(
            text,
            "{} is {} now",
            crate::screen::short_name(&execution.name),
            execution.sub_state
        );
    }
    text
}
