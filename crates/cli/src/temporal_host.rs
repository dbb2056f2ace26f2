//! Runs the host of a provider of kind `temporal-host`.

use std::future::Future;

use serde::Deserialize as _;
use stateway_host_temporal::Host;
use stateway_provider_temporal::HostConfig;

use crate::config::ProviderConfig;
use crate::context::print_message;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// A host that does not poll yet.
pub struct TemporalHost {
    provider: String,
    queue: String,
    serve: bool,
    host: Host,
}

impl TemporalHost {
    /// The host of a provider. Nothing is asked of Temporal yet.
    ///
    /// # Errors
    /// Options that cannot be used.
    pub fn of(provider: &ProviderConfig) -> Result<Self, Failure> {
        let id = &provider.id;
        let settings = HostConfig::deserialize(provider.options.clone());
        let settings =
            settings.map_err(|error| Failure::usage(format!("provider {id}: {error}")))?;
        let host = Host::new(&settings);
        Ok(Self {
            provider: id.to_string(),
            host: host.map_err(|error| Failure::usage(format!("provider {id}: {error}")))?,
            queue: settings.host.task_queue,
            serve: settings.host.serve,
        })
    }

    /// Whether `stateway serve` runs this host.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.serve
    }

    /// Answers tasks of Temporal until `stop` ends, then finishes those under way.
    ///
    /// # Errors
    /// None; the type is that of every host.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) -> Outcome {
        let mut stop = std::pin::pin!(stop);
        let version = tokio::select! {
            version = self.host.connected() => version,
            () = &mut stop => return Ok(Exit::Ok),
        };
        print_message(&format!(
            "stateway host polls the task queue `{}` of Temporal {version} (provider {})",
            self.queue, self.provider
        ));
        self.host.serve(stop).await;
        print_message("stateway host has stopped");
        Ok(Exit::Ok)
    }
}
