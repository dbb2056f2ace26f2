//! What is logged about the connection. A binary of its own: other tests log too.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stateway_model::ExecutionId;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Capabilities, Description, Health, Observation, Provider, Result, View,
};
use stateway_provider_memory::MemoryProvider;
use stateway_provider_remote::{Config, RemoteProvider};
use stateway_provider_server::{About, Listener, ProviderServer, serve};
use tokio::sync::oneshot;

fn far(socket: &Path) -> RemoteProvider {
    let config = Config::at(format!("unix:{}", socket.display()));
    RemoteProvider::new("far".parse().unwrap(), &config, None).unwrap()
}

fn call() -> Call {
    Call::within(Duration::from_secs(10))
}

fn memory() -> Arc<MemoryProvider> {
    let table = compiled_in("memory").unwrap();
    let config = stateway_provider_memory::Config::default();
    Arc::new(MemoryProvider::new("far".parse().unwrap(), &config, table).unwrap())
}

/// The in-memory provider with another description.
struct Changed {
    memory: Arc<MemoryProvider>,
    description: Arc<Description>,
}

#[async_trait::async_trait]
impl Provider for Changed {
    fn describe(&self) -> Arc<Description> {
        Arc::clone(&self.description)
    }

    async fn health(&self, call: &Call) -> Result<Health> {
        self.memory.health(call).await
    }

    async fn get(&self, call: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        self.memory.get(call, id, view).await
    }

    async fn observe(&self, call: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        self.memory.observe(call, ids).await
    }
}

/// A process in this one: it is ended by its owner.
struct Process {
    task: tokio::task::JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

fn process(socket: &Path, provider: Arc<impl Provider + 'static>, instance: &str) -> Process {
    let server = ProviderServer::new(provider, About::new(instance, "1"));
    let (listener, routes) = (Listener::unix(socket).unwrap(), server.routes());
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        serve(listener, routes, async { drop(stopped.await) })
            .await
            .ok();
    });
    Process {
        task,
        stop: Some(stop),
    }
}

impl Process {
    async fn end(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// Collects log lines of this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn count(&self, wanted: &str) -> usize {
        self.text().matches(wanted).count()
    }
}

/// Collects until the guard is dropped.
fn logging(lines: &Lines) -> tracing::subscriber::DefaultGuard {
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_default(subscriber)
}

#[tokio::test]
async fn each_change_of_the_connection_is_one_log_line_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let (lines, near, far) = (Lines::default(), memory(), far(&socket));
    let _logging = logging(&lines);
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        assert!(far.health(&call()).await.is_err());
    }
    assert_eq!(
        lines.count("not connected: the provider cannot be reached"),
        1
    );
    let first = process(&socket, near.clone(), "first");
    tokio::time::timeout(Duration::from_secs(5), far.reconnected())
        .await
        .expect("it notices the provider by itself");
    for _ in 0..5 {
        far.health(&call()).await.unwrap();
    }
    assert_eq!(
        lines.count(" connected provider=far name=\"first\""),
        1,
        "{}",
        lines.text()
    );
    first.end().await;
    assert!(far.health(&call()).await.is_err());
    assert_eq!(lines.count("connection lost: "), 1, "{}", lines.text());
    let _second = process(&socket, near, "second");
    far.reconnected().await;
    assert_eq!(
        lines.count(" connected provider=far name=\"second\""),
        1,
        "{}",
        lines.text()
    );
    assert_eq!(lines.text().lines().count(), 5, "{}", lines.text());
}

#[tokio::test]
async fn a_changed_table_and_a_changed_capability_after_a_reconnect_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let (lines, near, far) = (Lines::default(), memory(), far(&socket));
    let _logging = logging(&lines);
    let first = process(&socket, near.clone(), "first");
    far.connect(&call()).await.unwrap();
    far.reconnected().await;
    let before = near.describe();
    let table = compiled_in("restate").unwrap();
    let rows = table.rows().len();
    let capabilities = Capabilities {
        purge: false,
        ..before.capabilities
    };
    assert!(before.capabilities.purge && before.table != table);
    let changed = Arc::new(Changed {
        memory: near,
        description: Description::fixed(capabilities, table),
    });
    first.end().await;
    let second = process(&socket, changed.clone(), "second");
    far.reconnected().await;
    let capability = "capabilities changed provider=far gained=\"\" lost=\"purge\"";
    assert_eq!(lines.count(capability), 1, "{}", lines.text());
    let table = format!("state table changed provider=far rows={rows}");
    assert_eq!(lines.count(&table), 1, "{}", lines.text());
    // The same description again is no change.
    second.end().await;
    let _third = process(&socket, changed, "third");
    far.reconnected().await;
    assert_eq!(lines.count("name=\"third\""), 1, "{}", lines.text());
    assert_eq!(lines.count(" changed provider"), 2, "{}", lines.text());
}
