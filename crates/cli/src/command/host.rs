//! `stateway host`: runs portable executions inside another engine.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize as _;
use stateway_host_restate::{Endpoint, deployment_path};
use stateway_provider_restate::{HostConfig, RegisterError, register_deployment};

use super::config::refused;
use super::serve::Stop;
use crate::arguments::Globals;
use crate::config::{Config, Kind, LogFormat, Overrides, ProviderConfig, load};
use crate::context::print_message;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::observability::install;

/// The first and the longest pause between two attempts to register.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// How long one attempt to register may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs portable executions inside another engine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway host --config stateway.toml
  stateway host --config stateway.toml --provider orders
  stateway host --listen 127.0.0.1:9081

The host serves the provider of kind `restate-host` in the configuration. It stores nothing: any \
number of hosts can run, each with its own --listen and --advertise. The host registers itself \
with Restate and tries again until Restate answers, so the processes can start in any order. After \
SIGINT or SIGTERM the host finishes what it has begun; a second signal stops it immediately.")]
pub struct Host {
    /// The provider to serve (default: the only one of kind `restate-host`)
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Address on which the host listens (default: `host.listen` of the provider)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// URL by which the engine reaches the host (default: `host.advertise` of the provider, or the address
    /// on which the host listens)
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// Configuration file (default: `stateway.toml` in this folder, if it exists)
    #[arg(long, env = "STATEWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log levels, for example `info` (default: `info`)
    #[arg(long, env = "STATEWAY_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// Format of the log (default: `text`)
    #[arg(long, env = "STATEWAY_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

impl Host {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let overrides = Overrides {
            config: self.config.clone(),
            log: self.log.clone(),
            log_format: self.log_format,
            ..Overrides::default()
        };
        let config = load(&overrides).map_err(|error| refused(&error))?;
        let color = globals.color.on(std::io::stderr().is_terminal());
        let telemetry = install(&config.log, &config.otlp, color)?;
        let hosted = self.host(&config).await;
        tokio::task::block_in_place(|| telemetry.finish());
        hosted
    }

    async fn host(self, config: &Config) -> Outcome {
        let provider = chosen(&config.providers, self.provider.as_deref())?;
        let id = &provider.id;
        let settings = HostConfig::deserialize(provider.options.clone());
        let wrong = |error| Failure::usage(format!("provider {id}: {error}"));
        let mut settings = settings.map_err(wrong)?;
        settings.host.listen = self.listen.unwrap_or(settings.host.listen);
        if let Some(advertise) = self.advertise {
            settings.host.advertise = advertise;
        }
        serve(id.as_str(), settings).await
    }
}

async fn serve(id: &str, settings: HostConfig) -> Outcome {
    let stop = Stop::new()?;
    let endpoint = Endpoint::listen(settings.host.listen).await;
    let endpoint = endpoint.map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    let advertised = match settings.host.advertise.trim_end_matches('/') {
        "" if endpoint.address().ip().is_unspecified() => {
            let message = format!("Restate cannot reach a host at {}", endpoint.address());
            let hint = "Set `host.advertise` or --advertise to the address by which Restate reaches this host.";
            return Err(Failure::usage(message).hint(hint));
        }
        "" => format!("http://{}", endpoint.address()),
        given => given.to_owned(),
    };
    print_message(&format!(
        "stateway host is listening on http://{} (provider {id})",
        endpoint.address()
    ));
    let address = format!("{advertised}/{}", deployment_path());
    let registering = tokio::spawn(register(settings, address));
    let served = endpoint.serve(stop.asked()).await;
    registering.abort();
    served.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    print_message("stateway host has stopped");
    Ok(Exit::Ok)
}

fn chosen<'c>(
    providers: &'c [ProviderConfig],
    name: Option<&str>,
) -> Result<&'c ProviderConfig, Failure> {
    let mut hosted = providers.iter().filter(|one| one.kind == Kind::RestateHost);
    let found = match name {
        Some(name) => hosted.find(|one| one.id.as_str() == name),
        None => match (hosted.next(), hosted.next()) {
            (Some(_), Some(_)) => {
                let message = "the configuration has several providers of kind `restate-host`";
                return Err(Failure::usage(message).hint("Choose one with --provider."));
            }
            (only, _) => only,
        },
    };
    found.ok_or_else(|| {
        let message = match name {
            Some(name) => {
                format!("the configuration has no provider `{name}` of kind `restate-host`")
            }
            None => "the configuration has no provider of kind `restate-host`".to_owned(),
        };
        Failure::usage(message)
            .hint("Add one: `[providers.orders]` with `kind = \"restate-host\"`.")
    })
}

/// Registers the host, and retries until Restate accepts it.
async fn register(settings: HostConfig, address: String) {
    let restate = settings.restate();
    let mut pause = PAUSE.0;
    loop {
        match register_deployment(&restate, &address, PATIENCE).await {
            Ok(()) => {
                print_message(&format!("the host is registered with Restate as {address}"));
                return;
            }
            Err(error @ RegisterError::Config(_)) => {
                print_message(&format!("the host cannot be registered: {error}"));
                return;
            }
            Err(error) => {
                tracing::warn!("the host is not registered yet: {error}");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }
}
