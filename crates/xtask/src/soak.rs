//! `cargo xtask soak`: random worlds by the hundred thousand, and every state of a small one.

use clap::{Args, Subcommand};

use crate::run::{cargo, succeed};

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The state machine's invariants over random definitions and schedules, then exhaustively
    Machine {
        /// How many random definitions and schedules
        #[arg(long, default_value_t = 100_000)]
        cases: u64,
    },
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    match options.what {
        What::Machine { cases } => {
            example("soak", &["--cases", &cases.to_string()])?;
            example("exhaustive", &[])
        }
    }
}

/// Runs one of the machine's checks, in release.
pub(crate) fn example(name: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = cargo();
    command.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "stateway-machine-check",
    ]);
    succeed(command.args(["--example", name, "--"]).args(arguments))
}
