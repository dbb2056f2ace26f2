//! `stateway health`: whether a gateway serves. The health check of containers, which have no other program.

mod local;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use stateway_client::CheckHealth;

use super::config::refused;
use crate::arguments::Globals;
use crate::config::{Overrides, load};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::target::Target;
use local::Local;

/// A gateway that serves answers within milliseconds.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks whether a gateway serves.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway health
  stateway health --server https://stateway.example.org:7380
  stateway health --provider payments
  stateway health --config /etc/stateway/stateway.toml

With --config, the command calls the gateway of that configuration on this machine: at \
`server.monitoring_listen` (default: `server.listen`). Over TLS it accepts any \
certificate, because the certificate of a gateway names other addresses than that of this machine. It \
sends no credentials and reads nothing but the health.

The exit code is 0 if the gateway serves and 6 if it does not serve or does not answer within --timeout \
(default: 5s).")]
pub struct Health {
    /// Check the gateway of this configuration on this machine
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check one provider of the gateway at --server
    #[arg(long, value_name = "PROVIDER", conflicts_with = "config")]
    provider: Option<String>,
}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct Checked {
    serving: bool,
    address: String,
}

impl Health {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let context = Context::new(globals)?;
        let timeout = context.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let checked = match &self.config {
            Some(file) => {
                let overrides = Overrides {
                    config: Some(file.clone()),
                    listen: listen_of_environment()?,
                    ..Overrides::default()
                };
                let config = load(&overrides).map_err(|error| refused(&error))?;
                let local = Local::of(&config.settings);
                Checked {
                    serving: local.is_serving(timeout).await?,
                    address: local.to_string(),
                }
            }
            None => {
                let call = match &self.provider {
                    Some(provider) => CheckHealth::of_provider(provider),
                    None => CheckHealth::of_gateway(),
                };
                let client = context.client.clone().without_retries();
                Checked {
                    serving: client.is_serving(call.timeout(timeout)).await?,
                    address: Target::without_credentials(globals)?.server,
                }
            }
        };
        let word = if checked.serving {
            "serving"
        } else {
            "not serving"
        };
        context.show(&checked, || word.to_owned())?;
        if checked.serving {
            Ok(Exit::Ok)
        } else {
            Ok(Exit::Unreachable)
        }
    }
}

/// The gateway of a container gets its address from the same environment as this command.
fn listen_of_environment() -> Result<Option<std::net::SocketAddr>, Failure> {
    match std::env::var("STATEWAY_LISTEN") {
        Ok(listen) => {
            let wrong =
                |_| Failure::usage(format!("STATEWAY_LISTEN is not an address: `{listen}`"));
            listen.parse().map(Some).map_err(wrong)
        }
        Err(_) => Ok(None),
    }
}
