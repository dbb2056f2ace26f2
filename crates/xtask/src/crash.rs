//! `cargo xtask crash`: the gateway is killed again and again under load, and what it promised is
//! checked.

use clap::Args;

use crate::run::{cargo, succeed};

#[derive(Args)]
pub(crate) struct Options {
    /// How many kills
    #[arg(long, default_value_t = 500)]
    rounds: u64,
    /// The same seed makes the same choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The short form, as the tests run it.
pub(crate) const SHORT: [&str; 3] = ["crash", "--rounds", "15"];

pub(crate) fn run(options: &Options) -> Result<(), String> {
    succeed(cargo().args(["build", "--release", "--quiet", "--package", "stateway-cli"]))?;
    let (rounds, seed) = (options.rounds.to_string(), options.seed.to_string());
    let mut crash = cargo();
    crash.args(["run", "--release", "--quiet", "--package", "stateway-bench"]);
    succeed(crash.args(["--", "crash", "--rounds", &rounds, "--seed", &seed]))
}
