//! Running other programs, with what they print in plain sight.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where builds go: the operator's target folder, or the repository's.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs us, without the variables that describe this package: build scripts of other packages
/// (`ring`) would see them change and run again.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root());
    own(&mut command);
    command
}

/// Leaves out the variables that describe this package.
pub(crate) fn own(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_package) {
            command.env_remove(name);
        }
    }
}

/// Whether cargo sets a variable for the package that it compiles or runs.
fn describes_package(name: &str) -> bool {
    let exact = [
        "CARGO_BIN_NAME",
        "CARGO_CRATE_NAME",
        "CARGO_PRIMARY_PACKAGE",
        "OUT_DIR",
    ];
    let families = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_EXE_"];
    exact.contains(&name) || families.iter().any(|family| name.starts_with(family))
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

/// Runs a program and hands each line of its output to `take`. Returns how the program ended.
pub(crate) fn lines(
    command: &mut Command,
    mut take: impl FnMut(&str),
) -> Result<ExitStatus, String> {
    let line = describe(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{line}` does not start: {error}"))?;
    if let Some(output) = child.stdout.take() {
        for printed in BufReader::new(output).split(b'\n') {
            let printed = printed.map_err(|error| format!("`{line}`: {error}"))?;
            take(String::from_utf8_lossy(&printed).trim_end_matches('\r'));
        }
    }
    child.wait().map_err(|error| format!("`{line}`: {error}"))
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_this_package_are_not_passed_to_other_builds() {
        // It is set for this test as it is for `cargo xtask`.
        let name = "CARGO_MANIFEST_DIR";
        assert!(std::env::var_os(name).is_some());
        let command = cargo();
        let mut removed = command.get_envs().filter(|(_, value)| value.is_none());
        assert!(removed.any(|(removed, _)| removed == name));
        for name in [name, "CARGO_PKG_NAME", "CARGO_BIN_EXE_stateway", "OUT_DIR"] {
            assert!(describes_package(name), "{name}");
        }
        assert!(!describes_package("CARGO_TARGET_DIR"));
        assert!(!describes_package("CARGO_HOME"));
    }
}
