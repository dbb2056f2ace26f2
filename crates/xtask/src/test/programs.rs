//! The Rust programs of the tests: one build for all parts, and running them.
//!
//! Cargo's own runner is not used, because it does not report which test of which program failed. nextest is not
//! used, because it runs each test in a process of its own: the tests of one program share a server or a store.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::output::Output;
use super::part::Part;
use crate::run::{cargo, lines, own, target};

/// A program with tests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) package: String,
    pub(super) target: String,
    pub(super) executable: PathBuf,
    /// The folder of the package, in which cargo runs its tests.
    folder: PathBuf,
}

/// The smallest test target. A build without a test target would choose other features of the dependencies, and
/// compile them again.
const SMALLEST: &str = "recorded";

/// Builds what these parts need. All parts use the same features, so that nothing is compiled twice.
///
/// # Errors
/// Something does not compile.
pub(super) fn build(parts: &[Part]) -> Result<Vec<Program>, String> {
    let mut build = cargo();
    build.args(["build", "--workspace"]);
    build.arg("--message-format=json-render-diagnostics");
    build.args(targets(parts));
    let mut programs = Vec::new();
    if !lines(&mut build, |line| programs.extend(program(line)))?.success() {
        return Err("the tests do not compile".to_owned());
    }
    programs.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(programs)
}

/// The programs that these parts run, as arguments of cargo.
fn targets(parts: &[Part]) -> Vec<&'static str> {
    // The suite of the stores is in the program of a library.
    if parts.contains(&Part::Rust) || parts.contains(&Part::Postgres) {
        return vec!["--all-targets"];
    }
    let mut arguments = vec!["--bin", "stateway", "--bin", "stateway-bench"];
    let mut names: Vec<&str> = parts
        .iter()
        .flat_map(|part| part.targets())
        .copied()
        .collect();
    names.push(SMALLEST);
    names.sort_unstable();
    names.dedup();
    for name in names {
        arguments.extend(["--test", name]);
    }
    arguments
}

/// The program in a message of cargo, if the message is about one with tests.
fn program(message: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?)
        .parent()?
        .to_owned();
    // `path+file:///stateway/crates/cli#stateway-cli@0.1.0`
    let id = message["package_id"].as_str()?;
    let (_, named) = id.rsplit_once('#')?;
    let package = named.split('@').next().unwrap_or(named).to_owned();
    let target = message["target"]["name"].as_str()?.to_owned();
    Some(Program {
        package,
        target,
        executable,
        folder,
    })
}

/// Runs the tests of a program, with the peers that these variables name.
///
/// # Errors
/// The program does not start, or it ends without a result.
pub(super) fn run(
    program: &Program,
    filter: Option<&str>,
    peers: &[(&'static str, PathBuf)],
) -> Result<Output, String> {
    let mut command = Command::new(&program.executable);
    command
        .current_dir(&program.folder)
        .arg("--show-output")
        .args(filter)
        .env("RUST_BACKTRACE", "1")
        .env("STATEWAY_BINARY", target().join("debug/stateway"))
        .envs(peers.iter().cloned());
    own(&mut command);
    command.env("CARGO_MANIFEST_DIR", &program.folder);
    let name = format!("{} {}", program.package, program.target);
    show(&mut command, &name)
}

/// Runs the examples in the documentation of the crates.
///
/// # Errors
/// Cargo does not start, or something does not compile.
pub(super) fn run_documentation(filter: Option<&str>) -> Result<Output, String> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--doc", "--no-fail-fast", "--quiet"]);
    command.arg("--").arg("--show-output").args(filter);
    show(&mut command, "examples in documentation")
}

/// Runs a test program and shows what a person needs of its output, in one piece: other programs run meanwhile.
///
/// # Errors
/// The program does not start, or it ends without a result.
pub(super) fn show(command: &mut Command, name: &str) -> Result<Output, String> {
    let mut output = Output::default();
    let mut shown = String::new();
    // What a program prints is shown at its end. One that never ends has a name in the log.
    println!("-- {name}: started");
    let status = lines(command, |line| {
        let is_shown = output.read(line);
        if is_shown && !(shown.is_empty() && line.is_empty()) {
            shown.push_str(line);
            shown.push('\n');
        }
    })?;
    if !shown.is_empty() {
        print!("-- {name}: ended\n{shown}");
    }
    let has_result = !output.failed.is_empty() || is_empty_selection(command, status);
    if status.success() || has_result {
        Ok(output)
    } else {
        Err(format!(
            "{name}: ended with {status}, without the name of a test"
        ))
    }
}

/// Whether pytest ended because the filter selects nothing.
fn is_empty_selection(command: &Command, status: ExitStatus) -> bool {
    status.code() == Some(5) && command.get_args().any(|argument| argument == "pytest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_with_all_programs_builds_everything_once() {
        assert_eq!(targets(&[Part::Rust, Part::Browser]), ["--all-targets"]);
    }

    #[test]
    fn other_parts_build_their_programs_with_the_features_of_the_tests() {
        let built = targets(&[Part::Crash, Part::Browser]).join(" ");
        let expected = "--bin stateway --bin stateway-bench --test browser --test recorded";
        assert_eq!(built, expected);
    }

    #[test]
    fn a_test_program_is_read_from_the_message_of_cargo() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///s/crates/cli#stateway-cli@0.1.0",
                "manifest_path":"/s/crates/cli/Cargo.toml","target":{{"kind":["test"],"name":"restate"}},
                "profile":{{"test":{test}}},"executable":"/s/target/debug/deps/restate-1"}}"#
            )
        };
        let expected = Program {
            package: "stateway-cli".to_owned(),
            target: "restate".to_owned(),
            executable: PathBuf::from("/s/target/debug/deps/restate-1"),
            folder: PathBuf::from("/s/crates/cli"),
        };
        assert_eq!(program(&message(true)), Some(expected));
        assert_eq!(program(&message(false)), None);
        assert_eq!(
            program(r#"{"reason":"build-finished","success":true}"#),
            None
        );
    }
}
