//! A provider process in the test's own process: a runtime of its own, which is killed by being dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_provider_api::table::MEMORY;
use stateway_provider_api::{Capabilities, Limited, Provider, Table};
use stateway_provider_memory::{Clock, Config, MemoryProvider, Upstream};
use stateway_provider_remote::RemoteProvider;
use stateway_provider_server::{About, Listener, ProviderServer, serve};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::service::Routes;

/// Where a provider listens, if it runs.
pub(super) struct Socket {
    folder: TempDir,
}

impl Socket {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("far.sock")
    }
}

/// The gateway's side.
pub(super) fn remote(socket: &Socket) -> Arc<dyn Provider> {
    Arc::new(far(socket))
}

/// The same, with a limit of messages that a test reaches quickly.
pub(super) fn remote_with_flood_limit(socket: &Socket) -> Arc<dyn Provider> {
    Arc::new(far(socket).with_flood_limit(1_000, 10))
}

fn far(socket: &Socket) -> RemoteProvider {
    let address = format!("unix:{}", socket.path().display());
    let config = stateway_provider_remote::Config::at(address);
    let id = "far".parse().expect("a provider id");
    let provider = RemoteProvider::new(id, &config, None).expect("a good configuration");
    provider.with_heartbeat(std::time::Duration::from_millis(200))
}

/// Serves these routes on a runtime of their own. Dropping it closes every connection immediately, as the end
/// of a process does.
pub(super) fn serving(path: &Path, routes: Routes) -> Serving {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = {
        let _inside = runtime.enter();
        bind(path)
    };
    runtime.spawn(async move {
        serve(listener, routes, std::future::pending()).await.ok();
    });
    Serving(Some(runtime))
}

/// Listens at the path as soon as the process before has left it.
fn bind(path: &Path) -> Listener {
    let until = Instant::now() + super::PATIENCE;
    loop {
        match Listener::unix(path) {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(super) struct Serving(Option<Runtime>);

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A provider process in front of an engine that outlives it.
pub(super) struct Process {
    pub(super) upstream: Arc<Upstream>,
    path: PathBuf,
    _serving: Serving,
}

impl Process {
    pub(super) fn start(socket: &Socket) -> Self {
        let upstream = Upstream::new(Clock::manual(jiff::Timestamp::now()));
        Self::on(&upstream, socket)
    }

    pub(super) fn on(upstream: &Arc<Upstream>, socket: &Socket) -> Self {
        Self::over(upstream, socket, MEMORY, Capabilities::ALL)
    }

    /// The provider in front of this engine, without a process.
    pub(super) fn memory(upstream: &Arc<Upstream>, table: &str) -> MemoryProvider {
        let table = Arc::new(Table::parse(table).expect("a good table"));
        let id = "far".parse().expect("a provider id");
        let config = Config {
            max_executions: 100_000,
            ..Config::default()
        };
        MemoryProvider::on(Arc::clone(upstream), id, &config, table).expect("a configuration")
    }

    fn over(upstream: &Arc<Upstream>, socket: &Socket, table: &str, allowed: Capabilities) -> Self {
        let provider = Self::memory(upstream, table);
        let provider = Limited::to(Arc::new(provider), allowed);
        let server = ProviderServer::new(Arc::new(provider), About::new("far", "1"));
        Self {
            upstream: Arc::clone(upstream),
            path: socket.path(),
            _serving: serving(&socket.path(), server.routes()),
        }
    }

    /// Kills the process and starts another one in front of the same engine.
    pub(super) fn restart_as(self, table: &str, allowed: Capabilities) -> Self {
        let upstream = Arc::clone(&self.upstream);
        let path = self.path.clone();
        drop(self);
        let provider = Limited::to(Arc::new(Self::memory(&upstream, table)), allowed);
        let server = ProviderServer::new(Arc::new(provider), About::new("far", "2"));
        Self {
            _serving: serving(&path, server.routes()),
            upstream,
            path,
        }
    }
}
