//! `cargo xtask`: the developer's commands.
//!
//! `test` runs everything, `docs` renders what is generated from data, `soak` holds the pure
//! core to its invariants at length, `histories` records golden histories, `crash` kills the
//! gateway under load, `bench` measures, `screenshots` takes the pictures of the dashboard.

mod bench;
mod browser;
mod crash;
mod docs;
mod histories;
mod peers;
mod run;
mod screenshots;
mod soak;
mod tally;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "What a developer of Stateway runs")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every test and end with counts
    Test(test::Options),
    /// Render the generated parts of docs/, or check them
    Docs(docs::Options),
    /// Make the golden histories in tests/histories/ anew
    Histories,
    /// Hold the pure core to its invariants, at length
    Soak(soak::Options),
    /// Kill the gateway again and again under load, and check what it promised
    Crash(crash::Options),
    /// Take the pictures of the dashboard in docs/images anew
    Screenshots,
    /// Measure, as a ratio against a baseline in the same run
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Docs(options) => docs::run(&options),
        Task::Histories => histories::run(),
        Task::Soak(options) => soak::run(&options),
        Task::Crash(options) => crash::run(&options),
        Task::Screenshots => screenshots::run(),
        Task::Bench(options) => bench::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
