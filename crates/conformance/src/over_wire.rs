//! An adapter's own harness, through the wire: server, unix socket and remote provider between the case
//! and the adapter.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use stateway_contract_kit::{Fault, Harness, Scene, Skip, Subject, Workload};
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::{Capabilities, Provider, Table};
use stateway_provider_remote::Config;
use stateway_provider_server::{About, Listener, serve};
use stateway_wire::CAPABILITIES;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::StagedProvider;
use crate::harness::WireSubject;

/// The harness of an adapter, with the wire in between.
pub struct OverWire(Arc<dyn Harness>);

impl OverWire {
    /// This harness, with the wire in between.
    #[must_use]
    pub fn new(harness: impl Harness) -> Self {
        Self(Arc::new(harness))
    }
}

#[async_trait]
impl Harness for OverWire {
    fn table(&self) -> Arc<Table> {
        self.0.table()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities().and(CAPABILITIES)
    }

    async fn fresh(&self, table: Arc<Table>) -> Result<Box<dyn Subject>, Skip> {
        let staged = StagedProvider::new(Arc::clone(&self.0)).await?;
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let socket = folder.path().join("provider.sock");
        let listener = Listener::unix(&socket).expect("a socket can be made");
        let routes = staged.routes(About::new("over-wire", ""));
        let server = tokio::spawn(async move {
            serve(listener, routes, std::future::pending()).await.ok();
        });
        let config = Config::at(format!("unix:{}", socket.display()));
        let overlay = Some(table).filter(|table| *table != self.0.table());
        let failure = Failure::default();
        let subject = WireSubject::fresh(config, overlay, Arc::clone(&failure)).await;
        Ok(Box::new(Served {
            subject: unless_failed(&failure, subject)?,
            failure,
            server,
            _folder: folder,
        }))
    }
}

/// Why Staging or a connect failed; none while both work.
type Failure = Arc<Mutex<Option<String>>>;

/// The result, unless the wire itself failed. A skipped case would hide that.
///
/// # Panics
/// The wire failed. The case fails with this message.
fn unless_failed<T>(failure: &Failure, result: Result<T, Skip>) -> Result<T, Skip> {
    if let Some(failure) = lock(failure).take() {
        panic!("{failure}");
    }
    result
}

/// A subject and the server that it is behind.
struct Served {
    subject: WireSubject,
    failure: Failure,
    server: JoinHandle<()>,
    _folder: TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[async_trait]
impl Subject for Served {
    fn provider(&self) -> Arc<dyn Provider> {
        self.subject.provider()
    }

    fn now(&self) -> Timestamp {
        self.subject.now()
    }

    fn workload(&self) -> Workload {
        self.subject.workload()
    }

    async fn stage(&self, scene: Scene) -> Result<ExecutionId, Skip> {
        unless_failed(&self.failure, self.subject.stage(scene).await)
    }

    async fn inject(&self, fault: Fault) -> Result<(), Skip> {
        unless_failed(&self.failure, self.subject.inject(fault).await)
    }

    async fn restart(&self) -> Result<Arc<dyn Provider>, Skip> {
        unless_failed(&self.failure, self.subject.restart().await)
    }
}
