//! Starts gateways on free loopback ports.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stateway_client::v1::executions_client::ExecutionsClient;
use stateway_client::v1::providers_client::ProvidersClient;
use stateway_engine::Engine;
use stateway_gateway::{Gateway, Settings};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Limited, Provider, Registration, Registry, Table};
use stateway_provider_builtin::BuiltinProvider;
use stateway_provider_memory::{Clock, Config, MemoryProvider, Upstream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt;

use super::Puppet;

/// A built-in engine that a test has opened itself.
pub(crate) struct BuiltIn {
    pub(crate) engine: Engine,
    pub(crate) backups: Option<PathBuf>,
}

impl BuiltIn {
    /// An engine on a new store.
    pub(crate) fn open(store: PathBuf) -> Self {
        Self {
            engine: Engine::open(&stateway_engine::Config::new(store)).expect("the engine opens"),
            backups: None,
        }
    }

    fn provider(self) -> BuiltinProvider {
        BuiltinProvider::over(self.engine, table("builtin")).with_backups(self.backups)
    }
}

/// A built-in engine without some of its capabilities.
pub(crate) fn without_capabilities(built_in: BuiltIn, disabled: &[&str]) -> Arc<dyn Provider> {
    let disabled: Vec<String> = disabled.iter().map(ToString::to_string).collect();
    let limited = Limited::without(Arc::new(built_in.provider()), &disabled);
    Arc::new(limited.expect("names of capabilities"))
}

/// A gateway to be.
pub(crate) struct TestGateway {
    registry: Registry,
    pub(crate) settings: Settings,
}

impl TestGateway {
    /// Polls fast, so that no test waits for a pace made for production.
    pub(crate) fn new() -> Self {
        let mut settings = Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            drain: Duration::from_secs(2),
            ..Settings::default()
        };
        settings.default_upstream.min_poll_interval = Duration::from_millis(10);
        settings.default_upstream.max_poll_interval = Duration::from_millis(40);
        settings.default_upstream.health_interval = Duration::from_millis(50);
        Self {
            registry: Registry::default(),
            settings,
        }
    }

    /// Adds a puppet, read by the Step Functions table.
    pub(crate) fn with_puppet(self, id: &str, puppet: &Puppet) -> Self {
        self.with(id, "step-functions", Arc::new(puppet.clone()))
    }

    /// Adds a built-in engine.
    pub(crate) fn with_engine(self, id: &str, built_in: BuiltIn) -> Self {
        self.with(id, "builtin", Arc::new(built_in.provider()))
    }

    /// Adds a built-in engine that makes HTTP calls as its configuration says.
    pub(crate) fn with_configured_engine(
        self,
        id: &str,
        built_in: BuiltIn,
        config: &stateway_provider_builtin::Config,
    ) -> Self {
        let provider = built_in.provider().reaching_out(id, config);
        self.with(id, "builtin", Arc::new(provider.expect("usable settings")))
    }

    /// Adds an in-memory provider whose time only the test moves.
    pub(crate) fn with_memory(self, id: &str, clock: &Clock) -> Self {
        self.with_memory_less(id, clock, &[])
    }

    /// The same without some capabilities.
    pub(crate) fn with_memory_less(self, id: &str, clock: &Clock, disabled: &[&str]) -> Self {
        let provider = memory(id, clock, &Config::default());
        let disabled: Vec<String> = disabled.iter().map(ToString::to_string).collect();
        let limited = Limited::without(provider, &disabled).expect("names of capabilities");
        self.with(id, "memory", Arc::new(limited))
    }

    /// The same with another configuration.
    pub(crate) fn with_memory_config(self, id: &str, clock: &Clock, config: &Config) -> Self {
        let provider = memory(id, clock, config);
        self.with(id, "memory", provider)
    }

    /// Adds any provider, read by the table of a kind.
    pub(crate) fn with(mut self, id: &str, kind: &str, provider: Arc<dyn Provider>) -> Self {
        let registration = Registration {
            id: id.parse().expect("a provider id"),
            kind: kind.to_owned(),
            provider,
        };
        self.registry
            .register(registration)
            .expect("the id is free");
        self
    }

    pub(crate) async fn start(self) -> Running {
        let page = Arc::new(|| "# the metrics page\n".to_owned());
        let gateway = Gateway::bind(self.registry, self.settings, page)
            .await
            .expect("it binds")
            .with_pages(stateway_dashboard::router);
        let address = gateway.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(gateway.serve(async move {
            // A dropped sender stops it too: the test is over.
            let _ = stopped.await;
        }));
        Running {
            address,
            stop: Some(stop),
            serving,
        }
    }
}

impl From<&Running> for SocketAddr {
    fn from(gateway: &Running) -> Self {
        gateway.address
    }
}

/// A gateway that serves until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), stateway_gateway::StartError>>,
}

impl Running {
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).expect("a URL");
        endpoint.connect().await.expect("it listens")
    }

    pub(crate) async fn executions(&self) -> ExecutionsClient<Channel> {
        ExecutionsClient::new(self.channel().await)
    }

    pub(crate) async fn providers(&self) -> ProvidersClient<Channel> {
        ProvidersClient::new(self.channel().await)
    }

    /// Asks it to shut down.
    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    /// Waits until it has shut down.
    pub(crate) async fn stopped(self) -> Result<(), stateway_gateway::StartError> {
        self.serving.await.expect("it does not panic")
    }
}

/// The advice that an error carries; empty when there is none.
pub(crate) fn hint_of(status: &Status) -> String {
    let details = status.get_error_details();
    let hint = details.localized_message();
    hint.map(|hint| hint.message.clone()).unwrap_or_default()
}

/// The reason of the status's one `ErrorInfo`, which every error must have.
pub(crate) fn reason_of(status: &Status) -> String {
    error_info(status).0
}

/// Reason and metadata of the status's one `ErrorInfo`.
pub(crate) fn error_info(status: &Status) -> (String, HashMap<String, String>) {
    let details = status.get_error_details();
    let info = details
        .error_info()
        .unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
    assert_eq!(info.domain, stateway_gateway::DOMAIN);
    (info.reason.clone(), info.metadata.clone())
}

/// What the client is told to wait.
pub(crate) fn retry_delay_of(status: &Status) -> Option<Duration> {
    status
        .get_error_details()
        .retry_info()
        .and_then(|info| info.retry_delay)
}

/// A clock that stands still until the test moves it.
pub(crate) fn clock() -> Clock {
    Clock::manual(jiff::Timestamp::now())
}

/// The compiled-in table of a kind.
pub(crate) fn table(kind: &str) -> Arc<Table> {
    compiled_in(kind).expect("a compiled-in table")
}

fn memory(id: &str, clock: &Clock, config: &Config) -> Arc<MemoryProvider> {
    let provider = MemoryProvider::on(
        Upstream::new(clock.clone()),
        id.parse().expect("a provider id"),
        config,
        table("memory"),
    );
    Arc::new(provider.expect("a good configuration"))
}
