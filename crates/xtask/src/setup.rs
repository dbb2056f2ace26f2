//! `cargo xtask setup`: installs everything that the tests need besides Rust, and runs no test.
//!
//! `cargo xtask test` installs the same things when it needs them, except for the packages of Debian.

use std::path::PathBuf;

use clap::Args;

use crate::peers::{Environment, Package, postgres};
use crate::run::root;
use crate::test::Part;
use crate::{browser, debian, deploy, peers};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Show what would be installed, with versions and folders, and change nothing
    #[arg(long)]
    list: bool,
    /// Only what this part of the tests needs; can be repeated (default: all parts)
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
}

/// Something that tests need.
pub(crate) struct Item {
    /// The parts that need it.
    pub(crate) parts: &'static [Part],
    pub(crate) name: String,
    pub(crate) version: String,
    /// Where it comes from.
    pub(crate) source: &'static str,
    /// Where it is, or will be.
    pub(crate) place: PathBuf,
    pub(crate) is_installed: bool,
    pub(crate) install: Box<dyn Fn() -> Result<(), String>>,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    debian::allow();
    let is_meant = |item: &Item| {
        options.only.is_empty() || item.parts.iter().any(|part| options.only.contains(part))
    };
    let mut failures = Vec::new();
    for item in items()?.iter().filter(|item| is_meant(item)) {
        let state = match (item.is_installed, options.list) {
            (true, _) => "present",
            (false, true) => "missing",
            (false, false) => match (item.install)() {
                Ok(()) => "installed",
                Err(error) => {
                    failures.push(error);
                    "failed"
                }
            },
        };
        println!("{}", line(item, state));
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

/// State, name, version, source and place of an item.
fn line(item: &Item, state: &str) -> String {
    let root = root();
    let place = item.place.strip_prefix(&root).unwrap_or(&item.place);
    format!(
        "{state:<9}  {:<45}  {:<16}  {:<6}  {}",
        item.name,
        item.version,
        item.source,
        place.display()
    )
}

/// Everything that tests need, in the order of the parts.
fn items() -> Result<Vec<Item>, String> {
    const RESTATE: &[Part] = &[Part::Restate, Part::Temporal];
    let mut items = Vec::new();
    for server in peers::restate_servers()? {
        items.push(of_npm(RESTATE, server));
    }
    items.push(restate_service(RESTATE));
    items.push(postgres_of_debian());
    items.push(postgres_of_npm()?);
    items.push(of_python(&[Part::Temporal], &peers::TEMPORAL));
    items.push(of_python(&[Part::StepFunctions], &peers::STEP_FUNCTIONS));
    items.push(of_npm(&[Part::Browser], peers::openid_package()));
    items.push(of_npm(&[Part::Browser], peers::axe_package()));
    items.extend(browser::items());
    items.extend(deploy::items());
    items.push(of_python(&[Part::Deploy], &peers::DEPLOY));
    items.push(of_python(&[Part::PythonClient], &peers::PYTHON));
    items.push(of_python(&[Part::PythonPackage], &peers::PYTHON_SDK));
    // No part of the tests: `cargo xtask api`.
    items.push(of_npm(&[], peers::buf_package()?));
    Ok(items)
}

fn of_npm(parts: &'static [Part], package: Package) -> Item {
    Item {
        parts,
        name: package.name.clone(),
        version: package.version.to_owned(),
        source: "npm",
        place: package.place(),
        is_installed: package.is_installed(),
        install: Box::new(move || package.install().map(drop)),
    }
}

fn of_python(parts: &'static [Part], environment: &'static Environment) -> Item {
    Item {
        parts,
        name: environment.requirements.to_owned(),
        version: format!("{} packages", environment.packages()),
        source: "PyPI",
        place: environment.place(),
        is_installed: environment.is_installed(),
        install: Box::new(|| environment.install().map(drop)),
    }
}

fn postgres_of_debian() -> Item {
    Item {
        parts: &[Part::Postgres],
        name: postgres::DEBIAN_PACKAGE.to_owned(),
        version: "Debian's current".to_owned(),
        source: "Debian",
        place: postgres::debian_programs(),
        is_installed: postgres::is_debian_installed(),
        install: Box::new(|| postgres::install_debian().map(drop)),
    }
}

fn postgres_of_npm() -> Result<Item, String> {
    let mut item = of_npm(&[Part::Postgres], postgres::npm_package()?);
    item.install = Box::new(|| postgres::install_npm().map(drop));
    Ok(item)
}

fn restate_service(parts: &'static [Part]) -> Item {
    let place = peers::restate_service_place();
    Item {
        parts,
        name: "tests/restate-service".to_owned(),
        version: "Cargo.lock".to_owned(),
        source: "cargo",
        is_installed: place.join("debug/stateway-restate-service").is_file(),
        place,
        install: Box::new(|| peers::restate().map(drop)),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::run::target;

    #[test]
    fn every_part_that_needs_something_has_an_item_in_this_list() {
        let items = items().expect("a platform with peers");
        for part in Part::value_variants() {
            let has_item = items.iter().any(|item| item.parts.contains(part));
            assert_eq!(has_item, part.needs().is_some(), "{}", part.name());
        }
    }

    #[test]
    fn an_item_is_one_line_with_version_source_and_place() {
        let item = of_npm(&[Part::Browser], peers::axe_package());
        let line = line(&item, "present");
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[..4], ["present", "axe-core", "4.10.3", "npm"]);
        assert_eq!(item.place, target().join("peers/axe-core-4.10.3"));
    }
}
