//! A gateway with the pages.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_engine::{Config as EngineConfig, Engine};
use stateway_gateway::{Gateway, Settings};
use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Capabilities, Limited, Provider, Registration, Registry};
use stateway_provider_builtin::BuiltinProvider;
use stateway_provider_memory::{Clock, Config, LineFault, MemoryProvider, Upstream};
use stateway_visitor::Visitor;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Three steps that a worker would do, two of which can be undone; a signal; a yes or no.
pub(crate) const SAGA: &str = "\
name: saga
failurePolicy: compensate
steps:
  - {name: reserve, agent: warehouse, action: reserve}
  - {name: go, kind: signal, signal: go, dependsOn: [reserve]}
  - {name: ship, agent: shipping, action: ship, dependsOn: [go]}
compensation:
  - {step: reserve, agent: warehouse, action: release}
";
/// Waits for a signal and is done.
pub(crate) const GATE: &str = "name: gate\nsteps:\n  - {name: wait, kind: signal, signal: go}\n";

/// A gateway with the providers `m` (in memory, its time stands still) and `b` (built in).
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    pub(crate) clock: Clock,
    memory: Arc<Upstream>,
    _stop: oneshot::Sender<()>,
    _directory: tempfile::TempDir,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(Capabilities::ALL, |_| ()).await
    }

    /// With a built-in provider that can do only this, and other settings.
    pub(crate) async fn with(can: Capabilities, set: impl FnOnce(&mut Settings)) -> Self {
        Self::build(can, Capabilities::ALL, set).await
    }

    /// A gateway that polls the provider `m`: its stream of changes would survive a refused call.
    pub(crate) async fn polled() -> Self {
        let polled = Capabilities {
            watch_one: false,
            watch_end: false,
            watch_all: false,
            ..Capabilities::ALL
        };
        Self::build(Capabilities::ALL, polled, |_| ()).await
    }

    async fn build(
        can: Capabilities,
        memory_can: Capabilities,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(&EngineConfig::new(directory.path().join("store.db"))).unwrap();
        let clock = Clock::manual(jiff::Timestamp::now());
        let memory = Upstream::new(clock.clone());
        let provider = MemoryProvider::on(
            memory.clone(),
            "m".parse().unwrap(),
            &Config::default(),
            compiled_in("memory").unwrap(),
        );
        let mut registry = Registry::default();
        let provider = Limited::to(Arc::new(provider.unwrap()), memory_can);
        register(&mut registry, "m", "memory", Arc::new(provider));
        let built_in = BuiltinProvider::over(engine, compiled_in("builtin").unwrap());
        let built_in = Limited::to(Arc::new(built_in), can);
        register(&mut registry, "b", "builtin", Arc::new(built_in));
        let mut settings = Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            drain: Duration::from_secs(2),
            ..Settings::default()
        };
        settings.default_upstream.health_interval = Duration::from_millis(50);
        settings.default_upstream.breaker_cool_down = Duration::from_millis(100);
        set(&mut settings);
        let page = Arc::new(String::new);
        let gateway = Gateway::bind(registry, settings, page).await.unwrap();
        let gateway = gateway.with_pages(stateway_dashboard::router);
        let address = gateway.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(gateway.serve(async move {
            let _ = stopped.await;
        }));
        Self {
            address,
            clock,
            memory,
            _stop: stop,
            _directory: directory,
        }
    }

    /// Nobody answers the next calls to the provider `m`.
    pub(crate) fn take_down(&self, calls: usize) {
        for _ in 0..calls {
            self.memory.inject(LineFault::Refuse);
        }
    }

    pub(crate) fn browser(&self) -> Visitor {
        Visitor::new(self.address)
    }

    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub(crate) async fn api(&self) -> ExecutionsClient<Channel> {
        ExecutionsClient::new(self.channel().await)
    }

    pub(crate) async fn apply(&self, source: &str) {
        let request = v1::ApplyDefinitionRequest {
            source: source.into(),
            ..Default::default()
        };
        let mut client = DefinitionsClient::new(self.channel().await);
        client.apply_definition(request).await.expect("it is valid");
    }

    /// Starts an execution: `m/flaky` in memory, `gate` on the built-in engine.
    pub(crate) async fn begin(&self, what: &str, id: &str, input: &str) -> String {
        let (parent, definition) = match what.strip_prefix("m/") {
            Some(own) => ("providers/m", format!("providers/m/definitions/{own}")),
            None => ("providers/b", format!("definitions/{what}")),
        };
        let request = v1::StartExecutionRequest {
            parent: parent.into(),
            definition,
            execution_id: id.into(),
            input: (!input.is_empty()).then(|| v1::Payload {
                data: input.to_owned().into(),
                content_type: String::new(),
            }),
            ..Default::default()
        };
        let started = self.api().await.start_execution(request).await;
        started.expect("it starts").into_inner().name
    }

    pub(crate) async fn get(&self, name: &str) -> v1::Execution {
        let request = v1::GetExecutionRequest {
            name: name.into(),
            ..Default::default()
        };
        let got = self.api().await.get_execution(request).await;
        got.expect("it is there").into_inner()
    }

    /// Waits until an execution shows something.
    pub(crate) async fn until(&self, name: &str, shows: impl Fn(&v1::Execution) -> bool) {
        let begun = Instant::now();
        loop {
            let seen = self.get(name).await;
            if shows(&seen) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{name} shows {seen:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn register(registry: &mut Registry, id: &str, kind: &str, provider: Arc<dyn Provider>) {
    let registration = Registration {
        id: id.parse().unwrap(),
        kind: kind.to_owned(),
        provider,
    };
    registry.register(registration).unwrap();
}
