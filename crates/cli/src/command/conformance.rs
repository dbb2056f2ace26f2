//! `stateway conformance`: a provider in another process against the contract kit.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use stateway_conformance::{CaseResult, Report, Verdict, WireHarness, junit, run};
use stateway_phrases::visible;
use stateway_provider_remote::Config;

use crate::arguments::{Globals, Output};
use crate::context::{print, to_json_line};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Checks a provider in another process against the contract.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway conformance unix:/run/acme.sock
  stateway conformance http://127.0.0.1:7000 --filter watch::
  stateway conformance unix:/run/acme.sock --junit report.xml

The provider must be a test build that also serves stateway.provider.v1.Staging. The command deletes the \
executions of its engine. It needs no gateway. Exits 8 if a case failed or if every case was skipped; single \
skipped cases are no failure.")]
pub struct Conformance {
    /// Address of the provider: unix:/path, https://host:port, or http://127.0.0.1:port
    address: String,
    /// Only cases whose name contains this text (default: every case)
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Write the results to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// With https: the certificate authorities of the provider, PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// With https: the certificate and key of this command, PEM
    #[arg(long, value_name = "FILE")]
    identity_file: Option<PathBuf>,
}

/// One line of `-o json`.
#[derive(Debug, Serialize)]
struct Line<'r> {
    case: &'r str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'r str>,
    seconds: f64,
}

impl Conformance {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let config = Config {
            address: self.address.clone(),
            ca_file: self.ca_file,
            identity_file: self.identity_file,
        };
        let harness = WireHarness::connect(config).await.map_err(|error| {
            let exit = if error.kind.is_outage() {
                Exit::Unreachable
            } else {
                Exit::Usage
            };
            Failure::new(exit, error.message.clone()).hint(error.hint.clone())
        })?;
        let output = globals.output;
        let filter = self.filter;
        // Each case has a runtime of its own, which cannot run inside this one.
        let ran = tokio::task::spawn_blocking(move || {
            run(harness, &filter, |result| show(result, output))
        });
        let report = ran.await.map_err(|error| {
            Failure::new(
                Exit::Internal,
                format!("the cases could not be run: {error}"),
            )
        })?;
        if let Some(path) = &self.junit {
            let written = std::fs::write(path, junit(&report, &self.address));
            written.map_err(|error| {
                Failure::new(Exit::Refused, format!("{}: {error}", path.display()))
            })?;
        }
        sum_up(&report, output)
    }
}

/// Prints one case as it ends.
fn show(result: &CaseResult, output: Output) {
    let (word, reason) = match &result.verdict {
        Verdict::Passed => ("passed", None),
        Verdict::Failed(why) => ("failed", Some(why.as_str())),
        Verdict::Skipped(why) => ("skipped", Some(why.as_str())),
    };
    let line = match (output, reason) {
        (Output::Table, None) => format!("{word:<8}{}", visible(&result.name)),
        (Output::Table, Some(why)) => {
            format!("{word:<8}{}: {}", visible(&result.name), visible(why))
        }
        (Output::Json, _) => {
            let line = Line {
                case: &result.name,
                result: word,
                reason,
                seconds: result.took.as_secs_f64(),
            };
            to_json_line(&line).unwrap_or_default()
        }
    };
    // The exit code is the result also if standard output cannot be written.
    let _ = print(&line);
}

fn sum_up(report: &Report, output: Output) -> Outcome {
    let (passed, failed, skipped) = report.counts();
    if report.results.is_empty() {
        return Err(Failure::usage(
            "no case has a name that contains the text of --filter",
        ));
    }
    if output == Output::Table {
        let total = report.results.len();
        print(&format!(
            "{total} cases, {passed} passed, {failed} failed, {skipped} skipped"
        ))?;
    }
    if passed + failed == 0 {
        let message = "every case was skipped, so nothing was checked";
        return Err(Failure::new(Exit::Found, message.to_owned()));
    }
    Ok(if failed == 0 { Exit::Ok } else { Exit::Found })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sum_up_of(verdicts: &[Verdict]) -> Exit {
        let result = |verdict: &Verdict| CaseResult {
            name: "group::case".to_owned(),
            verdict: verdict.clone(),
            took: Duration::ZERO,
        };
        let results = verdicts.iter().map(result).collect();
        match sum_up(&Report { results }, Output::Json) {
            Ok(exit) => exit,
            Err(failure) => failure.exit,
        }
    }

    #[test]
    fn only_cases_that_passed_are_a_success() {
        let (passed, skipped) = (Verdict::Passed, Verdict::Skipped("why".to_owned()));
        let failed = Verdict::Failed("why".to_owned());
        assert_eq!(sum_up_of(&[passed.clone(), skipped.clone()]), Exit::Ok);
        assert_eq!(sum_up_of(&[passed, failed, skipped.clone()]), Exit::Found);
        assert_eq!(sum_up_of(&[skipped]), Exit::Found);
        assert_eq!(sum_up_of(&[]), Exit::Usage);
    }
}
