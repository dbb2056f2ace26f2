//! The browser of the browser tests: Debian's Chromium and its driver.
//!
//! Debian offers one version at a time, so it cannot be pinned; the version in use is printed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian;
use crate::setup::Item;
use crate::test::Part;

/// A program, the variable that names it for the tests, and the names it goes by.
struct Program {
    variable: &'static str,
    names: &'static [&'static str],
    package: &'static str,
}

const PROGRAMS: [Program; 2] = [
    Program {
        variable: "STATEWAY_CHROMIUM",
        names: &["chromium", "chromium-browser", "google-chrome"],
        package: "chromium",
    },
    Program {
        variable: "STATEWAY_CHROMEDRIVER",
        names: &["chromedriver"],
        package: "chromium-driver",
    },
];

/// Where Debian puts programs, whatever the PATH says.
const USUAL: &str = "/usr/bin";

const HINT: &str = "the browser tests need chromium and chromium-driver; name other programs in \
                    STATEWAY_CHROMIUM and STATEWAY_CHROMEDRIVER; `cargo xtask test --hermetic` \
                    leaves the browser tests out";

/// Chromium and its driver, by the variables that the browser tests read.
///
/// # Errors
/// They are not here and cannot be installed; the message says what is missing and what to do.
pub(crate) fn browser() -> Result<Vec<(&'static str, PathBuf)>, String> {
    let explain = |error: String| format!("{error}\nhint: {HINT}");
    if let Err(packages) = present() {
        // Without a font every letter is a box, and all sizes are wrong.
        let with_font = [&packages[..], &["fonts-dejavu-core"]].concat();
        debian::install(&with_font).map_err(explain)?;
    }
    let found = present().map_err(|packages| explain(missing(&packages)))?;
    for (_, program) in &found {
        println!("{}", version(program).map_err(explain)?);
    }
    Ok(found)
}

/// The programs, for `cargo xtask setup`.
pub(crate) fn items() -> Vec<Item> {
    let absent = present().err().unwrap_or_default();
    let found = |program: &Program| find(program).unwrap_or_else(|| Path::new(USUAL).into());
    let item = |program: &'static Program| Item {
        parts: &[Part::Browser],
        name: program.package.to_owned(),
        version: "Debian's current".to_owned(),
        source: "Debian",
        place: found(program),
        is_installed: !absent.contains(&program.package),
        install: Box::new(|| browser().map(drop)),
    };
    let mut items: Vec<Item> = PROGRAMS.iter().map(item).collect();
    for item in items.iter_mut().filter(|item| item.is_installed) {
        if let Ok(version) = version(&item.place) {
            item.version = number(&version).to_owned();
        }
    }
    items
}

/// The number in what a program says about its version.
fn number(version: &str) -> &str {
    let mut words = version.split_whitespace();
    words
        .find(|word| word.starts_with(|it: char| it.is_ascii_digit()))
        .unwrap_or(version)
}

/// Where a program is.
fn find(program: &Program) -> Option<PathBuf> {
    let found = present().ok()?;
    let own = found
        .into_iter()
        .find(|(variable, _)| *variable == program.variable);
    own.map(|(_, place)| place)
}

/// Every program, or the packages of those that are not here.
fn present() -> Result<Vec<(&'static str, PathBuf)>, Vec<&'static str>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    look(&path, Path::new(USUAL), named)
}

fn look(
    path: &OsStr,
    usual: &Path,
    named: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Vec<(&'static str, PathBuf)>, Vec<&'static str>> {
    let mut found = Vec::new();
    let mut absent = Vec::new();
    for program in &PROGRAMS {
        let by_name = || {
            std::env::split_paths(path)
                .chain([usual.to_owned()])
                .flat_map(|folder| program.names.iter().map(move |name| folder.join(name)))
                .find(|candidate| candidate.is_file())
        };
        match named(program.variable).or_else(by_name) {
            Some(place) if place.is_file() => found.push((program.variable, place)),
            _ => absent.push(program.package),
        }
    }
    if absent.is_empty() {
        Ok(found)
    } else {
        Err(absent)
    }
}

fn missing(packages: &[&str]) -> String {
    format!("no {} is here", packages.join(" and no "))
}

fn version(program: &Path) -> Result<String, String> {
    let answer = Command::new(program).arg("--version").output();
    let answer = answer.map_err(|error| format!("{}: {error}", program.display()))?;
    if answer.status.success() {
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    } else {
        Err(format!(
            "`{} --version` ended with {}: {}",
            program.display(),
            answer.status,
            String::from_utf8_lossy(&answer.stderr).trim()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(programs: &[&str]) -> PathBuf {
        let unique = format!(
            "xtask-browser-{}-{}",
            std::process::id(),
            programs.join("-")
        );
        let folder = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&folder).expect("a folder");
        for program in programs {
            std::fs::write(folder.join(program), "").expect("a file");
        }
        folder
    }

    #[test]
    fn programs_are_found_on_the_path_or_where_debian_puts_them() {
        let (path, usual) = (folder_with(&["chromium"]), folder_with(&["chromedriver"]));
        let found = look(path.as_os_str(), &usual, |_| None);
        let expected = vec![
            ("STATEWAY_CHROMIUM", path.join("chromium")),
            ("STATEWAY_CHROMEDRIVER", usual.join("chromedriver")),
        ];
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn what_is_absent_is_named_by_its_package() {
        let (path, usual) = (folder_with(&["chromium"]), folder_with(&["nothing"]));
        let absent = look(path.as_os_str(), &usual, |_| None);
        assert_eq!(absent, Err(vec!["chromium-driver"]));
        let absent = look(OsStr::new(""), &usual, |_| None).expect_err("nothing is here");
        assert_eq!(
            missing(&absent),
            "no chromium and no chromium-driver is here"
        );
    }

    #[test]
    fn the_number_of_a_version_is_found_among_words() {
        assert_eq!(
            number("Chromium 140.0.7339.80 built on Debian"),
            "140.0.7339.80"
        );
        assert_eq!(number("unknown"), "unknown");
    }

    #[test]
    fn a_program_that_was_named_and_is_not_there_is_absent() {
        let path = folder_with(&["chromedriver", "chromium"]);
        let named = |variable: &str| {
            (variable == "STATEWAY_CHROMIUM").then(|| PathBuf::from("/nowhere/chromium"))
        };
        assert_eq!(look(path.as_os_str(), &path, named), Err(vec!["chromium"]));
    }
}
