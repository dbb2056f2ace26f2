//! `cargo xtask histories`: records the golden histories again.

use crate::run::{cargo, succeed};

pub(crate) fn run() -> Result<(), String> {
    let mut record = cargo();
    record.args([
        "test",
        "--quiet",
        "--package",
        "stateway-engine",
        "--test",
        "engine",
    ]);
    succeed(record.args(["--", "--ignored", "--exact", "histories::regenerate"]))
}
