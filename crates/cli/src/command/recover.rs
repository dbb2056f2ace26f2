//! `stateway recover`: puts right what contradicts an execution's log.

use std::fmt::Write as _;

use clap::Args;
use stateway_client as client;
use stateway_client::{Call, v1};

use super::verify::to_do;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{input, resource, view};

/// Recovers an execution.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway recover builtin/r-17 --dry-run
  stateway recover builtin/r-17
  stateway recover builtin/r-17 --repair-only

What merely contradicts the log is put right from it. Where the log itself is not whole, the work goes
on as a new branch from the last event that can be trusted, and side effects of the steps named run
again. Nothing is removed, and the recovery is an event of the log.")]
pub struct Recover {
    /// provider/id, or the full name
    name: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Only what can be done without doing work again
    #[arg(long)]
    repair_only: bool,
    /// Happens once, however often it is asked under this id
    #[arg(long, value_name = "ID", value_parser = input::given)]
    request_id: Option<String>,
    /// Only if the execution still has this etag
    #[arg(long, value_parser = input::given)]
    etag: Option<String>,
}

impl Recover {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let name = resource::execution(&self.name)?;
        if self.dry_run {
            return dry(context, name).await;
        }
        let call = Call::from_message(v1::RecoverExecutionRequest {
            name,
            request_id: self.request_id.unwrap_or_default(),
            etag: self.etag.unwrap_or_default(),
            repair_only: self.repair_only,
        });
        let answer = context.client.recover(context.call(call)).await?;
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
        return "nothing was wrong, and nothing was changed".to_owned();
    }
    let mut text = findings("put right", &recovered.repaired);
    if !recovered.branch.is_empty() {
        let number = |name: &view::Text| {
            let number = name.raw().rsplit('/').next().unwrap_or_default();
            crate::visible::visible(number).into_owned()
        };
        let _ = writeln!(
            text,
            "goes on as branch {} after event {}; branch {} stays as it is",
            number(&recovered.branch),
            recovered.cutoff_sequence,
            number(&recovered.previous_branch)
        );
    }
    let steps: Vec<_> = recovered
        .repeated_steps
        .iter()
        .map(ToString::to_string)
        .collect();
    let _ = match steps.is_empty() {
        true if !recovered.branch.is_empty() => {
            writeln!(text, "whatever came after that event may be done again")
        }
        true => writeln!(text, "no work is done again"),
        false => writeln!(
            text,
            "may be done again, side effects included: {}",
            steps.join(", ")
        ),
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
