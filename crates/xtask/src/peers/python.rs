//! A virtual environment of Python with pinned packages, made once.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{root, succeed, target};

/// An environment, by the file with its pins.
#[derive(Debug)]
pub(crate) struct Environment {
    /// The folder in `target/peers`.
    pub(crate) home: &'static str,
    /// The file with the pins, from the root of the repository.
    pub(crate) requirements: &'static str,
    /// The oldest Python that the packages run on; none for the usual `python3`.
    pub(super) least: Option<(u32, u32)>,
    /// Whether pip installs the pins and nothing else.
    pub(super) pins_are_all: bool,
    /// What to do if it cannot be installed.
    pub(super) hint: &'static str,
}

impl Environment {
    /// The folder of the environment.
    pub(crate) fn place(&self) -> PathBuf {
        target().join("peers").join(self.home)
    }

    /// Whether the environment has the packages that the pins ask for now.
    pub(crate) fn is_installed(&self) -> bool {
        let installed = std::fs::read_to_string(self.stamp());
        matches!((self.pins(), installed), (Ok(pins), Ok(installed)) if pins == installed)
    }

    /// Number of pinned packages.
    pub(crate) fn packages(&self) -> usize {
        self.pins().map_or(0, |pins| count(&pins))
    }

    /// The interpreter. The environment is made if it is missing or has other packages.
    ///
    /// # Errors
    /// Python or the packages cannot be installed; the message says what to do.
    pub(crate) fn install(&self) -> Result<PathBuf, String> {
        if !self.is_installed() {
            self.make().map_err(|error| self.explain(&error))?;
        }
        Ok(self.interpreter())
    }

    /// An error, with what to do.
    pub(super) fn explain(&self, error: &str) -> String {
        format!("{error}\nhint: {}", self.hint)
    }

    fn make(&self) -> Result<(), String> {
        let python = match self.least {
            Some(least) => new_python(least)?,
            None => PathBuf::from("python3"),
        };
        let pins = self.pins()?;
        eprintln!("installing the packages of {} (once)", self.requirements);
        let mut environment = Command::new(python);
        environment.args(["-m", "venv", "--clear"]);
        succeed(environment.arg(self.place()))?;
        let mut install = Command::new(self.interpreter());
        install.args(PIP_INSTALL);
        if self.pins_are_all {
            install.arg("--no-deps");
        }
        succeed(
            install
                .arg("--requirement")
                .arg(root().join(self.requirements)),
        )?;
        let stamp = self.stamp();
        std::fs::write(&stamp, pins).map_err(|error| format!("{}: {error}", stamp.display()))
    }

    fn interpreter(&self) -> PathBuf {
        self.place().join("bin/python")
    }

    /// What was installed.
    fn stamp(&self) -> PathBuf {
        self.place().join("requirements.txt")
    }

    fn pins(&self) -> Result<String, String> {
        std::fs::read_to_string(root().join(self.requirements))
            .map_err(|error| format!("{}: {error}", self.requirements))
    }
}

/// The arguments of an interpreter with which pip installs.
pub(super) const PIP_INSTALL: [&str; 5] = [
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
];

fn count(pins: &str) -> usize {
    let is_pin = |line: &&str| line.contains("==") && !line.starts_with(['#', ' ']);
    pins.lines().filter(is_pin).count()
}

/// A Python of at least this version: the one that was named, one on the PATH, one of pyenv's.
fn new_python(least: (u32, u32)) -> Result<PathBuf, String> {
    let named = std::env::var_os("STATEWAY_PYTHON").map(PathBuf::from);
    let usual = ["python3.13", "python3.14", "python3.12", "python3"].map(PathBuf::from);
    let pyenv = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| {
            let home = std::env::var_os("HOME").map(PathBuf::from);
            home.map(|home| home.join(".pyenv"))
        });
    let versions = pyenv.and_then(|pyenv| std::fs::read_dir(pyenv.join("versions")).ok());
    let mut managed: Vec<PathBuf> = versions
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/python3")))
        .collect();
    managed.sort();
    let candidates = named
        .into_iter()
        .chain(usual)
        .chain(managed.into_iter().rev());
    let mut seen = Vec::new();
    for candidate in candidates {
        let Some(version) = version_of(&candidate) else {
            continue;
        };
        if version >= least {
            return Ok(candidate);
        }
        seen.push(format!(
            "{} is {}.{}",
            candidate.display(),
            version.0,
            version.1
        ));
    }
    Err(format!(
        "no Python {}.{} or newer is here ({})",
        least.0,
        least.1,
        seen.join(", ")
    ))
}

fn version_of(python: &Path) -> Option<(u32, u32)> {
    let ask = "import sys, venv; print(*sys.version_info[:2])";
    let told = Command::new(python).args(["-c", ask]).output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_counted_without_comments_and_hashes() {
        let pins =
            "# a==1\none==1.0 \\\n    --hash=sha256:00==\ntwo==2.0 ; python_version < '3.13'\n";
        assert_eq!(count(pins), 2);
    }
}
