//! `cargo xtask bench`: figures, always beside a baseline of the same run.

use clap::{Args, Subcommand};

use crate::run::{cargo, succeed};
use crate::soak;

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// GetExecution against an empty gRPC service, and 10,000 watchers on one execution
    Gateway,
    /// One step transition of the state machine, and the replay of 10,000 events
    Machine,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    match options.what {
        What::Machine => soak::example("bench", &[]),
        What::Gateway => {
            succeed(cargo().args(["build", "--release", "--quiet", "--package", "stateway-cli"]))?;
            succeed(cargo().args([
                "run",
                "--release",
                "--quiet",
                "--package",
                "stateway-bench",
                "--",
                "gateway",
            ]))
        }
    }
}
