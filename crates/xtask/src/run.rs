//! Running other programs, with what they print in plain sight.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where builds go: the operator's target folder, or the repository's.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root());
    command
}

/// Runs a program to its end; its failure is ours.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let line = describe(command);
    let status = command
        .status()
        .map_err(|error| format!("`{line}` does not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{line}` ended with {status}"))
    }
}

/// Runs a program, passing on each line of its output and showing it to `look`. Whether it
/// succeeded.
pub(crate) fn follow(command: &mut Command, mut look: impl FnMut(&str)) -> Result<bool, String> {
    let line = describe(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{line}` does not start: {error}"))?;
    if let Some(output) = child.stdout.take() {
        for printed in BufReader::new(output).lines() {
            let printed = printed.map_err(|error| format!("`{line}`: {error}"))?;
            println!("{printed}");
            look(&printed);
        }
    }
    let status = child.wait().map_err(|error| format!("`{line}`: {error}"))?;
    Ok(status.success())
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
