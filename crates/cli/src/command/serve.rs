//! `stateway serve`: the gateway itself.

use std::io::IsTerminal;

use clap::Args;
use stateway_gateway::{Gateway, Port, StartError};
use stateway_model::ProviderId;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::config::refused;
use crate::arguments::Globals;
use crate::config::{Config, Kind, Overrides, load};
use crate::context::print_message;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::hosting::ServedHosts;
use crate::observability::{Metrics, install};
use crate::registry;

/// The exit code of an interrupted process, by the convention of shells.
pub(super) const INTERRUPTED: i32 = 130;

/// Runs the gateway.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway serve
  stateway serve --config stateway.toml
  stateway serve --listen 127.0.0.1:0 --log debug --log-format json

Without a configuration the only provider is `builtin`: the durable engine, which stores its data in \
stateway.db in the working directory. A flag overrides the environment, the environment the file, and \
the file the default. After SIGINT or SIGTERM the gateway waits for calls and streams to end; a second \
signal stops it immediately.")]
pub struct Serve {
    #[command(flatten)]
    overrides: Overrides,
}

impl Serve {
    pub(super) async fn run(self, globals: &Globals) -> Outcome {
        let config = load(&self.overrides).map_err(|error| refused(&error))?;
        let color = globals.color.on(std::io::stderr().is_terminal());
        let telemetry = install(&config.log, &config.otlp, color)?;
        let served = serve(&config).await;
        // The last spans need the runtime's other threads to get out.
        tokio::task::block_in_place(|| telemetry.finish());
        served
    }
}

async fn serve(config: &Config) -> Outcome {
    let metrics = Metrics::install()?;
    let stop = Stop::new()?;
    let gateway = bind(config, &metrics).await?;
    print_message(&ready(gateway.local_addr(), config));
    let mut hosts = ServedHosts::begin(&config.providers).await?;
    if let Some(address) = gateway.monitoring_addr() {
        print_message(&format!("health and metrics are also at http://{address}"));
    }
    let (end, ended) = oneshot::channel::<()>();
    let serving = gateway.serve(async move {
        tokio::select! {
            () = stop.asked() => {}
            // It is dropped, not sent.
            _ = ended => {}
        }
    });
    let serving = async { serving.await.map_err(|error| not_started(&error)) };
    let served = hosts.beside(serving, end).await;
    // The last results of workers need the hosts, so the hosts stop after the gateway.
    let hosted = hosts.stop().await;
    served?;
    hosted?;
    print_message("stateway has stopped");
    Ok(Exit::Ok)
}

/// The gateway of a configuration, which has its port and answers nothing yet.
pub(super) async fn bind(config: &Config, metrics: &Metrics) -> Result<Gateway, Failure> {
    let port = Port::open(&config.settings).await;
    let port = port.map_err(|error| not_started(&error))?;
    let registry = registry::build(config)?;
    let mut settings = config.settings.clone();
    settings.default_provider = default_provider(config);
    let gateway = Gateway::on(port, &registry, settings, metrics.page());
    Ok(gateway.with_pages(stateway_dashboard::router))
}

/// Portable definitions start on the built-in engine until they are moved to another provider.
fn default_provider(config: &Config) -> Option<ProviderId> {
    let mut providers = config.providers.iter();
    let builtin = providers.find(|provider| provider.kind == Kind::Builtin);
    builtin.map(|provider| provider.id.clone())
}

pub(super) fn ready(address: std::net::SocketAddr, config: &Config) -> String {
    let ids: Vec<_> = config
        .providers
        .iter()
        .map(|provider| provider.id.as_str())
        .collect();
    let count = match ids.len() {
        1 => "1 provider".to_owned(),
        count => format!("{count} providers"),
    };
    let scheme = match &config.settings.tls {
        Some(_) => "https",
        None => "http",
    };
    format!(
        "stateway is listening on {scheme}://{address} ({count}: {})",
        ids.join(", ")
    )
}

pub(super) fn not_started(error: &StartError) -> Failure {
    let exit = match error {
        StartError::NotLoopback(_)
        | StartError::Tls(_)
        | StartError::Authentication(_)
        | StartError::Access(_)
        | StartError::Audit(_) => Exit::Usage,
        StartError::Bind { .. } => Exit::Refused,
        StartError::Reflection(_) => Exit::Internal,
    };
    Failure::new(exit, error.to_string()).hint(error.hint())
}

/// The signals that stop the process.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// Listens from here on, so that no signal is missed while the gateway starts.
    pub(super) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(
                    Exit::Internal,
                    format!("signals cannot be received: {error}"),
                )
            })
        };
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Self {
            interrupt,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Resolves with the first signal. The second signal ends the process immediately.
    pub(super) async fn asked(mut self) {
        self.next().await;
        print_message("stopping: waiting for calls and streams; a second signal stops immediately");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(INTERRUPTED);
        });
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
