//! `cargo xtask test`: every test, and counts at the end.

use std::process::Command;

use clap::Args;

use crate::run::{cargo, follow, root, succeed, target};
use crate::tally::Tally;
use crate::{browser, crash, deploy, docs, peers};

#[derive(Args)]
pub(crate) struct Options {
    /// Run only what needs nothing but Rust, and say what is left out
    #[arg(long)]
    hermetic: bool,
}

/// What needs more than Rust, as the closing lines name it.
const PEER_TESTS: &[&str] = &[
    "crates/cli/tests/restate (the real Restate server, needs npm)",
    "tests/python (a client in another language, needs python3 and PyPI)",
    "sdk/python (the Python package and its providers, needs Python 3.10 and PyPI)",
    "provider-step-functions/tests/live.rs (an emulator, needs Python 3.12 and PyPI)",
    "provider-temporal/tests/live.rs, contract_live.rs and crates/cli/tests/temporal \
     (the real Temporal server, needs Python 3.10 and PyPI)",
    "tests/browser (the dashboard in a browser, needs Chromium and its driver; sign-in at a real \
     OpenID provider, needs Node.js and npm)",
    "deploy/tests (image, unit, Helm chart and alerts, needs Python 3.10, PyPI and Debian packages)",
];

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let mut tally = Tally::default();
    let mut broken = Vec::new();

    heading("generated documentation is current");
    if let Err(error) = docs::run(&docs::Options { check: true }) {
        broken.push(error);
    }

    let mut live = Vec::new();
    if !options.hermetic {
        heading("Restate server and a service for it");
        match peers::restate() {
            Ok(named) => live.extend(named),
            Err(error) => broken.push(error),
        }
        heading("Temporal server and a worker for it");
        match peers::temporal() {
            Ok(named) => live.extend(named),
            Err(error) => broken.push(error),
        }
        heading("OpenID provider");
        match peers::openid_provider() {
            Ok(named) => live.extend(named),
            Err(error) => broken.push(error),
        }
        heading("Chromium and its driver");
        match browser::browser() {
            Ok(named) => live.extend(named),
            Err(error) => broken.push(error),
        }
        match peers::axe() {
            Ok(named) => live.extend(named),
            Err(error) => broken.push(error),
        }
    }

    heading("Rust tests");
    // The build is a step of its own, so that a failing compiler is not taken for a failing test.
    succeed(cargo().args(["test", "--workspace", "--no-run", "--quiet"]))?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast", "--", "--nocapture"]);
    tests.env("RUST_BACKTRACE", "1").envs(live);
    if options.hermetic {
        // A browser that happens to be here is no part of a hermetic run.
        tests.env("STATEWAY_BROWSER_TESTS", "off");
    }
    if !options.hermetic {
        // The build above has made the binary too: tests of the command line and the demo need it.
        tests.env("STATEWAY_BINARY", target().join("debug/stateway"));
        match peers::step_functions() {
            Ok(python) => {
                tests.env("STATEWAY_SFN_EMULATOR_PYTHON", python);
            }
            Err(error) => broken.push(error),
        }
    }
    if !follow(&mut tests, |line| tally.read(line))? {
        broken.push("some Rust tests failed".to_owned());
    }

    heading("kills under load");
    match crash_campaign() {
        Ok(()) => tally.passed += 1,
        Err(error) => {
            tally.failed += 1;
            broken.push(error);
        }
    }

    if options.hermetic {
        left_out();
    } else {
        heading("deployment");
        if let Err(error) = deploy::tests(&mut tally) {
            broken.push(error);
        }
        heading("Python client");
        if let Err(error) = python_client(&mut tally) {
            broken.push(error);
        }
        heading("Python package");
        if let Err(error) = python_sdk(&mut tally) {
            broken.push(error);
        }
    }

    println!();
    for remark in &tally.remarks {
        println!("{remark}");
    }
    if options.hermetic {
        left_out();
    }
    println!(
        "{} passed, {} failed, {} skipped",
        tally.passed, tally.failed, tally.skipped
    );
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken.join("; "))
    }
}

/// The short form of `cargo xtask crash`, on the binaries of the tests.
fn crash_campaign() -> Result<(), String> {
    let packages = ["--package", "stateway-cli", "--package", "stateway-bench"];
    succeed(cargo().args(["build", "--quiet"]).args(packages))?;
    let mut crash = Command::new(target().join("debug/stateway-bench"));
    let state = target().join("crash-short.json");
    succeed(crash.args(crash::SHORT).arg("--state").arg(state))
        .map_err(|error| format!("kills under load: {error}"))
}

/// A gRPC client in another language, generated from the committed image of the API.
fn python_client(tally: &mut Tally) -> Result<(), String> {
    let python = peers::python()?;
    succeed(cargo().args(["build", "--quiet", "--package", "stateway-cli"]))?;
    let mut client = Command::new(python);
    client
        .arg(root().join("tests/python/run.py"))
        .env("STATEWAY_BINARY", target().join("debug/stateway"));
    match follow(&mut client, |line| tally.read(line))? {
        true => Ok(()),
        false => Err("the Python client's tests failed".to_owned()),
    }
}

/// The Python package: client, worker and providers, against the real binary.
fn python_sdk(tally: &mut Tally) -> Result<(), String> {
    let python = peers::python_sdk()?;
    succeed(cargo().args(["build", "--quiet", "--package", "stateway-cli"]))?;
    let mut tests = Command::new(python);
    tests
        .args(["-m", "pytest", "-v"])
        .arg(root().join("sdk/python/tests"))
        .env("STATEWAY_BINARY", target().join("debug/stateway"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    if follow(&mut tests, |line| tally.read(line))? {
        Ok(())
    } else {
        Err("the tests of the Python package failed".to_owned())
    }
}

fn left_out() {
    for tests in PEER_TESTS {
        println!("left out (--hermetic): {tests}");
    }
}

fn heading(what: &str) {
    println!("\n== {what}");
}
