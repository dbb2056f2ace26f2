//! `cargo xtask`: the developer's commands.
//!
//! `setup` installs what the tests need, `test` runs every test, `fresh` runs the README's commands in a new clone, `docs` renders
//! generated documentation, `api` checks `proto/`, `soak` checks the invariants of the pure core in many random worlds,
//! `histories` records golden histories, `crash` kills the gateway under load, `bench` measures,
//! `screenshots` takes the pictures of the dashboard, `deploy` tests the files in `deploy/`.

mod api;
mod bench;
mod browser;
mod crash;
mod debian;
mod deploy;
mod docs;
mod fresh;
mod histories;
mod peers;
mod run;
mod screenshots;
mod setup;
mod soak;
mod tally;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Commands for developers of Stateway")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the tests need besides Rust, and print a line for each
    Setup(setup::Options),
    /// Run every test; end with times, counts and the names of failed tests
    Test(test::Options),
    /// Clone HEAD into a temporary folder and run the README's commands there, with an empty cargo cache
    Fresh(fresh::Options),
    /// Render the generated parts of docs/, or check them
    Docs(docs::Options),
    /// Check the API in proto/ against its rules and against the committed image
    Api(api::Options),
    /// Record the golden histories in tests/histories/ again
    Histories,
    /// Check the invariants of the pure core in many random worlds
    Soak(soak::Options),
    /// Kill the gateway repeatedly under load, and check that nothing acknowledged is lost
    Crash(crash::Options),
    /// Test the image, the unit, the Helm chart and the alerts in deploy/
    Deploy,
    /// Take the pictures of the dashboard in docs/images again
    Screenshots,
    /// Measure, as a ratio against a baseline in the same run
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Setup(options) => setup::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Fresh(options) => fresh::run(&options),
        Task::Docs(options) => docs::run(&options),
        Task::Api(options) => api::run(&options),
        Task::Histories => histories::run(),
        Task::Soak(options) => soak::run(&options),
        Task::Crash(options) => crash::run(&options),
        Task::Deploy => deploy::run(),
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
