//! `cargo xtask fresh`: the README's commands on a machine that has built nothing yet, and the installation of the
//! program.
//!
//! The commit at HEAD is cloned into a temporary folder, with an empty `CARGO_HOME` and an empty target
//! folder beside the clone. The commands are read from README.md, so they cannot differ from it.

mod environment;
mod readme;
mod server;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use crate::run::{root, succeed};
use environment::Environment;
use readme::Step;

#[derive(Args)]
pub(crate) struct Options {
    /// Pass `--hermetic` on to the test command (default: `--install`, which installs packages of Debian)
    #[arg(long)]
    hermetic: bool,
    /// Keep the temporary folder (default: delete it)
    #[arg(long)]
    keep: bool,
    /// Stop after the command that serves (default: run every command)
    #[arg(long)]
    only_serve: bool,
}

/// The installation of the program, beside the clone, and its first call.
const INSTALL: [&str; 2] = [
    "cargo install --path crates/cli --locked --root ../installed",
    "../installed/bin/stateway --version",
];

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let folder = tempfile::Builder::new()
        .prefix("stateway-fresh-")
        .disable_cleanup(options.keep)
        .tempdir()
        .map_err(|error| format!("no temporary folder: {error}"))?;
    println!("in {}", folder.path().display());
    let mut times = Vec::new();
    let outcome = in_folder(folder.path(), options, &mut times);
    println!();
    for (what, took) in &times {
        println!("{:>8.1} s  {what}", took.as_secs_f64());
    }
    if options.keep {
        println!("kept: {}", folder.path().display());
    }
    outcome
}

type Times = Vec<(String, Duration)>;

fn in_folder(folder: &Path, options: &Options, times: &mut Times) -> Result<(), String> {
    let clone = folder.join("stateway");
    timed(times, "git clone", || clone_head(&clone))?;
    let environment = Environment::prepare(folder)?;
    let readme = clone.join("README.md");
    let text = std::fs::read_to_string(&readme)
        .map_err(|error| format!("{}: {error}", readme.display()))?;
    for step in steps(&text, options)? {
        println!("\n$ {}", step.command());
        timed(times, step.command(), || run_step(&step, &environment))?;
    }
    Ok(())
}

/// The README's commands, as the options change them.
fn steps(readme: &str, options: &Options) -> Result<Vec<Step>, String> {
    let mut steps = readme::steps(readme)?;
    // Before the tests, which take longest. The program is built with the features that only its own crate asks for.
    let is_serve = |step: &Step| matches!(step, Step::Serve(_));
    let at = steps.iter().position(is_serve).map_or(0, |at| at + 1);
    for command in INSTALL.into_iter().rev() {
        steps.insert(at, Step::Run(command.to_owned()));
    }
    if options.only_serve {
        steps.retain(|step| matches!(step, Step::Serve(_)));
    }
    let option = if options.hermetic {
        " --hermetic"
    } else {
        " --install"
    };
    for step in &mut steps {
        if let Step::Run(command) = step
            && command.ends_with("xtask test")
        {
            command.push_str(option);
        }
    }
    Ok(steps)
}

fn run_step(step: &Step, environment: &Environment) -> Result<(), String> {
    match step {
        Step::Serve(command) => server::answers(environment.shell(command)),
        Step::Run(command) => succeed(&mut environment.shell(command)),
    }
}

/// Clones the commit at HEAD. Changes that are not committed are not part of it.
fn clone_head(clone: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--no-checkout", "--no-hardlinks"]);
    succeed(git.arg(root()).arg(clone))?;
    let commit = head()?;
    println!("commit {commit}");
    let mut checkout = Command::new("git");
    checkout.arg("-C").arg(clone);
    succeed(checkout.args(["checkout", "--quiet", "--detach", &commit]))
}

fn head() -> Result<String, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root()).args(["rev-parse", "HEAD"]);
    let output = git
        .output()
        .map_err(|error| format!("`git rev-parse HEAD`: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("`git rev-parse HEAD`: {}", said.trim()))
    }
}

/// Runs one part and records how long it took, whether it succeeded or not.
fn timed<T>(
    times: &mut Times,
    what: &str,
    part: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let begin = Instant::now();
    let outcome = part();
    let what = match &outcome {
        Ok(_) => what.to_owned(),
        Err(_) => format!("{what} (failed)"),
    };
    times.push((what, begin.elapsed()));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "```sh\ncargo run -- serve\ncargo xtask test\n```\n";

    fn options(hermetic: bool, only_serve: bool) -> Options {
        Options {
            hermetic,
            keep: false,
            only_serve,
        }
    }

    fn serve() -> Step {
        Step::Serve("cargo run -- serve".to_owned())
    }

    fn installed() -> [Step; 2] {
        INSTALL.map(|command| Step::Run(command.to_owned()))
    }

    #[test]
    fn without_options_the_program_is_installed_and_the_tests_may_install() {
        let [install, call] = installed();
        let expected = vec![
            serve(),
            install,
            call,
            Step::Run("cargo xtask test --install".to_owned()),
        ];
        assert_eq!(steps(README, &options(false, false)), Ok(expected));
    }

    #[test]
    fn hermetic_is_passed_on_to_the_test_command_only() {
        let test = Step::Run("cargo xtask test --hermetic".to_owned());
        let [install, call] = installed();
        assert_eq!(
            steps(README, &options(true, false)),
            Ok(vec![serve(), install, call, test])
        );
    }

    #[test]
    fn only_serve_leaves_the_test_command_out() {
        assert_eq!(steps(README, &options(true, true)), Ok(vec![serve()]));
    }

    #[test]
    fn the_time_of_a_failed_part_is_reported_too() {
        let mut times = Times::new();
        let failed: Result<(), String> = timed(&mut times, "a part", || Err("no".to_owned()));
        assert_eq!(failed, Err("no".to_owned()));
        assert_eq!(times[0].0, "a part (failed)");
    }
}
