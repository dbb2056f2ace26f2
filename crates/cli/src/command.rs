//! The commands, one file each, named after it.

mod admin;
mod approvals;
mod branches;
mod cancel;
mod completions;
mod config;
mod connection;
mod count;
mod definitions;
mod demo;
mod escalations;
mod events;
mod explain;
mod get;
mod history;
mod list;
mod man;
mod pause;
mod providers;
mod purge;
mod queue;
mod recover;
mod replay;
mod resume;
mod retry_from;
mod retry_now;
mod serve;
mod signal;
mod start;
mod top;
mod triggers;
mod verify;
mod wait;
mod watch;
mod worker;
mod workers;

use clap::Subcommand;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::failure::Outcome;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway
    Serve(serve::Serve),
    /// Show everything: a gateway, five examples and workers for them, in one process
    Demo(demo::Demo),
    /// Start an execution
    Start(start::Start),
    /// Show an execution
    Get(get::Get),
    /// List executions, of one provider or of all
    List(list::List),
    /// Count executions by sub-state
    Count(count::Count),
    /// Follow an execution, or a collection, as it changes
    Watch(watch::Watch),
    /// Show everything, live: counts, providers, and the executions that matter first
    Top(top::Top),
    /// Wait until an execution has finished, or shows a sub-state
    Wait(wait::Wait),
    /// Say why an execution shows what it shows
    Explain(explain::Explain),
    /// Show what happened in an execution, in its engine's own words
    History(history::History),
    /// Show an execution at any of its events, or what another definition would have made of it
    Replay(replay::Replay),
    /// Show the branches of an execution's log
    Branches(branches::Branches),
    /// Compare what is kept of executions with their logs
    Verify(verify::Verify),
    /// Put right what contradicts an execution's log
    Recover(recover::Recover),
    /// Send a signal to an execution
    Signal(signal::Signal),
    /// End an execution
    Cancel(cancel::Cancel),
    /// Hold an execution
    Pause(pause::Pause),
    /// Let a held execution go on
    Resume(resume::Resume),
    /// Make the next attempt now instead of at its time
    RetryNow(retry_now::RetryNow),
    /// Do the work again from a step on
    RetryFrom(retry_from::RetryFrom),
    /// Run a program for every task of a role
    Worker(worker::Worker),
    /// Apply, check, draw and delete definitions, and offer them to running executions
    #[command(subcommand)]
    Definitions(definitions::Definitions),
    /// List and decide requests for approval
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// List and decide escalated steps
    #[command(subcommand)]
    Escalations(escalations::Escalations),
    /// Tell of events that start executions
    #[command(subcommand)]
    Events(events::Events),
    /// Disable and enable events and schedules that start executions
    #[command(subcommand)]
    Triggers(triggers::Triggers),
    /// Show who takes tasks
    #[command(subcommand)]
    Workers(workers::Workers),
    /// Show what waits for a worker or for its turn
    Queue(queue::Queue),
    /// Look after the built-in engine's store
    #[command(subcommand)]
    Admin(admin::Admin),
    /// Remove the record of a finished execution from its engine
    Purge(purge::Purge),
    /// Show what stands behind the gateway
    #[command(subcommand)]
    Providers(providers::Providers),
    /// Check a configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print the manual, or write its pages
    Man(man::Man),
}

/// Runs one command.
///
/// # Errors
/// Why it did not do what was asked.
pub async fn run(arguments: Arguments) -> Outcome {
    let globals = &arguments.globals;
    let context = || Context::new(globals);
    match arguments.command {
        Command::Serve(command) => command.run(globals).await,
        Command::Demo(command) => Box::pin(command.run(globals)).await,
        Command::Worker(command) => command.run(globals).await,
        Command::Config(command) => command.run(globals),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
        Command::Definitions(command) => command.run(globals).await,
        Command::Approvals(command) => command.run(&context()?).await,
        Command::Escalations(command) => command.run(&context()?).await,
        Command::Events(command) => command.run(&context()?).await,
        Command::Triggers(command) => command.run(&context()?).await,
        Command::Workers(command) => command.run(&context()?).await,
        Command::Queue(command) => command.run(&context()?).await,
        Command::Admin(command) => command.run(&context()?).await,
        Command::Start(command) => command.run(&context()?).await,
        Command::Get(command) => command.run(&context()?).await,
        Command::List(command) => command.run(&context()?).await,
        Command::Count(command) => command.run(&context()?).await,
        Command::Watch(command) => command.run(&context()?).await,
        Command::Top(command) => Box::pin(command.run(&context()?)).await,
        Command::Wait(command) => command.run(&context()?).await,
        Command::Explain(command) => command.run(&context()?).await,
        Command::History(command) => command.run(&context()?).await,
        Command::Replay(command) => command.run(&context()?).await,
        Command::Branches(command) => command.run(&context()?).await,
        Command::Verify(command) => command.run(&context()?).await,
        Command::Recover(command) => command.run(&context()?).await,
        Command::Signal(command) => command.run(&context()?).await,
        Command::Cancel(command) => command.run(&context()?).await,
        Command::Pause(command) => command.run(&context()?).await,
        Command::Resume(command) => command.run(&context()?).await,
        Command::RetryNow(command) => command.run(&context()?).await,
        Command::RetryFrom(command) => command.run(&context()?).await,
        Command::Purge(command) => command.run(&context()?).await,
        Command::Providers(command) => command.run(&context()?).await,
    }
}
