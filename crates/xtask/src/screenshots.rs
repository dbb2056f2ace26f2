//! `cargo xtask screenshots`: takes the screenshots of the dashboard in docs/images again.
//!
//! They are of `stateway demo`, taken by the same browser that the tests use.

use crate::browser::browser;
use crate::run::{cargo, root, succeed, target};

pub(crate) fn run() -> Result<(), String> {
    let programs = browser()?;
    // Program and test in one build: other forms select other features, and compile the dependencies again.
    let mut build = cargo();
    build.args(["build", "--quiet", "--workspace"]);
    succeed(build.args(["--bin", "stateway", "--test", "browser"]))?;
    let mut pictures = cargo();
    pictures.args(["test", "--quiet", "--workspace"]);
    pictures.args(["--test", "browser", "--", "--nocapture"]);
    pictures.envs(programs);
    pictures.env("STATEWAY_BINARY", target().join("debug/stateway"));
    pictures.env("STATEWAY_SCREENSHOTS", root().join("docs/images"));
    succeed(&mut pictures)
}
