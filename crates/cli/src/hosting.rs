//! Runs the host of a provider: `stateway host` in a process of its own, `stateway serve` beside the gateway.

use std::future::Future;
use std::time::Duration;

use serde::Deserialize as _;
use stateway_host_restate::{Endpoint, deployment_path};
use stateway_provider_restate::{HostConfig, RegisterError, register_deployment};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinSet};

use crate::config::{Kind, ProviderConfig};
use crate::context::print_message;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// The first and the longest pause between two attempts to register.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// How long one attempt to register may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host that listens and is not registered yet.
pub struct RestateHost {
    provider: String,
    endpoint: Endpoint,
    settings: HostConfig,
    /// The URL under which the host is registered.
    address: String,
}

/// The settings of a provider of kind `restate-host`.
///
/// # Errors
/// Options that cannot be read.
pub fn settings_of(provider: &ProviderConfig) -> Result<HostConfig, Failure> {
    let id = &provider.id;
    HostConfig::deserialize(provider.options.clone())
        .map_err(|error| Failure::usage(format!("provider {id}: {error}")))
}

impl RestateHost {
    /// Listens on the address of the settings.
    ///
    /// # Errors
    /// The address cannot be used, or Restate cannot reach it.
    pub async fn listen(provider: &str, settings: HostConfig) -> Result<Self, Failure> {
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
            "stateway host is listening on http://{} (provider {provider})",
            endpoint.address()
        ));
        let path = deployment_path(&settings.host.deployment);
        Ok(Self {
            provider: provider.to_owned(),
            endpoint,
            settings,
            address: format!("{advertised}/{path}"),
        })
    }

    /// Registers the host and answers Restate until `stop` ends, then finishes what it has begun.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> Outcome {
        let registering = tokio::spawn(register(self.settings, self.address));
        let served = self.endpoint.serve(stop).await;
        registering.abort();
        served.map_err(|error| {
            let message = format!("the host of provider {}: {error}", self.provider);
            Failure::new(Exit::Internal, message)
        })?;
        print_message("stateway host has stopped");
        Ok(Exit::Ok)
    }
}

/// The hosts that `stateway serve` runs: those of providers with `host.serve`.
pub struct ServedHosts {
    stop: watch::Sender<()>,
    hosts: JoinSet<Outcome>,
}

impl ServedHosts {
    /// Listens and registers, for every provider that asks for it.
    ///
    /// # Errors
    /// Settings or an address that cannot be used.
    pub async fn begin(providers: &[ProviderConfig]) -> Result<Self, Failure> {
        let (stop, stopped) = watch::channel(());
        let mut hosts = JoinSet::new();
        for provider in providers.iter().filter(|it| it.kind == Kind::RestateHost) {
            let settings = settings_of(provider)?;
            if settings.host.serve {
                let host = RestateHost::listen(provider.id.as_str(), settings).await?;
                let mut stopped = stopped.clone();
                hosts.spawn(host.serve(async move {
                    // It resolves with an error when the sender is dropped, which is the order to stop.
                    let _ = stopped.changed().await;
                }));
            }
        }
        Ok(Self { stop, hosts })
    }

    /// Resolves when a host ends that was not stopped. Without hosts it never does.
    pub async fn failed(&mut self) -> Failure {
        match self.hosts.join_next().await {
            None => std::future::pending().await,
            Some(ended) => joined(ended).err().unwrap_or_else(|| {
                Failure::new(
                    Exit::Internal,
                    "a host has stopped although nobody stopped it",
                )
            }),
        }
    }

    /// Waits for a gateway to end. A host that ends earlier stops the gateway by dropping `stop`: without the host,
    /// executions of its provider would wait although the gateway answers.
    ///
    /// # Errors
    /// The error of the gateway, else that of the host.
    pub async fn beside(
        &mut self,
        gateway: impl Future<Output = Result<(), Failure>>,
        stop: oneshot::Sender<()>,
    ) -> Result<(), Failure> {
        tokio::pin!(gateway);
        tokio::select! {
            served = &mut gateway => served,
            failed = self.failed() => {
                print_message(&format!("stopping: {failed}"));
                drop(stop);
                gateway.await?;
                Err(failed)
            }
        }
    }

    /// Stops all hosts; each finishes what it has begun. The first failure is reported.
    ///
    /// # Errors
    /// A host has failed.
    pub async fn stop(self) -> Outcome {
        let Self { stop, mut hosts } = self;
        drop(stop);
        let mut outcome = Ok(Exit::Ok);
        while let Some(ended) = hosts.join_next().await {
            outcome = outcome.and(joined(ended));
        }
        outcome
    }
}

/// The outcome of a host that has ended, also by a panic.
fn joined(ended: Result<Outcome, JoinError>) -> Outcome {
    ended.unwrap_or_else(|error| {
        let message = format!("a host has ended: {error}");
        Err(Failure::new(Exit::Internal, message))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn served(host: impl Future<Output = Outcome> + Send + 'static) -> ServedHosts {
        let mut hosts = JoinSet::new();
        hosts.spawn(host);
        let (stop, _) = watch::channel(());
        ServedHosts { stop, hosts }
    }

    /// A gateway that ends when it is stopped.
    async fn gateway(stopped: oneshot::Receiver<()>) -> Result<(), Failure> {
        let _ = stopped.await;
        Ok(())
    }

    #[tokio::test]
    async fn a_host_that_ends_stops_the_gateway_with_its_error() {
        let failing = async { Err(Failure::new(Exit::Refused, "the port is gone")) };
        let panicking = async { panic!("a defect") };
        let ending = async { Ok(Exit::Ok) };
        for (host, why) in [
            (served(failing), "the port is gone"),
            (served(panicking), "a host has ended"),
            (served(ending), "nobody stopped it"),
        ] {
            let mut host = host;
            let (stop, stopped) = oneshot::channel();
            let failure = host.beside(gateway(stopped), stop).await.unwrap_err();
            assert!(failure.to_string().contains(why), "{failure}");
        }
    }

    #[tokio::test]
    async fn a_gateway_that_is_stopped_ends_before_its_hosts() {
        let mut hosts = served(std::future::pending());
        let (stop, _stopped) = oneshot::channel();
        assert!(hosts.beside(async { Ok(()) }, stop).await.is_ok());
        assert_eq!(hosts.hosts.len(), 1);
    }
}
