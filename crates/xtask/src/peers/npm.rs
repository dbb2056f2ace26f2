//! A package of npm, installed once into a folder of its own.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{succeed, target};

/// A pinned package, and the file of it that is used.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: &'static str,
    /// The folder in `target/peers`.
    pub(super) home: String,
    pub(super) file: &'static str,
    /// What to do if it cannot be installed.
    pub(super) hint: &'static str,
}

impl Package {
    /// The folder of the package.
    pub(crate) fn place(&self) -> PathBuf {
        target().join("peers").join(&self.home)
    }

    pub(crate) fn is_installed(&self) -> bool {
        self.path().exists()
    }

    /// The file of the package, which is installed if it is missing.
    ///
    /// # Errors
    /// The package cannot be installed; the message says what to do.
    pub(crate) fn install(&self) -> Result<PathBuf, String> {
        let path = self.path();
        if !self.is_installed() {
            let hint = self.hint;
            self.fetch()
                .map_err(|error| format!("{error}\nhint: {hint}"))?;
        }
        Ok(path)
    }

    fn path(&self) -> PathBuf {
        let modules = self.place().join("node_modules");
        modules.join(&self.name).join(self.file)
    }

    fn fetch(&self) -> Result<(), String> {
        let (name, version, home) = (&self.name, self.version, self.place());
        eprintln!("installing {name} {version} (once)");
        let prepared = std::fs::create_dir_all(&home)
            .and_then(|()| std::fs::write(home.join("package.json"), r#"{"private": true}"#));
        prepared.map_err(|error| format!("{}: {error}", home.display()))?;
        let mut install = Command::new("npm");
        install.current_dir(&home).args([
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--loglevel=error",
        ]);
        succeed(install.arg(format!("{name}@{version}")))?;
        if self.is_installed() {
            Ok(())
        } else {
            Err(format!("{name} has no file `{}`", self.file))
        }
    }
}
