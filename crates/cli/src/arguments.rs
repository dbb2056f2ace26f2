//! The global options and the command to run.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

use crate::command::Command;
use crate::duration::Span;
use crate::exit;

/// The default address of the gateway.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7380";

const EXAMPLES: &str = "\
Examples:
  stateway serve
  stateway providers list
  stateway definitions apply order.yaml
  stateway start order --id order-17 --input '{\"amount\":20}' --wait
  stateway list --filter 'sub_state = \"backing-off\"'
  stateway watch builtin/order-17
  stateway explain builtin/order-17

Names are full (providers/{provider}/executions/{id}) or short (provider/id).
";

/// One gateway in front of your workflow engines: start, watch and control executions, with the
/// same six states for every engine.
#[derive(Debug, Parser)]
#[command(name = "stateway", version, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLES}\n{}", exit::HELP))]
pub struct Arguments {
    /// For every command.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// For every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Output format: a table for people, or JSON for programs
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub output: Output,
    /// Address of the gateway (default: the address of the context, or http://127.0.0.1:7380 without a
    /// context)
    #[arg(long, global = true, env = "STATEWAY_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// Context to use: a gateway and the credentials for it, saved by `stateway login` (default: the
    /// current context)
    #[arg(long, global = true, env = "STATEWAY_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// Trust the certificate authorities in this PEM file instead of those of the system
    #[arg(long, global = true, env = "STATEWAY_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Present the certificate chain in this PEM file to the gateway
    #[arg(long, global = true, env = "STATEWAY_TLS_CERT", value_name = "FILE")]
    #[arg(requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, as a PEM file
    #[arg(long, global = true, env = "STATEWAY_TLS_KEY", value_name = "FILE")]
    #[arg(requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Send the token or API key in this file with every call (default: the content of STATEWAY_TOKEN)
    #[arg(long, global = true, env = "STATEWAY_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Maximum duration of a call, for example 10s or 2m (default: 30s); for `wait`, `watch` and
    /// `start --wait`, how long to wait (default: no limit)
    #[arg(long, global = true, value_name = "DURATION")]
    pub timeout: Option<Span>,
    /// Name of the caller, recorded with each action (default: $USER, unless a token or a certificate is
    /// used)
    #[arg(
        long = "as",
        global = true,
        env = "STATEWAY_ACTOR",
        value_name = "NAME"
    )]
    pub actor: Option<String>,
    /// Role of the caller; may be given several times
    #[arg(
        long = "role",
        global = true,
        env = "STATEWAY_ROLES",
        value_name = "ROLE"
    )]
    #[arg(value_delimiter = ',')]
    pub roles: Vec<String>,
    /// When to use colours; `auto` respects NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table for people.
    Table,
    /// JSON for programs.
    Json,
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// Only on a terminal.
    Auto,
    /// On a terminal and in a pipe.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether to use colours where this is, or is not, a terminal.
    #[must_use]
    pub fn on(self, terminal: bool) -> bool {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => terminal && wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
