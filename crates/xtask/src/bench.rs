//! `cargo xtask bench`: figures, always beside a baseline of the same run.

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
    /// GetExecution against an empty gRPC service, and 10,000 watchers on one execution
    Gateway,
    /// GetExecution against the bare query on a real Restate server, and a watch on 1,000
    /// invocations
    Restate,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let (what, peers) = match options.what {
        What::Gateway => ("gateway", Vec::new()),
        What::Restate => ("restate", peers::restate()?.to_vec()),
    };
    succeed(cargo().args(["build", "--release", "--quiet", "--package", "stateway-cli"]))?;
    let mut bench = cargo();
    bench.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "stateway-bench",
        "--",
        what,
    ]);
    succeed(bench.envs(peers))
}
