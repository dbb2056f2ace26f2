//! What tests need beside Rust: installed once into the target folder, pinned.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{root, succeed, target};

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
