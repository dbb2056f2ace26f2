//! `cargo xtask soak`: random worlds by the hundred thousand, and every state of a small one; and the
//! engine in simulated surroundings.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::peers;
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
    /// The engine on a simulated store, clock and workers: crashes, failures, lies, hostile payloads
    Engine {
        /// Number of schedules
        #[arg(long, default_value_t = 100_000)]
        schedules: u64,
        /// Seed of the first schedule; the others follow it
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of threads
        #[arg(long, default_value_t = 1)]
        jobs: u64,
        /// Print everything that happens in the first schedule, and a digest of it
        #[arg(long)]
        trace: bool,
    },
    /// Random definitions on the built-in engine and inside a real Restate server, in the same outside world:
    /// their trajectories must be the same
    Hosts {
        /// Number of definitions
        #[arg(long, default_value_t = 300)]
        definitions: u64,
        /// Seed of the first definition; the others follow it
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    match options.what {
        What::Machine { cases } => {
            example("machine", "soak", &["--cases", &cases.to_string()])?;
            example("machine", "exhaustive", &[])
        }
        What::Engine {
            schedules,
            seed,
            jobs,
            trace,
        } => {
            let numbers = [schedules, seed, jobs].map(|number| number.to_string());
            let [schedules, seed, jobs] = &numbers;
            let mut arguments = vec!["--schedules", schedules, "--seed", seed, "--jobs", jobs];
            if trace {
                arguments.push("--trace");
            }
            example("engine", "soak_engine", &arguments)
        }
        What::Hosts { definitions, seed } => restate_test(
            "random_definitions",
            &[
                ("STATEWAY_HOSTS_DEFINITIONS", definitions.to_string()),
                ("STATEWAY_HOSTS_SEED", seed.to_string()),
            ],
        ),
    }
}

/// Runs a test of the command line against the real Restate server, with variables that make it longer.
pub(crate) fn restate_test(name: &str, variables: &[(&str, String)]) -> Result<(), String> {
    test_with(&peers::restate()?, ("restate", name), variables)
}

/// The same against the real Temporal server.
pub(crate) fn temporal_test(name: &str, variables: &[(&str, String)]) -> Result<(), String> {
    test_with(&peers::temporal()?, ("temporal", name), variables)
}

fn test_with(
    peers: &[(&str, PathBuf)],
    (program, name): (&str, &str),
    variables: &[(&str, String)],
) -> Result<(), String> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--test", program, name]);
    command.args(["--", "--nocapture"]);
    command.envs(peers.iter().cloned());
    command.envs(variables.iter().cloned());
    succeed(&mut command)
}

/// Runs one of the checks of the machine or of the engine, in release.
pub(crate) fn example(of: &str, name: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package"]);
    command.arg(format!("stateway-{of}-check"));
    succeed(command.args(["--example", name, "--"]).args(arguments))
}
