//! `cargo xtask deploy`: the tests of `deploy/`, with the programs that they need.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{root, succeed, target};
use crate::setup::Item;
use crate::{debian, peers, test};

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
    test::run(&test::Options::only(test::Part::Deploy))
}

/// The tests of `deploy/`, with everything that they need.
///
/// # Errors
/// A program is missing and cannot be installed.
pub(crate) fn tests() -> Result<Command, String> {
    let promtool = promtool()?;
    let python = peers::DEPLOY.install()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&path).chain(promtool);
    let path = std::env::join_paths(path).map_err(|error| format!("PATH: {error}"))?;
    let mut tests = Command::new(python);
    tests
        .args(["-m", "pytest", "-v", "-p", "no:cacheprovider"])
        .arg(root().join("deploy/tests"))
        .env("PATH", path);
    Ok(tests)
}

/// Installs the programs and packages of the tests that are missing.
///
/// # Errors
/// One cannot be installed, and the tests cannot do without it.
pub(crate) fn install() -> Result<(), String> {
    programs()?;
    promtool()?;
    peers::DEPLOY.install()?;
    Ok(())
}

/// The programs, for `cargo xtask setup`.
pub(crate) fn items() -> Vec<Item> {
    let item =
        |name: &str, place: PathBuf, is_installed, install: fn() -> Result<(), String>| Item {
            parts: &[test::Part::Deploy],
            name: name.to_owned(),
            version: "Debian's current".to_owned(),
            source: "Debian",
            place,
            is_installed,
            install: Box::new(install),
        };
    let mut items: Vec<Item> = PROGRAMS
        .iter()
        .map(|program| {
            let found = find(program.name);
            let is_installed = found.is_some();
            let place = found.unwrap_or_else(|| PathBuf::from("/usr/bin"));
            item(program.package, place, is_installed, programs)
        })
        .collect();
    let unpacked = unpacked_promtool();
    let found = find(PROMTOOL).or_else(|| unpacked.is_file().then(|| unpacked.clone()));
    let is_installed = found.is_some();
    let place = found.unwrap_or(unpacked);
    items.push(item(PROMTOOL, place, is_installed, || promtool().map(drop)));
    items
}

/// Where a program is, on the PATH or where Debian puts programs.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/usr/sbin"].map(PathBuf::from);
    let places = std::env::split_paths(&path).chain(usual);
    places
        .map(|folder| folder.join(name))
        .find(|it| it.is_file())
}

fn programs() -> Result<(), String> {
    let needed = absent(false);
    if !needed.is_empty() {
        debian::install(&needed).map_err(|error| explain(&error))?;
    }
    let builder = absent(true);
    if !builder.is_empty() {
        // The tests of the image can do without them, and report it.
        if let Err(error) = debian::install(&builder) {
            eprintln!("the image in deploy/ is tested without a builder: {error}");
        }
    }
    Ok(())
}

fn explain(error: &str) -> String {
    format!(
        "the tests of deploy/: {error}\n\
         hint: `cargo xtask test --hermetic` leaves these tests out"
    )
}

/// The folder of promtool, if it is not on the PATH.
fn promtool() -> Result<Option<PathBuf>, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(PROMTOOL).is_file()) {
        return Ok(None);
    }
    let unpacked = unpacked_promtool();
    let folder = unpacked.parent().map(Path::to_owned);
    if unpacked.is_file() {
        return Ok(folder);
    }
    unpack(&promtool_home()).map_err(|error| explain(&error))?;
    Ok(folder)
}

fn promtool_home() -> PathBuf {
    target().join("peers/promtool")
}

fn unpacked_promtool() -> PathBuf {
    promtool_home().join("usr/bin").join(PROMTOOL)
}

fn unpack(home: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", home.display());
    std::fs::create_dir_all(home).map_err(wrong)?;
    debian::download(PROMTOOL_PACKAGE, home)?;
    for entry in std::fs::read_dir(home).map_err(wrong)? {
        let file = entry.map_err(wrong)?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            succeed(Command::new("dpkg-deb").arg("-x").arg(&file).arg(home))?;
        }
    }
    Ok(())
}

/// The packages of the programs that are missing.
fn absent(is_optional: bool) -> Vec<&'static str> {
    let wanted = PROGRAMS
        .iter()
        .filter(|it| it.is_optional == is_optional && find(it.name).is_none());
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
