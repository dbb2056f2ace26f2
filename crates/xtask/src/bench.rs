//! `cargo xtask bench`: figures, always beside a baseline of the same run.

use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand, ValueEnum};

use crate::crash::HostEngine;
use crate::run::{cargo, own, root, succeed, target};
use crate::{peers, soak};

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// GetExecution against an empty gRPC service, 10,000 watchers on one execution, and then `secure`
    Gateway,
    /// Calls of a client beside 10,000 connections that never finish their TLS handshake
    HalfOpen,
    /// One step transition of the state machine, and the replay of 10,000 events
    Machine,
    /// Durable steps per second of the built-in engine, with a worker and the load beside it
    Engine {
        /// Run this many executions and show that nothing grows with their number
        #[arg(long)]
        executions: Option<u64>,
        /// Run the same chains on this engine in alternating rounds, and compare
        #[arg(long, conflicts_with = "executions")]
        beside: Option<Peer>,
        /// Use a store in this PostgreSQL database: postgres://user@host:port/database, without a password. Its tables
        /// stay
        #[arg(long, conflicts_with_all = ["beside", "executions"])]
        store: Option<String>,
    },
    /// Lists, filters, counts, watches, Get, start-up and memory with 10,000, 100,000 and 1,000,000 stored
    /// executions
    Growth {
        /// Only with this many
        #[arg(long)]
        executions: Option<u64>,
    },
    /// How late 40,000 timers fire that are due within three seconds
    Timers,
    /// How many executions a second are verified, of 100,000 with five steps each
    Verify {
        /// Of this many
        #[arg(long)]
        executions: Option<u64>,
    },
    /// GetExecution against the bare query on a real Restate server, and a watch on 1,000
    /// invocations
    Restate,
    /// Chains of five steps with 64 under way on a host inside a real Restate server, and inside a cluster; or beside plain
    /// chains of five activities on a real Temporal server
    Hosts {
        /// Engine of the hosts
        #[arg(long, value_enum, default_value = "restate")]
        engine: HostEngine,
        /// With Restate: number of servers of the cluster; 1 leaves the cluster out
        #[arg(long, default_value_t = 3)]
        nodes: u64,
    },
    /// GetExecution over TLS, with a JSON Web Token and 100 access rules, against an empty gRPC service
    /// over TLS
    Secure,
    /// GetExecution through a provider in another process, against the same provider in the gateway
    Remote,
    /// The provider's get and GetExecution against the bare description on a real Temporal server, and a
    /// watch of 1,000 workflows
    Temporal,
}

/// An engine to compare with.
#[derive(Clone, Copy, ValueEnum)]
enum Peer {
    /// A Restate server of the pinned version, with a service in Rust
    Restate,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    match options.what {
        What::Machine => soak::example("machine", "bench", &[]),
        What::Gateway => {
            from_outside(&["gateway"], &[])?;
            from_outside(&["secure"], &[])
        }
        What::Secure => from_outside(&["secure"], &[]),
        What::HalfOpen => from_outside(&["half-open"], &[]),
        What::Remote => from_outside(&["remote"], &[]),
        What::Restate => from_outside(&["restate"], &peers::restate()?),
        What::Hosts {
            engine: HostEngine::Temporal,
            ..
        } => from_outside(&["hosts", "--engine", "temporal"], &peers::temporal()?),
        What::Hosts {
            engine: HostEngine::Restate,
            nodes,
        } => {
            let [(name, server), _] = peers::restate_for_chains()?;
            let nodes = nodes.to_string();
            from_outside(&["hosts", "--nodes", &nodes], &[(name, server)])
        }
        What::Temporal => from_outside(&["temporal"], &peers::temporal()?),
        What::Growth { executions } => counted("growth", executions),
        What::Engine {
            beside: Some(Peer::Restate),
            ..
        } => from_outside(
            &["engine", "--beside", "restate"],
            &peers::restate_for_chains()?,
        ),
        What::Engine {
            store: Some(ref store),
            executions: None,
            ..
        } => from_outside(&["engine", "--store", store], &[]),
        What::Engine { executions, .. } => counted("engine", executions),
        What::Timers => from_outside(&["timers"], &[]),
        What::Verify { executions } => counted("verify", executions),
    }
}

/// Measures with a number of executions, where one is given.
fn counted(what: &str, executions: Option<u64>) -> Result<(), String> {
    let count = executions.map(|count| count.to_string());
    let mut arguments = vec![what];
    if let Some(count) = &count {
        arguments.extend(["--executions", count]);
    }
    from_outside(&arguments, &[])
}

/// Measures the gateway's own binary, with peers named by variables.
fn from_outside(what: &[&str], peers: &[(&str, PathBuf)]) -> Result<(), String> {
    let mut bench = release_bench()?;
    succeed(bench.args(what).envs(peers.iter().cloned()))
}

/// Builds the gateway's binary and the benchmarks for release; the command that runs the benchmarks. One build of both:
/// the benchmarks alone need fewer features of shared crates, and cargo would compile these crates again.
pub(crate) fn release_bench() -> Result<Command, String> {
    let packages = ["--package", "stateway-cli", "--package", "stateway-bench"];
    succeed(
        cargo()
            .args(["build", "--release", "--quiet"])
            .args(packages),
    )?;
    let mut bench = Command::new(target().join("release/stateway-bench"));
    own(bench.current_dir(root()));
    Ok(bench)
}
