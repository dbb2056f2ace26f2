//! `cargo xtask screenshots`: takes the screenshots of the dashboard in docs/images again.
//!
//! They are of `stateway demo`, taken by the same browser that the tests use.

use crate::browser::browser;
use crate::run::{cargo, root, succeed, target};

pub(crate) fn run() -> Result<(), String> {
    let programs = browser()?;
    succeed(cargo().args(["build", "--quiet", "--package", "stateway-cli"]))?;
    let mut pictures = cargo();
    pictures.args(["test", "--quiet", "--package", "stateway-tests"]);
    pictures.args(["--test", "browser", "--", "--nocapture"]);
    pictures.envs(programs);
    pictures.env("STATEWAY_BINARY", target().join("debug/stateway"));
    pictures.env("STATEWAY_SCREENSHOTS", root().join("docs/images"));
    succeed(&mut pictures)
}
