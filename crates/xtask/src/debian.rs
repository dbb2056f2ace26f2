//! Packages of Debian, which change the system and not only `target/`.
//!
//! `cargo xtask setup` installs them. Every other command installs them if it runs as root, as in a container, and
//! otherwise only if the caller asks for it ([`allow`]): with `--install`, or by the variable `CI=true`.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::run::succeed;

/// Whether this process may change the system. One command line decides for the whole process.
static IS_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Allows this process to change the system.
pub(crate) fn allow() {
    IS_ALLOWED.store(true, Ordering::Relaxed);
}

/// Whether a command that does not exist to install may install packages: by its option, because the machine belongs
/// to continuous integration, or because it needs no other rights than it has.
pub(crate) fn is_asked_for(install: bool, ci: Option<&str>, is_root: bool) -> bool {
    install || ci == Some("true") || is_root
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

/// Installs packages.
///
/// # Errors
/// This process may not change the system, or `apt-get` fails.
pub(crate) fn install(packages: &[&str]) -> Result<(), String> {
    check(packages, IS_ALLOWED.load(Ordering::Relaxed))?;
    eprintln!("installing {} (once)", packages.join(", "));
    update()?;
    let mut install = apt_get();
    install.args(["install", "--yes", "--quiet=2", "--no-install-recommends"]);
    succeed(install.args(packages))
}

/// Downloads a package into a folder, and does not install it.
///
/// # Errors
/// This process may not change the system (the list of packages is renewed first), or `apt-get` fails.
pub(crate) fn download(package: &str, folder: &std::path::Path) -> Result<(), String> {
    check(&[package], IS_ALLOWED.load(Ordering::Relaxed))?;
    eprintln!("downloading {package} (once)");
    update()?;
    let mut download = Command::new("apt-get");
    download.current_dir(folder).args(["download", "--quiet=2"]);
    succeed(download.arg(package))
}

fn check(packages: &[&str], is_allowed: bool) -> Result<(), String> {
    if is_allowed {
        Ok(())
    } else {
        Err(format!(
            "missing from this system: {}\nhint: run `cargo xtask setup`, or pass `--install`",
            packages.join(", ")
        ))
    }
}

/// A list of packages that is days old names versions that the mirror no longer has.
fn update() -> Result<(), String> {
    succeed(apt_get().args(["update", "--quiet=2"]))
}

/// `apt-get`, with `sudo` unless this is root. `sudo` never asks for a password.
fn apt_get() -> Command {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["--non-interactive", "apt-get"]);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_need_root_or_an_option_or_continuous_integration() {
        assert!(!is_asked_for(false, None, false));
        assert!(!is_asked_for(false, Some(""), false));
        assert!(!is_asked_for(false, Some("false"), false));
        assert!(is_asked_for(true, None, false));
        assert!(is_asked_for(false, Some("true"), false));
        assert!(is_asked_for(false, None, true));
    }

    /// Tests share the process, and no test allows anything: a call that went through would run `apt-get`.
    #[test]
    fn a_process_that_may_not_change_the_system_names_the_command_that_may() {
        let refused = install(&["chromium", "chromium-driver"]);
        let expected = "missing from this system: chromium, chromium-driver\n\
                        hint: run `cargo xtask setup`, or pass `--install`";
        assert_eq!(refused, Err(expected.to_owned()));
        let folder = std::path::Path::new("/nonexistent");
        assert!(download("prometheus", folder).is_err());
    }
}
