//! Providers that stop gracefully while a watch is open.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, ErrorKind, Provider, WatchScope, Watched};
use stateway_provider_memory::MemoryProvider;
use stateway_provider_remote::{Config, RemoteProvider};
use stateway_provider_server::{About, Listener, ProviderServer, serve};
use tokio::sync::oneshot;
use tonic::service::Routes;
use tonic::transport::Server;

fn routes() -> Routes {
    let table = compiled_in("memory").unwrap();
    let provider = MemoryProvider::new("far".parse().unwrap(), &Default::default(), table);
    ProviderServer::new(Arc::new(provider.unwrap()), About::new("stop", "1")).routes()
}

fn far(socket: &Path) -> RemoteProvider {
    let config = Config::at(format!("unix:{}", socket.display()));
    RemoteProvider::new("far".parse().unwrap(), &config, None).unwrap()
}

fn call() -> Call {
    Call::within(Duration::from_secs(5))
}

async fn answers(far: &RemoteProvider) -> bool {
    far.health(&call()).await.is_ok()
}

#[tokio::test]
async fn a_watch_on_the_old_connection_does_not_keep_calls_from_the_new_process() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    // A server that lets open watches continue while it stops.
    let (stop, stopped) = oneshot::channel::<()>();
    let incoming = Listener::unix(&socket).unwrap().incoming().boxed();
    let server = Server::builder().add_routes(routes());
    tokio::spawn(server.serve_with_incoming_shutdown(incoming, async { drop(stopped.await) }));
    let far = far(&socket);
    far.connect(&call()).await.unwrap();
    let mut watch = far.watch(&call(), WatchScope::All).await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(Watched::InSync))));
    std::fs::remove_file(&socket).unwrap();
    let listener = Listener::unix(&socket).unwrap();
    tokio::spawn(async move { serve(listener, routes(), std::future::pending()).await });
    stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    // The first call may find out that the old connection takes no calls.
    let first = answers(&far).await;
    assert!(
        first || answers(&far).await,
        "no call reached the new process"
    );
    assert!(answers(&far).await);
}

#[tokio::test]
async fn a_server_that_stops_ends_its_watches() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let (stop, stopped) = oneshot::channel::<()>();
    let listener = Listener::unix(&socket).unwrap();
    let server = tokio::spawn(serve(listener, routes(), async { drop(stopped.await) }));
    let far = far(&socket);
    far.connect(&call()).await.unwrap();
    let mut watch = far.watch(&call(), WatchScope::All).await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(Watched::InSync))));
    stop.send(()).unwrap();
    let patience = Duration::from_secs(3);
    let ended = tokio::time::timeout(patience, watch.next()).await;
    let error = ended.expect("the watch ends").unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(!socket.exists(), "the next process can listen");
    let served = tokio::time::timeout(patience, server).await;
    served.expect("the server ends").unwrap().unwrap();
}
