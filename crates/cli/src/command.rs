//! The commands, one file each, named after it.

mod access;
mod admin;
mod approvals;
mod audit;
mod branches;
mod cancel;
mod completions;
mod config;
mod conformance;
mod connection;
mod contexts;
mod count;
mod definitions;
mod demo;
mod escalations;
mod events;
mod explain;
mod get;
mod health;
mod history;
mod host;
mod keys;
mod list;
mod login;
mod logout;
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
mod whoami;
mod worker;
mod workers;

use clap::Subcommand;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::sign_in::keep_fresh;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway
    Serve(serve::Serve),
    /// Check whether a gateway serves
    Health(health::Health),
    /// Run portable executions inside another engine
    Host(host::Host),
    /// Run a demo: a gateway, five examples and their workers, in one process
    Demo(demo::Demo),
    /// Start an execution
    Start(start::Start),
    /// Show an execution
    Get(get::Get),
    /// List executions of one provider or of all providers
    List(list::List),
    /// Count executions by sub-state
    Count(count::Count),
    /// Follow the changes of one execution or of a collection
    Watch(watch::Watch),
    /// Show counts, providers and executions live, the most urgent executions first
    Top(top::Top),
    /// Wait until an execution has finished or has a given sub-state
    Wait(wait::Wait),
    /// Explain the sub-state of an execution
    Explain(explain::Explain),
    /// Show the events of an execution, as its engine reports them
    History(history::History),
    /// Show an execution as of any event, or simulate it under another definition
    Replay(replay::Replay),
    /// Show the branches of an execution's log
    Branches(branches::Branches),
    /// Compare the stored data of executions with their logs
    Verify(verify::Verify),
    /// Repair stored data that differs from an execution's log
    Recover(recover::Recover),
    /// Send a signal to an execution
    Signal(signal::Signal),
    /// Cancel or kill an execution
    Cancel(cancel::Cancel),
    /// Pause an execution
    Pause(pause::Pause),
    /// Resume a paused execution
    Resume(resume::Resume),
    /// Start the next attempt immediately instead of at its scheduled time
    RetryNow(retry_now::RetryNow),
    /// Run an execution again from a step
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
    /// Publish events that start executions
    #[command(subcommand)]
    Events(events::Events),
    /// Disable and enable events and schedules that start executions
    #[command(subcommand)]
    Triggers(triggers::Triggers),
    /// Show the connected workers
    #[command(subcommand)]
    Workers(workers::Workers),
    /// Show the tasks that wait for a worker and the executions that wait for a slot
    Queue(queue::Queue),
    /// Purge and back up the store of the built-in engine
    #[command(subcommand)]
    Admin(admin::Admin),
    /// Remove the record of a finished execution from its engine
    Purge(purge::Purge),
    /// Show the providers of the gateway
    #[command(subcommand)]
    Providers(providers::Providers),
    /// Sign in to a gateway and keep the credential
    Login(login::Login),
    /// Sign out: remove the credential of a gateway
    Logout(logout::Logout),
    /// Show your identity and your permissions at the gateway
    Whoami(whoami::Whoami),
    /// List, choose and delete contexts: gateways with the credentials for them
    #[command(subcommand)]
    Contexts(contexts::ContextsCommand),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Explain and test access rules
    #[command(subcommand)]
    Access(access::AccessCommand),
    /// Check and list the audit records of a gateway
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Check a configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Check a provider in another process against the contract
    Conformance(conformance::Conformance),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print the manual, or write its pages
    Man(man::Man),
}

impl Command {
    /// Whether a command sends the credential of a context.
    const fn calls_gateway(&self) -> bool {
        !matches!(
            self,
            Self::Serve(_)
                | Self::Host(_)
                | Self::Demo(_)
                | Self::Login(_)
                | Self::Logout(_)
                | Self::Contexts(_)
                | Self::Keys(_)
                | Self::Access(_)
                | Self::Audit(_)
                | Self::Config(_)
                | Self::Conformance(_)
                | Self::Completions(_)
                | Self::Man(_)
        )
    }
}

/// Runs one command to its end, on a runtime of its own.
///
/// Not async, so that the code of every command is generated here. If `main` polled the future, the compiler
/// would generate it there, in one piece and after everything else.
///
/// # Errors
/// Why it did not do what was asked.
pub fn run_to_end(arguments: Arguments) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        Failure::new(
            Exit::Internal,
            format!("the runtime cannot be started: {error}"),
        )
    })?;
    runtime.block_on(run(arguments))
}

/// Runs one command.
///
/// # Errors
/// Why it did not do what was asked.
async fn run(arguments: Arguments) -> Outcome {
    let globals = &arguments.globals;
    let _fresh = if arguments.command.calls_gateway() {
        Some(keep_fresh(globals).await?)
    } else {
        None
    };
    let context = || Context::new(globals);
    match arguments.command {
        Command::Serve(command) => command.run(globals).await,
        Command::Health(command) => command.run(globals).await,
        Command::Host(command) => command.run(globals).await,
        Command::Demo(command) => Box::pin(command.run(globals)).await,
        Command::Worker(command) => command.run(globals).await,
        Command::Login(command) => Box::pin(command.run(globals)).await,
        Command::Logout(command) => Box::pin(command.run(globals)).await,
        Command::Whoami(command) => Box::pin(command.run(globals)).await,
        Command::Contexts(command) => Box::pin(command.run(globals)).await,
        Command::Keys(command) => command.run(globals),
        Command::Access(command) => command.run(globals),
        Command::Audit(command) => command.run(globals),
        Command::Config(command) => command.run(globals),
        Command::Conformance(command) => command.run(globals).await,
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
