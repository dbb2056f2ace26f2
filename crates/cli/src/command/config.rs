//! `stateway config check`: the errors of a configuration, or the effective configuration.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use stateway_gateway::{NO_RULES, StartError};

use crate::arguments::{Globals, Output};
use crate::config::{Config, ConfigError, Overrides, Problem, load_all};
use crate::context::{print, print_message, to_json};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::registry;

/// Checks configurations.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Report the errors in a configuration, or print the effective configuration
    Check(Check),
}

/// Checks a configuration.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway config check
  stateway config check stateway.toml
  stateway config check stateway.toml --listen 127.0.0.1:9000 > effective.toml

A flag overrides the environment, the environment the file, and the file the default. The check opens every \
file that `serve` opens (certificates, keys, rules, the folder of the audit log) and changes none of them. Stores, \
ports and addresses of other servers are not checked. An error can hide others of the same section: repeat the \
check after each correction. Secrets are never printed.")]
pub struct Check {
    /// The file (default: the file that `serve` would use)
    file: Option<PathBuf>,
    /// Do not open the files that the configuration names, for a configuration of another machine
    #[arg(long)]
    without_files: bool,
    #[command(flatten)]
    overrides: Overrides,
}

/// What `-o json` prints for each error.
#[derive(Debug, Serialize)]
struct ProblemReport {
    file: Option<PathBuf>,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

impl ConfigCommand {
    pub(super) fn run(self, globals: &Globals) -> Outcome {
        let Self::Check(mut check) = self;
        check.overrides.config = check.file.or(check.overrides.config);
        let (config, mut problems) = match load_all(&check.overrides) {
            Ok(loaded) => loaded,
            Err(error) => return wrong(&error, globals.output),
        };
        if !check.without_files {
            problems.extend(files(&config, problems.is_empty()));
        }
        problems.extend(providers(&config));
        if problems.is_empty() {
            good(&config, globals.output)
        } else {
            wrong(&ConfigError { problems }, globals.output)
        }
    }
}

/// The errors of the files that a gateway would open.
fn files(config: &Config, is_good: bool) -> Vec<Problem> {
    let found = stateway_gateway::check(&config.settings).into_iter();
    // A section with errors has its defaults here, so nothing can be concluded from a missing key.
    let found = found.filter(|error| is_good || !is_about_sections(error));
    found
        .map(|error| problem(config, error.to_string()))
        .collect()
}

/// Whether an error is that a section is missing.
const fn is_about_sections(error: &StartError) -> bool {
    use stateway_gateway::{AccessError, AuthenticationError};
    matches!(
        error,
        StartError::NotLoopback(_)
            | StartError::Access(AccessError::NoAuthentication)
            | StartError::Authentication(
                AuthenticationError::NoClientCa | AuthenticationError::NoIssuer
            )
    )
}

/// The errors of the providers.
fn providers(config: &Config) -> Vec<Problem> {
    let found = registry::check(config).into_iter();
    found
        .map(|failure| problem(config, failure.message))
        .collect()
}

fn problem(config: &Config, message: String) -> Problem {
    Problem {
        file: config.file.clone(),
        place: None,
        message,
    }
}

fn good(config: &Config, output: Output) -> Outcome {
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
    // The path of a file is complete in a configuration that was read.
    let rules = config.access.rules(Path::new(""));
    let has_no_rule = rules.is_ok_and(|rules| rules.is_empty());
    if has_no_rule && config.settings.authentication.is_required() {
        print_message(&format!("warning: {NO_RULES}"));
    }
    Ok(Exit::Ok)
}

fn wrong(error: &ConfigError, output: Output) -> Outcome {
    if output == Output::Json {
        let found: Vec<ProblemReport> = error.problems.iter().map(ProblemReport::from).collect();
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

impl From<&Problem> for ProblemReport {
    fn from(problem: &Problem) -> Self {
        Self {
            file: problem.file.clone(),
            line: problem.place.map(|(line, _)| line),
            column: problem.place.map(|(_, column)| column),
            message: problem.message.clone(),
        }
    }
}
