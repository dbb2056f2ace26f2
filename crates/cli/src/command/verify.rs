//! `stateway verify`: compares the stored data of executions with their logs.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use stateway_client as client;
use stateway_client::{Call, v1};
use stateway_engine::recovery::StoreFile;

use crate::context::{Context, talk};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::{resource, view};

/// How often progress is printed without a terminal.
const PACE: Duration = Duration::from_secs(5);
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
        progress.tell(&told);
        checked.take(&told);
        done = told.done;
    }
    progress.end();
    for provider in &checked.unreachable {
        talk(&format!(
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
        progress.tell(&told);
        checked.take(&told);
        let room = MOST_SHOWN.saturating_sub(checked.verdicts.len());
        let verdicts = page.wrong.iter().take(room).map(view::Verdict::from);
        checked.verdicts.extend(verdicts);
        after = page.next;
    }
    progress.end();
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
            0 => "nothing found".to_owned(),
            1 => "1 of them is not as its log says".to_owned(),
            wrong => format!("{} of them are not as their logs say", grouped(wrong)),
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
            "{name}: {} events checked, nothing found",
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
            let again = match steps.is_empty() {
                true => "steps after that event may run again".to_owned(),
                false => format!(
                    "steps that may run again, with their side effects: {}",
                    steps.join(", ")
                ),
            };
            format!("continue on a new branch after event {cutoff}; {again}")
        }
        _ => format!("cannot be recovered: {}. {}", remedy.why, remedy.hint),
    }
}

/// The progress: a bar on a terminal, otherwise a line from time to time.
struct Progress {
    bar: Option<ProgressBar>,
    told: std::time::Instant,
}

impl Progress {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {eta}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self {
            bar,
            told: std::time::Instant::now(),
        }
    }

    fn tell(&mut self, told: &v1::VerifyExecutionsResponse) {
        let per_second = grouped(rate(told).round() as i64);
        if let Some(bar) = &self.bar {
            bar.set_length(count(told.total_count.max(told.checked_count)));
            bar.set_position(count(told.checked_count));
            let wrong = match told.faulty_count {
                0 => String::new(),
                wrong => format!(", {} found", grouped(wrong)),
            };
            bar.set_message(format!("({per_second}/s{wrong})"));
        } else if self.told.elapsed() >= PACE {
            self.told = std::time::Instant::now();
            let (checked, total) = (grouped(told.checked_count), grouped(told.total_count));
            talk(&format!("{checked} of {total} checked ({per_second}/s)"));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
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

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Groups digits, because 100,000 is easier to read than 100000.
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        let told: Vec<_> = [0, 999, 1_000, 8_130, 100_000, 1_234_567]
            .map(grouped)
            .into();
        assert_eq!(told, ["0", "999", "1,000", "8,130", "100,000", "1,234,567"]);
    }

    #[test]
    fn the_summary_says_how_many_how_fast_and_what_was_found() {
        let mut checked = Checked {
            checked_count: 100_000,
            seconds: 12.3,
            executions_per_second: 8_130.08,
            ..Checked::default()
        };
        let clean = "100,000 executions checked in 12.3 s (8,130/s): nothing found";
        assert_eq!(checked.text(), clean);
        checked.faulty_count = 2;
        assert!(
            checked
                .text()
                .ends_with(": 2 of them are not as their logs say")
        );
    }
}
