//! `cargo xtask deploy`: the tests of `deploy/`, with the programs that they need.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{cargo, follow, root, succeed, target};
use crate::tally::Tally;
use crate::{browser, peers};

/// A program that the tests run, and Debian's package with it.
struct Program {
    name: &'static str,
    package: &'static str,
    /// Whether the tests can do without it. They say so then.
    is_optional: bool,
}

/// promtool comes with a server that its package would start, so that the package is unpacked and not installed.
const PROMTOOL: &str = "promtool";
const PROMTOOL_PACKAGE: &str = "prometheus";

const PROGRAMS: [Program; 7] = [
    Program::needed("busybox", "busybox-static"),
    Program::needed("openssl", "openssl"),
    Program::needed("strace", "strace"),
    Program::needed("systemd-analyze", "systemd"),
    Program::optional("buildah", "buildah"),
    Program::optional("podman", "podman"),
    Program::optional("runc", "runc"),
];

impl Program {
    const fn needed(name: &'static str, package: &'static str) -> Self {
        Self {
            name,
            package,
            is_optional: false,
        }
    }

    const fn optional(name: &'static str, package: &'static str) -> Self {
        Self {
            name,
            package,
            is_optional: true,
        }
    }
}

/// Runs the tests of `deploy/` alone.
pub(crate) fn run() -> Result<(), String> {
    tests(&mut Tally::default())
}

/// Runs the tests of `deploy/` and counts them.
///
/// # Errors
/// A program is missing and cannot be installed, or a test failed.
pub(crate) fn tests(tally: &mut Tally) -> Result<(), String> {
    install()?;
    let promtool = promtool()?;
    let python = peers::deploy()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path).chain(promtool);
    let path = std::env::join_paths(path).map_err(|error| format!("PATH: {error}"))?;
    succeed(cargo().args(["build", "--quiet", "--package", "stateway-cli"]))?;
    let mut tests = Command::new(python);
    tests
        .args(["-m", "pytest", "-v", "-p", "no:cacheprovider"])
        .arg(root().join("deploy/tests"))
        .env("PATH", path)
        .env("STATEWAY_BINARY", target().join("debug/stateway"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    if follow(&mut tests, |line| tally.read(line))? {
        Ok(())
    } else {
        Err("the tests of deploy/ failed".to_owned())
    }
}

fn install() -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let needed = absent(&folders, false);
    if !needed.is_empty() {
        eprintln!("installing {} (once)", needed.join(", "));
        browser::install(&needed).map_err(|error| {
            let names = needed.join(", ");
            format!(
                "the tests of deploy/ need {names}: {error}\n\
                 hint: install these packages; `cargo xtask test --hermetic` leaves the tests out"
            )
        })?;
    }
    let builder = absent(&folders, true);
    if !builder.is_empty() {
        eprintln!("installing {} (once)", builder.join(", "));
        // The tests of the image can do without them, and report it.
        if let Err(error) = browser::install(&builder) {
            eprintln!("{error}");
        }
    }
    Ok(())
}

/// The folder of promtool, if it is not on the PATH.
fn promtool() -> Result<Option<PathBuf>, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(PROMTOOL).is_file()) {
        return Ok(None);
    }
    let home = target().join("peers/promtool");
    let folder = home.join("usr/bin");
    if folder.join(PROMTOOL).is_file() {
        return Ok(Some(folder));
    }
    eprintln!("unpacking {PROMTOOL} (once)");
    let unpacked = unpack(&home);
    unpacked.map_err(|error| {
        format!(
            "the tests of deploy/ need promtool: {error}\n\
             hint: put promtool on the PATH; `cargo xtask test --hermetic` leaves the tests out"
        )
    })?;
    Ok(Some(folder))
}

fn unpack(home: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", home.display());
    std::fs::create_dir_all(home).map_err(wrong)?;
    browser::update()?;
    let mut download = Command::new("apt-get");
    download.current_dir(home).args(["download", "--quiet=2"]);
    succeed(download.arg(PROMTOOL_PACKAGE))?;
    for entry in std::fs::read_dir(home).map_err(wrong)? {
        let file = entry.map_err(wrong)?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            succeed(Command::new("dpkg-deb").arg("-x").arg(&file).arg(home))?;
        }
    }
    Ok(())
}

/// The packages of the programs that are in none of these folders.
fn absent(folders: &[PathBuf], is_optional: bool) -> Vec<&'static str> {
    let usual = ["/usr/bin", "/usr/sbin"].map(Path::new);
    let is_here = |name: &str| {
        let folders = folders.iter().map(PathBuf::as_path).chain(usual);
        folders
            .map(|folder| folder.join(name))
            .any(|it| it.is_file())
    };
    let wanted = PROGRAMS
        .iter()
        .filter(|it| it.is_optional == is_optional && !is_here(it.name));
    wanted.map(|it| it.package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_tests_is_installed_or_comes_with_their_packages() {
        let folder = root().join("deploy/tests");
        let packages = std::fs::read_to_string(folder.join("requirements.txt")).expect("the pins");
        let mut found = 0;
        for entry in std::fs::read_dir(&folder).expect("the tests") {
            let path = entry.expect("a file").path();
            if path.extension().is_none_or(|extension| extension != "py") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a test");
            for rest in text.split("program(\"").skip(1) {
                let name = rest.split('"').next().unwrap_or_default();
                let is_debian = PROGRAMS.iter().any(|it| it.name == name && !it.is_optional);
                let is_debian = is_debian || name == PROMTOOL;
                let is_pinned = packages.lines().any(|pin| {
                    pin.starts_with(&format!("{name}-")) || pin.starts_with(&format!("{name}_"))
                });
                assert!(is_debian || is_pinned, "{}: {name}", path.display());
                found += 1;
            }
        }
        assert!(found >= 6, "{found}");
    }
}
