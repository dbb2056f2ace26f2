//! `stateway verify`: compares the stored data of executions with their logs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Call, v1};
use stateway_engine::recovery::StoreFile;
use stateway_phrases::grouped;

use crate::context::{Context, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::{resource, view};

/// The number of executions of a file that are checked between two progress reports.
const FILE_PAGE: usize = 1_000;
/// The maximum number of executions with findings that are shown.
const MOST_SHOWN: usize = 10_000;

/// Compares the stored data of executions with their logs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway verify builtin/r-17
  stateway verify --all
  stateway verify --all --provider builtin -o json
  stateway verify --store backups/stateway-monday.db

The command changes nothing. Exits 8 if it found a problem; docs/recovery.md lists the possible \
findings, and `stateway recover` repairs them.")]
pub struct Verify {
    /// provider/id, or the full name
    #[arg(required_unless_present_any = ["all", "store"], conflicts_with_all = ["all", "store"])]
    name: Option<String>,
    /// Verify every execution
    #[arg(long)]
    all: bool,
    /// Only executions of this provider
    #[arg(long, value_name = "PROVIDER", requires = "all")]
    provider: Option<String>,
    /// Verify every execution in this file, for example a backup; needs no gateway
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    store: Option<PathBuf>,
}

/// What `--all -o json` prints.
#[derive(Debug, Default, Serialize)]
struct Checked {
    checked_count: i64,
    event_count: i64,
    faulty_count: i64,
    seconds: f64,
    executions_per_second: f64,
    verdicts: Vec<view::Verdict>,
    unreachable: Vec<String>,
}

impl Verify {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        match (&self.name, &self.store) {
            (Some(name), _) => one(context, name).await,
            (None, Some(path)) => in_file(context, path),
            (None, None) => all(context, self.provider.as_deref()).await,
        }
    }
}

async fn one(context: &Context, name: &str) -> Outcome {
    let call = client::Verify::new(resource::execution(name)?);
    let answer = context.client.verify(context.call(call)).await?;
    let verdict = view::Verdict::from(&answer.verdict.unwrap_or_default());
    context.show(&verdict, || details(&verdict))?;
    Ok(exit(verdict.findings.is_empty()))
}

const fn exit(clean: bool) -> Exit {
    if clean { Exit::Ok } else { Exit::Found }
}

async fn all(context: &Context, provider: Option<&str>) -> Outcome {
    let call = Call::from_message(v1::VerifyExecutionsRequest {
        parent: resource::parent(provider)?,
    });
    let mut scan = context.client.verify_all(context.call(call)).await?;
    let mut progress = Progress::new();
    let mut checked = Checked::default();
    let mut done = false;
    while let Some(told) = scan.next().await? {
        progress.show(|| so_far(&told));
        checked.take(&told);
        done = told.done;
    }
    drop(progress);
    for provider in &checked.unreachable {
        print_message(&format!(
            "warning: {provider} failed; not all of its executions were verified"
        ));
    }
    if !done {
        let message = "the gateway stopped before all executions were checked";
        return Err(Failure::new(Exit::Unreachable, message).hint("Run the command again."));
    }
    context.show(&checked, || checked.text())?;
    if checked.unreachable.is_empty() || checked.faulty_count > 0 {
        return Ok(exit(checked.faulty_count == 0));
    }
    let message = format!(
        "not all executions were verified: {} failed",
        checked.unreachable.join(", ")
    );
    Err(Failure::new(Exit::Unreachable, message)
        .hint("Run the command again when the providers answer."))
}

/// Verifies a file without a gateway.
fn in_file(context: &Context, path: &Path) -> Outcome {
    if !path.is_file() {
        let message = format!("there is no file `{}`", path.display());
        return Err(
            Failure::new(Exit::Usage, message).hint("Give the file of a store or of a backup.")
        );
    }
    let unreadable = |error: stateway_engine::EngineError| {
        let message = format!("{}: {error}", path.display());
        Failure::new(Exit::Refused, message).hint(&*error.hint)
    };
    let file = StoreFile::open(path).map_err(unreadable)?;
    let (began, mut after) = (std::time::Instant::now(), Some(0));
    let mut told = v1::VerifyExecutionsResponse {
        total_count: wire(file.total().map_err(unreadable)?),
        ..v1::VerifyExecutionsResponse::default()
    };
    let (mut progress, mut checked) = (Progress::new(), Checked::default());
    while let Some(from) = after {
        let page = file.verify(from, FILE_PAGE).map_err(unreadable)?;
        told.checked_count += wire(page.executions);
        told.event_count += wire(page.events);
        told.faulty_count += wire(page.wrong.len());
        told.elapsed_duration = prost_types::Duration::try_from(began.elapsed()).ok();
        progress.show(|| so_far(&told));
        checked.take(&told);
        let room = MOST_SHOWN.saturating_sub(checked.verdicts.len());
        let verdicts = page.wrong.iter().take(room).map(view::Verdict::from);
        checked.verdicts.extend(verdicts);
        after = page.next;
    }
    drop(progress);
    context.show(&checked, || checked.text())?;
    Ok(exit(checked.faulty_count == 0))
}

impl Checked {
    fn take(&mut self, told: &v1::VerifyExecutionsResponse) {
        self.checked_count = told.checked_count;
        self.event_count = told.event_count;
        self.faulty_count = told.faulty_count;
        self.unreachable.clone_from(&told.unreachable);
        self.seconds = seconds(told);
        self.executions_per_second = rate(told);
        let room = MOST_SHOWN.saturating_sub(self.verdicts.len());
        let verdicts = told.verdicts.iter().take(room).map(view::Verdict::from);
        self.verdicts.extend(verdicts);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for verdict in &self.verdicts {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}\n", details(verdict));
        }
        let found = match self.faulty_count {
            0 => "no problem found".to_owned(),
            1 => "1 of them differs from its log".to_owned(),
            wrong => format!("{} of them differ from their logs", grouped(wrong)),
        };
        let _ = write!(
            text,
            "{} executions checked in {:.1} s ({}/s): {found}",
            grouped(self.checked_count),
            self.seconds,
            grouped(self.executions_per_second.round() as i64),
        );
        text
    }
}

/// One execution with its findings.
fn details(verdict: &view::Verdict) -> String {
    let name = crate::screen::short_name(&verdict.name);
    if verdict.findings.is_empty() {
        return format!(
            "{name}: {} events checked, no problem found",
            grouped(verdict.event_count)
        );
    }
    let mut text = name;
    for finding in &verdict.findings {
        let _ = write!(text, "\n  {}  {}", finding.code, finding.summary);
        for seen in &finding.evidence {
            let _ = write!(text, "\n      {seen}");
        }
    }
    let _ = write!(text, "\n  to do: {}", to_do(&verdict.remedy));
    text
}

/// The planned recovery as text.
pub(super) fn to_do(remedy: &view::Remedy) -> String {
    let steps: Vec<_> = remedy
        .repeated_steps
        .iter()
        .map(ToString::to_string)
        .collect();
    match remedy.kind.as_str() {
        "nothing" => "nothing".to_owned(),
        "repair" => "repair from the log; no step runs again".to_owned(),
        "branch" => {
            let cutoff = remedy.cutoff_sequence;
            let again = if steps.is_empty() {
                "steps after that event may run again".to_owned()
            } else {
                format!(
                    "steps that may run again, with their side effects: {}",
                    steps.join(", ")
                )
            };
            format!("continue on a new branch after event {cutoff}; {again}")
        }
        _ => format!("cannot be recovered: {}. {}", remedy.why, remedy.hint),
    }
}

/// The progress: how many, how fast, and what was found so far.
fn so_far(told: &v1::VerifyExecutionsResponse) -> String {
    let (checked, total) = (grouped(told.checked_count), grouped(told.total_count));
    let per_second = grouped(rate(told).round() as i64);
    let wrong = match told.faulty_count {
        0 => String::new(),
        wrong => format!(", {} found", grouped(wrong)),
    };
    format!("{checked} of {total} checked ({per_second}/s{wrong})")
}

fn seconds(told: &v1::VerifyExecutionsResponse) -> f64 {
    let elapsed = told.elapsed_duration.unwrap_or_default();
    elapsed.seconds as f64 + f64::from(elapsed.nanos) / 1e9
}

fn rate(told: &v1::VerifyExecutionsResponse) -> f64 {
    told.checked_count as f64 / seconds(told).max(0.001)
}

/// A number as the wire has it.
fn wire(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_how_many_how_fast_and_what_was_found() {
        let mut checked = Checked {
            checked_count: 100_000,
            seconds: 12.3,
            executions_per_second: 8_130.08,
            ..Checked::default()
        };
        let clean = "100,000 executions checked in 12.3 s (8,130/s): no problem found";
        assert_eq!(checked.text(), clean);
        checked.faulty_count = 2;
        assert!(
            checked
                .text()
                .ends_with(": 2 of them differ from their logs")
        );
    }
}
