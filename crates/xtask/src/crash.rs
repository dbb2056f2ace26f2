//! `cargo xtask crash`: the gateway is killed again and again under load, and what it promised is
//! checked. Several runs make one campaign.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::bench::release_bench;
use crate::run::{succeed, target};
use crate::soak::{restate_test, temporal_test};

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
    /// Kill gateway, host and engine in turn while executions run on a host inside this engine
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["state", "new"])]
    hosts: Option<HostEngine>,
    /// With --hosts: number of executions
    #[arg(long, default_value_t = 300, requires = "hosts")]
    executions: u64,
    /// With --hosts: seconds for which all hosts are away at the end
    #[arg(long, default_value_t = 600, requires = "hosts")]
    away: u64,
}

/// An engine that has hosts.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum HostEngine {
    /// A Restate server of the pinned version
    Restate,
    /// A Temporal server of the pinned version
    Temporal,
}

/// The short form, as the tests run it.
pub(crate) const SHORT: [&str; 4] = ["crash", "--rounds", "15", "--new"];

pub(crate) fn run(options: &Options) -> Result<(), String> {
    if let Some(engine) = options.hosts {
        let variables = [
            ("STATEWAY_HOSTS_EXECUTIONS", options.executions.to_string()),
            ("STATEWAY_HOSTS_AWAY", options.away.to_string()),
        ];
        return match engine {
            HostEngine::Restate => restate_test("many_executions", &variables),
            HostEngine::Temporal => temporal_test("many_executions", &variables),
        };
    }
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
