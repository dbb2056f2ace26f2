//! `stateway host`: runs portable executions inside another engine.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::config::refused;
use super::serve::Stop;
use crate::arguments::Globals;
use crate::config::{Config, Kind, LogFormat, Overrides, ProviderConfig, load};
use crate::failure::{Failure, Outcome};
use crate::hosting::{RestateHost, settings_of};
use crate::observability::install;
use crate::temporal_host::TemporalHost;

/// Runs portable executions inside another engine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway host --config stateway.toml
  stateway host --config stateway.toml --provider orders
  stateway host --listen 127.0.0.1:9081

The host serves the provider of kind `restate-host` or `temporal-host` in the configuration. It stores \
nothing, so any number of hosts can run. A host of Restate has its own --listen and --advertise; it registers \
itself with Restate and tries again until Restate answers. Another version of it is another deployment: new \
invocations go to the deployment that was registered last, and invocations that the deployment before has begun \
end there. A host of Temporal listens nowhere: it polls the task queue `host.task_queue`. The processes can start \
in any order. After SIGINT or SIGTERM the host finishes what it has begun; a second signal stops it immediately.")]
pub struct Host {
    /// The provider to serve (default: the only one of kind `restate-host` or `temporal-host`)
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Address on which the host listens (default: `host.listen` of the provider)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// URL by which the engine reaches the host (default: `host.advertise` of the provider, or the address
    /// on which the host listens)
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// Name of the version under which the host is registered (default: `host.deployment` of the provider, or
    /// the version of this program)
    #[arg(long, value_name = "NAME")]
    deployment: Option<String>,
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
        if provider.kind == Kind::TemporalHost {
            let is_given =
                self.listen.is_some() || self.advertise.is_some() || self.deployment.is_some();
            if is_given {
                let message = "a host of Temporal does not listen";
                let hint = "Leave out --listen, --advertise and --deployment: the host polls a task queue.";
                return Err(Failure::usage(message).hint(hint));
            }
            let (stop, host) = (Stop::new()?, TemporalHost::of(provider)?);
            return host.serve(stop.asked()).await;
        }
        let mut settings = settings_of(provider)?;
        settings.host.listen = self.listen.unwrap_or(settings.host.listen);
        if let Some(advertise) = self.advertise {
            settings.host.advertise = advertise;
        }
        if let Some(deployment) = self.deployment {
            settings.host.deployment = deployment;
        }
        let stop = Stop::new()?;
        let host = RestateHost::listen(provider.id.as_str(), settings).await?;
        host.serve(stop.asked()).await
    }
}

fn chosen<'c>(
    providers: &'c [ProviderConfig],
    name: Option<&str>,
) -> Result<&'c ProviderConfig, Failure> {
    let mut hosted = providers.iter().filter(|one| one.kind.has_host());
    let found = match name {
        Some(name) => hosted.find(|one| one.id.as_str() == name),
        None => match (hosted.next(), hosted.next()) {
            (Some(_), Some(_)) => {
                let message = "the configuration has several providers of kind `restate-host` or `temporal-host`";
                return Err(Failure::usage(message).hint("Choose a provider with --provider."));
            }
            (only, _) => only,
        },
    };
    let driven = |one: &&ProviderConfig| one.kind == Kind::StepFunctionsHost;
    let mut driven = providers.iter().filter(driven);
    if found.is_none() && driven.any(|one| name.is_none_or(|name| one.id.as_str() == name)) {
        let message = "a provider of kind `step-functions-host` has no host";
        return Err(Failure::usage(message)
            .hint("Run `stateway serve`: the gateway drives its executions."));
    }
    found.ok_or_else(|| {
        let message = match name {
            Some(name) => {
                format!(
                    "the configuration has no provider `{name}` of kind `restate-host` or `temporal-host`"
                )
            }
            None => {
                "the configuration has no provider of kind `restate-host` or `temporal-host`"
                    .to_owned()
            }
        };
        Failure::usage(message)
            .hint("Add one: `[providers.orders]` with `kind = \"restate-host\"` or `kind = \"temporal-host\"`.")
    })
}
