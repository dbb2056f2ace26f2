//! `cargo xtask crash`: the gateway is killed again and again under load, and what it promised is
//! checked. Several runs make one campaign.

use std::path::PathBuf;

use clap::Args;

use crate::bench::release_bench;
use crate::run::{succeed, target};

#[derive(Args)]
pub(crate) struct Options {
    /// Number of kills of the campaign, all runs together
    #[arg(long, default_value_t = 500)]
    rounds: u64,
    /// The same seed makes the same choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File with the progress of the campaign; a run continues where the last one stopped (default:
    /// target/crash-SEED.json)
    #[arg(long)]
    state: Option<PathBuf>,
    /// Begin a new campaign
    #[arg(long)]
    new: bool,
}

/// The short form, as the tests run it.
pub(crate) const SHORT: [&str; 4] = ["crash", "--rounds", "15", "--new"];

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let (rounds, seed) = (options.rounds.to_string(), options.seed.to_string());
    let state = match &options.state {
        // The command runs in the root of the repository.
        Some(state) => std::path::absolute(state).map_err(|error| error.to_string())?,
        None => target().join(format!("crash-{seed}.json")),
    };
    let mut crash = release_bench()?;
    crash.args(["crash", "--rounds", &rounds, "--seed", &seed]);
    if options.new {
        crash.arg("--new");
    }
    succeed(crash.arg("--state").arg(state))
}
