//! `cargo xtask test`: the tests, part by part, and a summary at the end.

mod output;
mod part;
mod programs;
mod report;

use std::iter;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use self::output::Output;
use self::part::select;
use self::programs::{Program, show};
use self::report::Report;
use crate::run::{root, succeed, target};
use crate::tally::Tally;
use crate::{browser, crash, debian, deploy, docs, peers};

pub(crate) use self::part::Part;

#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Run only the tests whose names contain this text (default: all tests)
    filter: Option<String>,
    /// Run only this part; can be repeated (default: all parts)
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Run only the tests that need nothing besides Rust, and print what is left out
    #[arg(long)]
    hermetic: bool,
    /// Also install missing packages of Debian, with `apt-get` and if necessary `sudo` (default: only as root, or
    /// if the environment has `CI=true`)
    #[arg(long)]
    install: bool,
    /// Run each failed test once more, alone, after all others; a test that passes then is listed as unstable (default:
    /// a failed test fails the run)
    #[arg(long)]
    repeat_failed: bool,
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

/// Many tests wait for a clock or for another process: one program alone leaves half of two cores idle.
const PROGRAMS_AT_A_TIME: usize = 2;

/// With more failures than these the cause is not a busy machine: no test is repeated.
const MOST_REPEATED: usize = 5;

/// What the parts of one run share.
struct Run<'a> {
    filter: Option<&'a str>,
    repeat_failed: bool,
    /// Where the peers are, by the variables that the tests read.
    peers: Vec<(&'static str, PathBuf)>,
    programs: Vec<Program>,
    report: Report,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let ci = std::env::var("CI").ok();
    if debian::is_asked_for(options.install, ci.as_deref(), debian::is_root()) {
        debian::allow();
    }
    let filter = options.filter.as_deref();
    let parts = select(&options.only, options.hermetic, filter)?;
    let begin = Instant::now();
    let mut run = prepare(&parts, filter)?;
    run.repeat_failed = options.repeat_failed;
    // A part whose peers are missing has failed already.
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|part| !run.report.has_failures(*part))
        .collect();
    heading("tests");
    let mut finished = run.finished(&parts);
    for part in parts {
        let of_part = finished.extract_if(.., |one| one.part == part);
        run.add(part, of_part);
    }
    println!();
    if options.hermetic {
        left_out();
    }
    print!("{}", run.report.table(begin.elapsed()));
    if let (0, Some(filter)) = (run.report.count(), filter) {
        return Err(format!("no test has `{filter}` in its name"));
    }
    run.report.outcome()
}

/// Builds the tests, and installs into `target/` what the parts need and is missing. Both at the same time: one
/// needs the processor, the other the network. The system is changed only if the caller asked for it.
fn prepare<'a>(parts: &[Part], filter: Option<&'a str>) -> Result<Run<'a>, String> {
    let (mut peers, mut report) = (Vec::new(), Report::default());
    let (installed, built) = thread::scope(|scope| {
        let installing = scope.spawn(|| timed(|| parts.iter().map(|it| variables(*it)).collect()));
        let built = parts.iter().any(|part| *part != Part::Docs).then(|| {
            heading("build");
            timed(|| programs::build(parts))
        });
        (installing.join(), built)
    });
    let (installed, took): (Vec<_>, _) = installed.unwrap_or_else(|panic| resume_unwind(panic));
    report.add("install", took, Tally::default());
    for (part, variables) in parts.iter().zip(installed) {
        match variables {
            Ok(named) => peers.extend(named),
            Err(error) => report.broken(*part, error),
        }
    }
    let mut programs = Vec::new();
    if let Some((built, took)) = built {
        // A failing compiler is not taken for a failing test.
        programs = built?;
        report.add("build", took, Tally::default());
    }
    Ok(Run {
        filter,
        repeat_failed: false,
        peers,
        programs,
        report,
    })
}

/// A result, and how long it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    (work(), begin.elapsed())
}

/// One program of a part.
#[derive(Clone, Copy)]
enum Job<'r> {
    Docs,
    Program(&'r Program),
    /// The tests of the stores in the program of the engine.
    Suite(&'r Program),
    Documentation,
    Crash,
    Deploy,
    PythonClient,
    PythonPackage,
}

/// A program that has ended.
struct Finished {
    part: Part,
    took: Duration,
    outcome: Result<Output, String>,
}

impl Run<'_> {
    /// Runs the programs of these parts, two at a time.
    fn finished(&self, parts: &[Part]) -> Vec<Finished> {
        let jobs = parts.iter().map(|part| (*part, self.jobs(*part)));
        let jobs = jobs.flat_map(|(part, jobs)| jobs.into_iter().map(move |job| (part, job)));
        let (jobs, finished) = (Mutex::new(jobs), Mutex::new(Vec::new()));
        let next = || locked(&jobs).next();
        thread::scope(|scope| {
            for _ in 0..PROGRAMS_AT_A_TIME {
                scope.spawn(|| {
                    while let Some((part, job)) = next() {
                        let (outcome, took) = timed(|| self.outcome(job, self.filter));
                        let ended = Finished {
                            part,
                            took,
                            outcome,
                        };
                        locked(&finished).push((job, ended));
                    }
                });
            }
        });
        let finished = finished
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        self.repeated(finished)
    }

    /// What the programs found, after the tests that failed ran once more, if the caller asked for it.
    fn repeated(&self, finished: Vec<(Job<'_>, Finished)>) -> Vec<Finished> {
        let failures = |one: &Finished| one.outcome.as_ref().map_or(0, |it| it.failed.len());
        let count: usize = finished.iter().map(|(_, one)| failures(one)).sum();
        let is_repeated = self.repeat_failed && (1..=MOST_REPEATED).contains(&count);
        if is_repeated {
            heading("failed tests, each alone");
        }
        let repeat = |(job, mut one): (Job<'_>, Finished)| {
            if let (true, Ok(output)) = (is_repeated, &mut one.outcome) {
                output.repeat(|test| self.outcome(job, Some(test)));
            }
            one
        };
        finished.into_iter().map(repeat).collect()
    }

    /// Adds what the programs of a part found.
    fn add(&mut self, part: Part, finished: impl Iterator<Item = Finished>) {
        let (mut tally, mut took) = (Tally::default(), Duration::ZERO);
        for one in finished {
            took += one.took;
            match one.outcome {
                Ok(output) => {
                    tally.add(output.tally);
                    self.report.failed(part, output.failed);
                    self.report.unstable(part, output.unstable);
                }
                Err(error) => {
                    tally.failed += 1;
                    self.report.broken(part, error);
                }
            }
        }
        self.report.add(&part.name(), took, tally);
    }

    /// The programs of a part.
    fn jobs(&self, part: Part) -> Vec<Job<'_>> {
        let programs = self.programs.iter();
        let own = programs.filter(|it| Part::of_program(&it.package, &it.target) == part);
        let own = own.map(Job::Program);
        match part {
            Part::Docs => vec![Job::Docs],
            Part::Crash => vec![Job::Crash],
            Part::Rust => iter::once(Job::Documentation).chain(own).collect(),
            Part::Postgres => own.chain(self.suite()).collect(),
            Part::Restate | Part::Temporal | Part::StepFunctions | Part::Browser => own.collect(),
            Part::Deploy => vec![Job::Deploy],
            Part::PythonClient => vec![Job::PythonClient],
            Part::PythonPackage => vec![Job::PythonPackage],
        }
    }

    /// The tests of the contract of a store, on PostgreSQL too.
    fn suite(&self) -> Option<Job<'_>> {
        let is_suite =
            |it: &&Program| it.package == "stateway-engine" && it.target == "stateway_engine";
        self.programs.iter().find(is_suite).map(Job::Suite)
    }

    /// Runs one program.
    fn outcome(&self, job: Job<'_>, filter: Option<&str>) -> Result<Output, String> {
        match job {
            Job::Docs => single(docs::run(&docs::Options { check: true })),
            Job::Program(program) => programs::run(program, filter, &self.peers),
            Job::Suite(program) => {
                // Without servers, the suite passes on the other stores only.
                for variable in peers::postgres::VARIABLES {
                    if !self.peers.iter().any(|(named, _)| *named == variable) {
                        return Err(format!("the suite of the stores has no {variable}"));
                    }
                }
                let filter = filter.unwrap_or("store::suite");
                programs::run(program, Some(filter), &self.peers)
            }
            Job::Documentation => programs::run_documentation(filter),
            Job::Crash => single(crash_campaign()),
            Job::Deploy => deploy::tests().and_then(|tests| pytest(tests, filter, "deploy")),
            Job::PythonClient => python_client(filter),
            Job::PythonPackage => python_package(filter),
        }
    }
}

/// A gRPC client in another language, generated from the committed image of the API.
fn python_client(filter: Option<&str>) -> Result<Output, String> {
    let mut client = Command::new(peers::PYTHON.install()?);
    client.arg(root().join("tests/python/run.py")).args(filter);
    show(with_binary(&mut client), "tests/python")
}

/// The Python package: client, worker and providers, against the real binary.
fn python_package(filter: Option<&str>) -> Result<Output, String> {
    let mut tests = Command::new(peers::python_sdk()?);
    tests.args(["-m", "pytest", "-v"]);
    tests.arg(root().join("sdk/python/tests"));
    pytest(tests, filter, "sdk/python")
}

fn pytest(mut tests: Command, filter: Option<&str>, name: &str) -> Result<Output, String> {
    if let Some(filter) = filter {
        tests.args(["-k", filter]);
    }
    tests.env("PYTHONDONTWRITEBYTECODE", "1");
    show(with_binary(&mut tests), name)
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
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
        Part::Postgres => named.extend(peers::postgres::install()?),
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
        assert!(!options.install, "the system is changed only on request");
    }

    #[test]
    fn an_unknown_part_is_refused_with_the_list_of_parts() {
        let refused = parse(&["--only", "restat"]).expect_err("unknown");
        let parts = "docs, python-package, browser, temporal, restate, postgres, \
                     step-functions, deploy, python-client, crash, rust";
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
