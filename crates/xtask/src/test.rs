//! `cargo xtask test`: the tests, part by part, and a summary at the end.

mod output;
mod part;
mod programs;
mod report;

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::Args;

use self::output::Output;
use self::part::select;
use self::programs::{Program, show};
use self::report::Report;
use crate::run::{root, succeed, target};
use crate::tally::Tally;
use crate::{browser, crash, deploy, docs, peers};

pub(crate) use self::part::Part;

#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Run only the tests whose names contain this text (default: all tests)
    filter: Option<String>,
    /// Run only this part; can be repeated (default: all parts)
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Run only what needs nothing but Rust, and say what is left out
    #[arg(long)]
    hermetic: bool,
}

impl Options {
    /// One part, with all of its tests.
    pub(crate) fn only(part: Part) -> Self {
        Self {
            only: vec![part],
            ..Self::default()
        }
    }
}

/// What the parts of one run share.
struct Run<'a> {
    filter: Option<&'a str>,
    /// Where the peers are, by the variables that the tests read.
    peers: Vec<(&'static str, PathBuf)>,
    programs: Vec<Program>,
    report: Report,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let filter = options.filter.as_deref();
    let parts = select(&options.only, options.hermetic, filter)?;
    let mut run = Run {
        filter,
        peers: Vec::new(),
        programs: Vec::new(),
        report: Report::default(),
    };
    run.install(&parts);
    if parts.iter().any(|part| *part != Part::Docs) {
        heading("build");
        let begin = Instant::now();
        // A failing compiler is not taken for a failing test.
        run.programs = programs::build(&parts)?;
        run.report.add("build", begin.elapsed(), Tally::default());
    }
    for part in parts {
        // A part whose peers are missing has failed already.
        if !run.report.has_failures(part) {
            run.part(part);
        }
    }
    println!();
    if options.hermetic {
        left_out();
    }
    print!("{}", run.report.table());
    if let (0, Some(filter)) = (run.report.count(), filter) {
        return Err(format!("no test has `{filter}` in its name"));
    }
    run.report.outcome()
}

impl Run<'_> {
    /// Installs what the parts need and is missing.
    fn install(&mut self, parts: &[Part]) {
        let begin = Instant::now();
        for part in parts {
            match variables(*part) {
                Ok(named) => self.peers.extend(named),
                Err(error) => self.report.broken(*part, error),
            }
        }
        self.report
            .add("install", begin.elapsed(), Tally::default());
    }

    fn part(&mut self, part: Part) {
        heading(part.title());
        let begin = Instant::now();
        let mut tally = Tally::default();
        for outcome in self.outcomes(part) {
            match outcome {
                Ok(output) => {
                    tally.add(output.tally);
                    self.report.failed(part, output.failed);
                }
                Err(error) => {
                    tally.failed += 1;
                    self.report.broken(part, error);
                }
            }
        }
        self.report.add(&part.name(), begin.elapsed(), tally);
    }

    /// Runs the programs of a part.
    fn outcomes(&self, part: Part) -> Vec<Result<Output, String>> {
        match part {
            Part::Docs => vec![single(docs::run(&docs::Options { check: true }))],
            Part::Crash => vec![single(crash_campaign())],
            Part::Rust => {
                let mut outcomes = self.programs_of(part);
                outcomes.push(programs::run_documentation(self.filter));
                outcomes
            }
            Part::Restate | Part::Temporal | Part::StepFunctions | Part::Browser => {
                self.programs_of(part)
            }
            Part::Deploy => vec![deploy::tests().and_then(|tests| self.pytest(tests))],
            Part::PythonClient => vec![self.python_client()],
            Part::PythonPackage => vec![self.python_package()],
        }
    }

    fn programs_of(&self, part: Part) -> Vec<Result<Output, String>> {
        let programs = self.programs.iter();
        let own = programs.filter(|it| Part::of_program(&it.package, &it.target) == part);
        own.map(|program| programs::run(program, self.filter, &self.peers))
            .collect()
    }

    /// A gRPC client in another language, generated from the committed image of the API.
    fn python_client(&self) -> Result<Output, String> {
        let mut client = Command::new(peers::PYTHON.install()?);
        client
            .arg(root().join("tests/python/run.py"))
            .args(self.filter);
        show(with_binary(&mut client), "tests/python")
    }

    /// The Python package: client, worker and providers, against the real binary.
    fn python_package(&self) -> Result<Output, String> {
        let mut tests = Command::new(peers::python_sdk()?);
        tests.args(["-m", "pytest", "-v"]);
        tests.arg(root().join("sdk/python/tests"));
        self.pytest(tests)
    }

    fn pytest(&self, mut tests: Command) -> Result<Output, String> {
        if let Some(filter) = self.filter {
            tests.args(["-k", filter]);
        }
        tests.env("PYTHONDONTWRITEBYTECODE", "1");
        show(with_binary(&mut tests), "pytest")
    }
}

/// The gateway that the build has made.
fn with_binary(command: &mut Command) -> &mut Command {
    command.env("STATEWAY_BINARY", target().join("debug/stateway"))
}

/// Installs the peers of a part, and names them by the variables that its tests read.
fn variables(part: Part) -> Result<Vec<(&'static str, PathBuf)>, String> {
    let mut named = Vec::new();
    match part {
        Part::Restate => named.extend(peers::restate()?),
        Part::Temporal => {
            // One story shows executions of both engines in one list.
            named.extend(peers::restate()?);
            named.extend(peers::temporal()?);
        }
        Part::StepFunctions => {
            named.push((
                "STATEWAY_SFN_EMULATOR_PYTHON",
                peers::STEP_FUNCTIONS.install()?,
            ));
        }
        Part::Browser => {
            named.extend(peers::openid_provider()?);
            named.extend(browser::browser()?);
            named.push(("STATEWAY_AXE", peers::axe_package().install()?));
        }
        Part::Docs | Part::Rust | Part::Crash => {}
        Part::Deploy => deploy::install()?,
        Part::PythonClient => drop(peers::PYTHON.install()?),
        Part::PythonPackage => drop(peers::PYTHON_SDK.install()?),
    }
    Ok(named)
}

/// A part that is one test.
fn single(outcome: Result<(), String>) -> Result<Output, String> {
    outcome.map(|()| {
        let mut output = Output::default();
        output.tally.passed = 1;
        output
    })
}

/// The short form of `cargo xtask crash`, on the programs of the tests.
fn crash_campaign() -> Result<(), String> {
    let mut crash = Command::new(target().join("debug/stateway-bench"));
    let state = target().join("crash-short.json");
    succeed(crash.args(crash::SHORT).arg("--state").arg(state))
        .map_err(|error| format!("kills under load: {error}"))
}

fn left_out() {
    use clap::ValueEnum;
    for tests in Part::value_variants()
        .iter()
        .filter_map(|part| part.needs())
    {
        println!("left out (--hermetic): {tests}");
    }
}

fn heading(what: &str) {
    println!("\n== {what}");
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(words: &[&str]) -> Result<Options, String> {
        let words = std::iter::once(&"test").chain(words);
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(line.options)
    }

    #[test]
    fn parts_and_a_filter_are_taken_in_any_order() {
        let options = parse(&["--only", "restate", "walk", "--only", "rust"]).expect("valid");
        assert_eq!(options.only, [Part::Restate, Part::Rust]);
        assert_eq!(options.filter.as_deref(), Some("walk"));
        assert!(!options.hermetic);
    }

    #[test]
    fn an_unknown_part_is_refused_with_the_list_of_parts() {
        let refused = parse(&["--only", "restat"]).expect_err("unknown");
        let parts = "docs, rust, crash, restate, temporal, step-functions, browser, deploy, \
                     python-client, python-package";
        assert!(refused.contains(parts), "{refused}");
    }

    #[test]
    fn every_part_in_the_documentation_exists_and_every_part_is_documented() {
        use clap::ValueEnum;
        let page = root().join("CONTRIBUTING.md");
        let page = std::fs::read_to_string(page).expect("CONTRIBUTING.md");
        let (_, table) = page.split_once("| part | ").expect("a table of parts");
        let rows = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with("| `"));
        let documented: Vec<_> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        let parts: Vec<_> = Part::value_variants().iter().map(|it| it.name()).collect();
        assert_eq!(documented, parts);
    }
}
