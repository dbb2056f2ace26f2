//! A provider that floods its watches.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use stateway_model::ExecutionId;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Description, Error, Health, NativeState, Observation, Provider, Result, StepObservation,
    View, WatchScope, WatchStream, Watched,
};
use stateway_provider_memory::MemoryProvider;
use stateway_provider_remote::{Config, RemoteProvider};
use stateway_provider_server::{About, Listener, ProviderServer, serve};

struct Flooding {
    memory: MemoryProvider,
    /// How many steps each execution has. With steps, each message is about another execution.
    steps: usize,
    opened: AtomicUsize,
}

#[async_trait::async_trait]
impl Provider for Flooding {
    fn describe(&self) -> Arc<Description> {
        self.memory.describe()
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

    async fn watch(&self, _: &Call, _: WatchScope) -> Result<WatchStream> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let state = || NativeState::new("ACTIVE");
        let seen = Observation {
            steps: vec![StepObservation::new("a", state()); self.steps],
            ..Observation::new(ExecutionId::new("a").unwrap(), state())
        };
        if self.steps == 0 {
            let seen = Watched::seen(seen);
            return Ok(stream::repeat_with(move || Ok(seen.clone())).boxed());
        }
        let items = stream::iter(0..).map(move |number: u64| {
            let mut seen = seen.clone();
            seen.id = ExecutionId::new(number.to_string()).unwrap();
            Ok(Watched::seen(seen))
        });
        Ok(items.boxed())
    }
}

/// A provider that floods, and how the gateway sees it.
async fn flooding(socket: &Path, steps: usize) -> (Arc<Flooding>, RemoteProvider) {
    let table = compiled_in("memory").unwrap();
    let memory = MemoryProvider::new("far".parse().unwrap(), &Default::default(), table);
    let flooding = Arc::new(Flooding {
        memory: memory.unwrap(),
        steps,
        opened: AtomicUsize::new(0),
    });
    let server = ProviderServer::new(flooding.clone(), About::new("flooding", "1"));
    let (listener, routes) = (Listener::unix(socket).unwrap(), server.routes());
    tokio::spawn(async move { serve(listener, routes, std::future::pending()).await });
    let config = Config::at(format!("unix:{}", socket.display()));
    let far = RemoteProvider::new("far".parse().unwrap(), &config, None).unwrap();
    (flooding, far)
}

/// The error that ends a watch.
async fn end(far: &RemoteProvider) -> Error {
    let call = Call::within(Duration::from_secs(10));
    let mut watch = match far.watch(&call, WatchScope::All).await {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    let ends = async {
        loop {
            if let Err(error) = watch.next().await.expect("the flood has no end") {
                return error;
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(10), ends).await;
    ended.expect("the watch is ended")
}

#[tokio::test]
async fn a_flood_ends_the_watch_and_opening_it_again_brings_no_new_budget() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let (flooding, far) = flooding(&socket, 0).await;
    let far = far.with_flood_limit(1_000, 10);
    far.connect(&Call::within(Duration::from_secs(10)))
        .await
        .unwrap();
    let flooded = end(&far).await;
    assert_eq!(flooded.reason(), "PROVIDER_FLOODS");
    // Other calls are served; the watch is not opened again until the pause is over.
    let call = Call::within(Duration::from_secs(10));
    let health = far.health(&call).await.unwrap();
    assert!(
        health.detail.contains("PROVIDER_FLOODS"),
        "{}",
        health.detail
    );
    for _ in 0..3 {
        assert_eq!(end(&far).await.reason(), "PROVIDER_FLOODS");
    }
    let health = far.health(&call).await.unwrap();
    assert!(
        health.detail.contains("violations: 1,"),
        "{}",
        health.detail
    );
    assert_eq!(flooding.opened.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn executions_that_are_large_only_in_memory_are_a_flood_too() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    // Half a MiB on the wire, 20 MiB in memory.
    let (flooding, far) = flooding(&socket, 40_000).await;
    let call = Call::within(Duration::from_secs(10));
    let mut watch = far.watch(&call, WatchScope::All).await.unwrap();
    for number in 0..30 {
        let next = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
        if let Err(error) = next.expect("it floods").expect("the flood has no end") {
            assert_eq!(error.reason(), "PROVIDER_FLOODS");
            assert!(number > 10, "only {number} executions");
            // No watch is opened in the pause.
            assert_eq!(end(&far).await.reason(), "PROVIDER_FLOODS");
            assert_eq!(flooding.opened.load(Ordering::Relaxed), 1);
            return;
        }
    }
    panic!("the watch is still open");
}
