//! `stateway config check`: the errors of a configuration, or the effective configuration.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::arguments::{Globals, Output};
use crate::config::{Config, ConfigError, Overrides, Problem, load};
use crate::context::{print, print_message, to_json};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::registry;

/// Checks configurations.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Report all errors in a configuration, or print the effective configuration
    Check(Check),
}

/// Checks a configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway config check
  stateway config check stateway.toml
  stateway config check stateway.toml --listen 127.0.0.1:9000 > effective.toml

A flag overrides the environment, the environment the file, and the file the default. \
Secrets are never printed.")]
pub struct Check {
    /// The file (default: the file that `serve` would use)
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
}

/// What `-o json` prints for each error.
#[derive(Debug, Serialize)]
struct Found {
    file: Option<PathBuf>,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

impl ConfigCommand {
    pub(super) fn run(self, globals: &Globals) -> Outcome {
        let Self::Check(mut check) = self;
        check.overrides.config = check.file.or(check.overrides.config);
        match load(&check.overrides) {
            Ok(config) => good(&config, globals.output),
            Err(error) => wrong(&error, globals.output),
        }
    }
}

fn good(config: &Config, output: Output) -> Outcome {
    registry::check(config)?;
    let internal = |error: String| Failure::new(Exit::Internal, error);
    let text = config
        .to_toml()
        .map_err(|error| internal(error.to_string()))?;
    match output {
        Output::Table => print(&text)?,
        Output::Json => {
            let value: serde_json::Value =
                toml::from_str(&text).map_err(|error| internal(error.to_string()))?;
            print(&to_json(&value)?)?;
        }
    }
    match &config.file {
        Some(file) => print_message(&format!("{} is good", file.display())),
        None => print_message("no configuration file was found; these are the defaults"),
    }
    Ok(Exit::Ok)
}

fn wrong(error: &ConfigError, output: Output) -> Outcome {
    if output == Output::Json {
        let found: Vec<Found> = error.problems.iter().map(Found::from).collect();
        print(&to_json(&found)?)?;
    }
    Err(refused(error))
}

/// The failure for a configuration that cannot be used, the same for every command.
pub(super) fn refused(error: &ConfigError) -> Failure {
    let mut problems = error.problems.iter().map(ToString::to_string);
    let mut failure = Failure::usage(problems.next().unwrap_or_default())
        .hint("docs/stateway.example.toml shows every key.");
    failure.details = problems
        .map(|problem| format!("error: {problem}"))
        .collect();
    failure
}

impl From<&Problem> for Found {
    fn from(problem: &Problem) -> Self {
        Self {
            file: problem.file.clone(),
            line: problem.place.map(|(line, _)| line),
            column: problem.place.map(|(_, column)| column),
            message: problem.message.clone(),
        }
    }
}
