//! The environment of someone who has just cloned the repository: an empty cargo cache and no settings
//! of this session.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the commands run, and with which variables.
pub(super) struct Environment {
    clone: PathBuf,
    cargo_home: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

/// Cargo's own settings that decide how a registry is reached.
const CARGO_KEPT: [&str; 5] = [
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_SOURCE_",
];

/// Programs and data that the tests cannot find by themselves.
const STATEWAY_KEPT: [&str; 4] = [
    "STATEWAY_AWS_RECORDINGS",
    "STATEWAY_CHROMEDRIVER",
    "STATEWAY_CHROMIUM",
    "STATEWAY_PYTHON",
];

impl Environment {
    /// Makes an empty `CARGO_HOME`. Only the configuration file is copied: it says how the registry is
    /// reached.
    pub(super) fn prepare(folder: &Path) -> Result<Self, String> {
        let cargo_home = folder.join("cargo-home");
        std::fs::create_dir(&cargo_home)
            .map_err(|error| format!("{}: {error}", cargo_home.display()))?;
        if let Some(home) = own_cargo_home() {
            copy_configuration(&home, &cargo_home)?;
        }
        Ok(Self {
            clone: folder.join("stateway"),
            cargo_home,
            variables: std::env::vars_os()
                .filter(|(name, _)| is_kept(&name.to_string_lossy()))
                .collect(),
        })
    }

    /// A command line as a shell in the clone runs it. The shell is replaced by the command, so that
    /// the id of the process is the command's own.
    pub(super) fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec {command}")])
            .current_dir(&self.clone)
            .env_clear()
            .envs(self.variables.iter().cloned())
            .env("CARGO_HOME", &self.cargo_home);
        shell
    }
}

/// Variables that a new user has too. Variables that cargo sets for this process, a target folder, and
/// settings of a gateway are left out.
fn is_kept(name: &str) -> bool {
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if name.starts_with("CARGO") {
        starts_with(&CARGO_KEPT)
    } else if name.starts_with("STATEWAY_") {
        STATEWAY_KEPT.contains(&name)
    } else {
        !["LD_LIBRARY_PATH", "OUT_DIR", "RUSTFLAGS"].contains(&name)
    }
}

fn own_cargo_home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

fn copy_configuration(from: &Path, to: &Path) -> Result<(), String> {
    // `config` is the older name of the file.
    for name in ["config.toml", "config"] {
        let file = from.join(name);
        if file.is_file() {
            let copied = std::fs::copy(&file, to.join(name));
            copied.map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_configuration_file_is_copied() {
        let (from, to) = (tempfile::tempdir(), tempfile::tempdir());
        let (from, to) = (from.expect("a folder"), to.expect("a folder"));
        for name in ["config.toml", "credentials.toml", ".package-cache"] {
            std::fs::write(from.path().join(name), "").expect("a file");
        }
        std::fs::create_dir(from.path().join("registry")).expect("a folder");
        copy_configuration(from.path(), to.path()).expect("a copy");
        let copied: Vec<_> = std::fs::read_dir(to.path())
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(copied, ["config.toml"]);
    }

    #[test]
    fn settings_of_this_session_are_left_out_and_the_way_to_the_registry_is_kept() {
        let names = [
            "CARGO",
            "CARGO_HOME",
            "CARGO_HTTP_CAINFO",
            "CARGO_MANIFEST_DIR",
            "CARGO_REGISTRIES_MIRROR_INDEX",
            "CARGO_TARGET_DIR",
            "HTTPS_PROXY",
            "OUT_DIR",
            "PATH",
            "STATEWAY_CHROMIUM",
            "STATEWAY_CONFIG",
            "STATEWAY_LISTEN",
        ];
        let kept: Vec<_> = names.into_iter().filter(|name| is_kept(name)).collect();
        let expected = [
            "CARGO_HTTP_CAINFO",
            "CARGO_REGISTRIES_MIRROR_INDEX",
            "HTTPS_PROXY",
            "PATH",
            "STATEWAY_CHROMIUM",
        ];
        assert_eq!(kept, expected);
    }
}
