//! What tests need beside Rust: installed once into the target folder, pinned.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{cargo, root, succeed, target};

/// The Restate server that the live tests run against: the version the recordings are of.
const RESTATE: &str = "1.7.12";

/// The real Restate server and a service for it, by the variables that the live tests read.
///
/// # Errors
/// They cannot be installed or built; the message says what to do.
pub(crate) fn restate() -> Result<[(&'static str, PathBuf); 2], String> {
    Ok([
        ("STATEWAY_RESTATE_SERVER", restate_server()?),
        ("STATEWAY_RESTATE_SERVICE", restate_service()?),
    ])
}

fn restate_server() -> Result<PathBuf, String> {
    let hint = "npm is needed for the live tests against Restate; \
                `cargo xtask test --hermetic` leaves them out";
    let platform = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        (os, arch) => {
            return Err(format!(
                "there is no Restate server for {os} on {arch}\n\
                 hint: `cargo xtask test --hermetic` leaves out the tests that need one"
            ));
        }
    };
    let package = format!("@restatedev/restate-server-{platform}");
    let home = target().join(format!("peers/restate-{RESTATE}"));
    let binary = home.join(format!("node_modules/{package}/bin/restate-server"));
    if binary.exists() {
        return Ok(binary);
    }
    eprintln!("installing the Restate server {RESTATE} (once)");
    let explain = |error: String| format!("{error}\nhint: {hint}");
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
    succeed(install.arg(format!("{package}@{RESTATE}"))).map_err(explain)?;
    match binary.exists() {
        true => Ok(binary),
        false => Err(explain(format!("{package} holds no server"))),
    }
}

fn restate_service() -> Result<PathBuf, String> {
    let (source, home) = (
        root().join("tests/restate-service/Cargo.toml"),
        target().join("peers/restate-service"),
    );
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--manifest-path"]);
    succeed(build.arg(source).arg("--target-dir").arg(&home))?;
    Ok(home.join("debug/stateway-restate-service"))
}

/// A Python interpreter with the packages of `tests/python/requirements.txt`.
///
/// # Errors
/// Python or the packages cannot be had; the message says what to do.
pub(crate) fn python() -> Result<PathBuf, String> {
    let requirements = root().join("tests/python/requirements.txt");
    let pins = std::fs::read_to_string(&requirements)
        .map_err(|error| format!("{}: {error}", requirements.display()))?;
    let home = target().join("peers/python");
    let interpreter = home.join("bin/python");
    let stamp = home.join("requirements.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        return Ok(interpreter);
    }
    eprintln!("installing the Python client's packages (once)");
    let hint = "python3 with venv and pip is needed for the cross-language tests; \
                `cargo xtask test --hermetic` leaves them out";
    let explain = |error: String| format!("{error}\nhint: {hint}");
    succeed(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&home),
    )
    .map_err(explain)?;
    let mut install = Command::new(&interpreter);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
    ]);
    succeed(install.arg(&requirements)).map_err(explain)?;
    std::fs::write(&stamp, pins).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(interpreter)
}
