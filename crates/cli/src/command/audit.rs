//! `stateway audit`: checks and lists the records of a gateway. Needs no gateway.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use stateway_audit::{ChainKey, Record, Report, parse};
use stateway_gateway::{AuditLog, LineEnd};
use stateway_identity::Glob;
use stateway_phrases::visible;

use crate::arguments::{Globals, Output};
use crate::config::{Overrides, load};
use crate::context::{print, print_message, to_json};
use crate::duration::Span;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{Paint, Table};

/// Checks and lists audit records.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check that no record was changed, removed, reordered or cut off
    Verify(Verify),
    /// List records, the oldest first
    List(List),
}

/// The files of the log.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// File of the log (default: `audit.file` of the configuration)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// File with the key of the hash chain (default: `audit.key_file` of the configuration)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Configuration file (default: `stateway.toml` in this folder, if it exists)
    #[arg(long, env = "STATEWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Checks the log.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway audit verify
  stateway audit verify --file /var/log/stateway/audit.jsonl -o json
  stateway audit verify --expect 1041:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

The check reads the log and all its rotated files. Without a problem the exit code is 0. The last line of the \
output is the number and the hash of the last record: keep it elsewhere and give it to --expect later, so \
that a log that was rewritten or cut off together with its anchor is found.")]
pub struct Verify {
    #[command(flatten)]
    place: Place,
    /// Record that the log must contain, as NUMBER:HASH; may be given several times
    #[arg(long, value_name = "NUMBER:HASH")]
    expect: Vec<Expected>,
}

/// A record that the log must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Expected {
    seq: u64,
    hash: String,
}

impl std::str::FromStr for Expected {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it as NUMBER:HASH, as `audit verify` prints it".to_owned();
        let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(Self {
            seq: seq.parse().map_err(|_| wrong())?,
            hash: is_hash
                .then(|| hash.to_ascii_lowercase())
                .ok_or_else(wrong)?,
        })
    }
}

/// Lists records.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway audit list --since 1h
  stateway audit list --actor 'ci-*' --verb StartExecution -o json
  stateway audit list --refused --since 2026-03-01T00:00:00Z --until 2026-03-02T00:00:00Z

Patterns may contain `*`. Records that were changed cannot be listed: they are reported, and so are gaps in the \
numbers, with exit code 8. `stateway audit verify` checks the whole log.")]
pub struct List {
    #[command(flatten)]
    place: Place,
    /// Only records of this time or later: a time, or how long ago (for example 1h)
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Only records before this time: a time, or how long ago
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Only records of actors whose name matches this pattern
    #[arg(long, value_name = "PATTERN")]
    actor: Option<String>,
    /// Only records of actors whose tenant matches this pattern
    #[arg(long, value_name = "PATTERN")]
    tenant: Option<String>,
    /// Only records of this verb, for example StartExecution
    #[arg(long, value_name = "PATTERN")]
    verb: Option<String>,
    /// Only records whose object, result or execution id matches this pattern
    #[arg(long, value_name = "PATTERN")]
    object: Option<String>,
    /// Only records with this outcome, for example OK or PERMISSION_DENIED
    #[arg(long, value_name = "CODE")]
    outcome: Option<String>,
    /// Only records of the request with this id
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only records whose outcome is not OK
    #[arg(long)]
    refused: bool,
    /// Maximum number of records, the newest ones (default: 1000)
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    limit: usize,
}

/// A time, or how long ago.
#[derive(Debug, Clone, Copy)]
enum Moment {
    At(Timestamp),
    Ago(Span),
}

impl std::str::FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse() {
            return Ok(Self::At(time));
        }
        let span = text.parse::<Span>();
        span.map(Self::Ago)
            .map_err(|_| "write a time like 2026-03-01T09:00:00Z, or a duration like 1h".to_owned())
    }
}

impl Moment {
    fn time(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(span) => now
                .checked_sub(std::time::Duration::from(span))
                .unwrap_or(Timestamp::MIN),
        }
    }
}

/// What `verify -o json` prints.
#[derive(Debug, Serialize)]
struct Verified<'r> {
    intact: bool,
    records: u64,
    first: Option<u64>,
    last: Option<u64>,
    hash: &'r str,
    crashes: u64,
    unfinished: bool,
    problems: Vec<ProblemReport>,
    unlisted_problems: u64,
}

#[derive(Debug, Serialize)]
struct ProblemReport {
    file: Option<String>,
    line: Option<usize>,
    message: String,
}

/// What `list -o json` prints for each record.
#[derive(Debug, Serialize)]
struct Listed {
    seq: u64,
    #[serde(flatten)]
    record: Record,
}

impl Audit {
    pub(super) fn run(self, globals: &Globals) -> Outcome {
        match self {
            Self::Verify(command) => command.run(globals.output),
            Self::List(command) => command.run(globals.output),
        }
    }
}

impl Place {
    fn log(&self) -> Result<(AuditLog, ChainKey, PathBuf), Failure> {
        let (mut file, mut key_file) = (self.file.clone(), self.key_file.clone());
        if file.is_none() || key_file.is_none() {
            let overrides = Overrides {
                config: self.config.clone(),
                ..Overrides::default()
            };
            let config = load(&overrides).map_err(|error| super::config::refused(&error))?;
            let audit = config.settings.audit;
            if file.is_none() && audit.is_none() {
                return Err(Failure::usage("no audit log is configured")
                    .hint("Give --file FILE, or configure `file` in [audit]."));
            }
            let (configured, key_of_configured) = audit.map(|it| (it.file, it.key_file)).unzip();
            file = file.or(configured);
            key_file = key_file.or(key_of_configured.flatten());
        }
        let file = file.unwrap_or_default();
        let key = match &key_file {
            None => ChainKey::default(),
            Some(path) => {
                let unusable = |why: String| {
                    let message = format!(
                        "the key of the chain ({}) cannot be used: {why}",
                        path.display()
                    );
                    Failure::usage(message)
                };
                let text =
                    std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
                ChainKey::new(&text).map_err(|error| unusable(error.to_string()))?
            }
        };
        Ok((AuditLog::new(&file, key.clone()), key, file))
    }
}

fn unreadable(file: &std::path::Path, error: &std::io::Error) -> Failure {
    let message = format!("the audit log {} cannot be read: {error}", file.display());
    Failure::new(Exit::NotFound, message).hint("Give the file of the log with --file FILE.")
}

/// Refuses a log that was written with another key: each of its records looks changed.
fn check_key(log: &AuditLog, file: &std::path::Path) -> Result<(), Failure> {
    let is_of_another = log.is_of_another_key();
    if !is_of_another.map_err(|error| unreadable(file, &error))? {
        return Ok(());
    }
    let message = format!(
        "no record of {} matches the key: the log was written with another key, or without one",
        file.display()
    );
    Err(Failure::new(Exit::Found, message).hint("Give the key with --key-file FILE."))
}

impl Verify {
    fn run(self, output: Output) -> Outcome {
        let (log, key, file) = self.place.log()?;
        let report = log.verify(Vec::new());
        let report = report.map_err(|error| unreadable(&file, &error))?;
        if report.records == 0 {
            check_key(&log, &file)?;
        }
        let missing = self
            .missing(&log, &key)
            .map_err(|error| unreadable(&file, &error))?;
        let mut problems: Vec<ProblemReport> =
            report.problems.iter().map(ProblemReport::of).collect();
        problems.extend(missing.iter().map(|expected| ProblemReport {
            file: None,
            line: None,
            message: format!(
                "the log does not contain record {} with the expected hash: it was rewritten or cut off",
                expected.seq
            ),
        }));
        let is_intact = problems.is_empty();
        match output {
            Output::Json => print(&to_json(&shown(&report, problems))?)?,
            Output::Table => {
                for problem in &problems {
                    print(&visible(&problem.to_string()))?;
                }
                if report.unlisted > 0 {
                    print(&format!("{} further problems", report.unlisted))?;
                }
                if report.torn > 0 {
                    print_message(&format!(
                        "{} times the gateway ended while it wrote a record; the unfinished record was cut off \
                         and its call was never answered",
                        report.torn
                    ));
                }
                if report.is_torn_now {
                    print_message(
                        "the last record is unfinished: it is being written, or the gateway ended meanwhile",
                    );
                }
                let (first, last) = report.range.unwrap_or_default();
                let state = if is_intact { "intact" } else { "NOT intact" };
                print_message(&format!(
                    "{state}: {} records, {first} to {last}",
                    report.records
                ));
                print(&format!("{last}:{}", report.hash))?;
            }
        }
        Ok(if is_intact { Exit::Ok } else { Exit::Found })
    }

    /// The expected records that the log does not contain.
    fn missing(&self, log: &AuditLog, key: &ChainKey) -> std::io::Result<Vec<Expected>> {
        let mut missing = self.expect.clone();
        if !missing.is_empty() {
            log.each(|line| {
                if let Ok(line) = parse(key, line.text) {
                    let chain = line.chain();
                    missing.retain(|it| it.seq != chain.seq || it.hash != chain.hash());
                }
            })?;
        }
        Ok(missing)
    }
}

fn shown(report: &Report, problems: Vec<ProblemReport>) -> Verified<'_> {
    Verified {
        intact: problems.is_empty(),
        records: report.records,
        first: report.range.map(|(first, _)| first),
        last: report.range.map(|(_, last)| last),
        hash: &report.hash,
        crashes: report.torn,
        unfinished: report.is_torn_now,
        problems,
        unlisted_problems: report.unlisted,
    }
}

impl ProblemReport {
    fn of(problem: &stateway_audit::Problem) -> Self {
        let (file, line) = problem.place.clone().unzip();
        Self {
            file,
            line,
            message: problem.kind.to_string(),
        }
    }
}

impl std::fmt::Display for ProblemReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            write!(f, "{file}:{line}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl List {
    fn run(self, output: Output) -> Outcome {
        let (log, key, file) = self.place.log()?;
        let wanted = RecordFilter::of(&self, Timestamp::now());
        let mut found = std::collections::VecDeque::new();
        let mut damage = Damage::default();
        let read = log.each(|line| {
            let place = (line.file, line.number);
            match line.end {
                LineEnd::Whole => {}
                // A record that is being written.
                LineEnd::Unfinished => return,
                LineEnd::CutOff => return damage.note(place, "the line has no end".to_owned()),
            }
            let line = match parse(&key, line.text) {
                Ok(line) => line,
                Err(error) => return damage.note(place, error.to_string()),
            };
            damage.follow(place, line.seq);
            if wanted.has(&line.record) {
                if found.len() == self.limit {
                    found.pop_front();
                }
                found.push_back(Listed {
                    seq: line.seq,
                    record: line.record,
                });
            }
        });
        read.map_err(|error| unreadable(&file, &error))?;
        if damage.last.is_none() {
            check_key(&log, &file)?;
        }
        if !file.exists() {
            damage.note_missing(&file);
        }
        let found: Vec<_> = found.into_iter().take(self.limit).collect();
        match output {
            Output::Json => {
                let listed = serde_json::json!({
                    "records": found,
                    "problems": damage.found,
                    "unlisted_problems": damage.unlisted,
                });
                print(&to_json(&listed)?)?;
            }
            Output::Table => print(&table(&found))?,
        }
        Ok(damage.report())
    }
}

/// The most problems that a list names.
const MOST_PROBLEMS: usize = 20;

/// Records that a list cannot show.
#[derive(Debug, Default)]
struct Damage {
    last: Option<u64>,
    found: Vec<ProblemReport>,
    unlisted: u64,
}

impl Damage {
    fn note(&mut self, (file, line): (&str, usize), message: String) {
        if self.found.len() == MOST_PROBLEMS {
            self.unlisted += 1;
            return;
        }
        self.found.push(ProblemReport {
            file: Some(file.to_owned()),
            line: Some(line),
            message,
        });
    }

    fn note_missing(&mut self, file: &std::path::Path) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.found.push(ProblemReport {
            file: None,
            line: None,
            message: format!("the newest file of the log, `{name}`, is missing"),
        });
    }

    /// Takes the number of the next record.
    fn follow(&mut self, place: (&str, usize), seq: u64) {
        let expected = self.last.map(|last| last + 1);
        self.last = Some(seq);
        if let Some(expected) = expected.filter(|expected| *expected != seq) {
            let message = format!("record {seq} follows where record {expected} is expected");
            self.note(place, message);
        }
    }

    /// Prints what the list does not show.
    fn report(&self) -> Exit {
        if self.found.is_empty() {
            return Exit::Ok;
        }
        for problem in &self.found {
            print_message(&format!("warning: {problem}"));
        }
        if self.unlisted > 0 {
            print_message(&format!("warning: {} further problems", self.unlisted));
        }
        print_message(
            "the log is NOT intact: records that were changed are not listed. `stateway audit verify` checks \
             the whole log.",
        );
        Exit::Found
    }
}

/// Which records are listed.
struct RecordFilter {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    actor: Option<Glob>,
    tenant: Option<Glob>,
    verb: Option<Glob>,
    object: Option<Glob>,
    outcome: Option<String>,
    request: Option<String>,
    refused: bool,
}

impl RecordFilter {
    fn of(list: &List, now: Timestamp) -> Self {
        let glob = |text: &Option<String>| text.as_deref().map(Glob::new);
        Self {
            since: list.since.map(|it| it.time(now)),
            until: list.until.map(|it| it.time(now)),
            actor: glob(&list.actor),
            tenant: glob(&list.tenant),
            verb: glob(&list.verb),
            object: glob(&list.object),
            outcome: list.outcome.as_ref().map(|code| code.to_ascii_uppercase()),
            request: list.request.clone(),
            refused: list.refused,
        }
    }

    fn has(&self, record: &Record) -> bool {
        let fits =
            |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.fits(text));
        self.since.is_none_or(|since| record.time >= since)
            && self.until.is_none_or(|until| record.time < until)
            && fits(&self.actor, &record.actor)
            && fits(&self.tenant, &record.tenant)
            && fits(&self.verb, &record.verb)
            && [&record.object, &record.result, &record.execution_id]
                .iter()
                .any(|name| fits(&self.object, name))
            && self
                .outcome
                .as_ref()
                .is_none_or(|code| *code == record.outcome)
            && self
                .request
                .as_ref()
                .is_none_or(|id| *id == record.request_id)
            && !(self.refused && record.outcome == "OK")
    }
}

fn table(found: &[Listed]) -> String {
    let headings = [
        "NUMBER", "TIME", "ACTOR", "TENANT", "PROOF", "VERB", "OBJECT", "OUTCOME", "RULE",
        "ADDRESS", "REQUEST",
    ];
    let mut table = Table::new(&headings, Paint::new(false));
    for Listed { seq, record } in found {
        let object = match (&*record.object, &*record.result) {
            ("", result) => result.to_owned(),
            (object, "") if !record.execution_id.is_empty() => {
                format!("{object} ({})", record.execution_id)
            }
            (object, "") => object.to_owned(),
            (object, result) if object == result => object.to_owned(),
            (object, result) => format!("{object} -> {result}"),
        };
        let outcome = if record.reason.is_empty() {
            record.outcome.clone()
        } else {
            format!("{} {}", record.outcome, record.reason)
        };
        let note = if record.note.is_empty() {
            object
        } else {
            format!("{object}{}", record.note)
        };
        let cells = [
            &seq.to_string(),
            &record.time.to_string(),
            &record.actor,
            &record.tenant,
            &record.proof,
            &record.verb,
            &note,
            &outcome,
            &record.rule,
            &record.address,
            &record.request_id,
        ];
        // Callers chose most of these texts.
        let cells = cells.map(|cell| visible(cell).into_owned());
        table.row(cells.into());
    }
    table.text()
}
