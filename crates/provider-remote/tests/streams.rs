//! Many watches over one connection, and calls beside them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use stateway_model::Payload;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Provider, StartDefinition, StartRequest, View, WatchScope, Watched,
};
use stateway_provider_memory::MemoryProvider;
use stateway_provider_remote::{Config, RemoteProvider};
use stateway_provider_server::{About, Listener, ProviderServer, serve};

/// More than servers built on hyper accept unless told otherwise.
const WATCHES: usize = 300;

#[tokio::test]
async fn hundreds_of_watches_leave_room_for_calls() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let table = compiled_in("memory").unwrap();
    let provider = MemoryProvider::new("far".parse().unwrap(), &Default::default(), table);
    let server = ProviderServer::new(Arc::new(provider.unwrap()), About::new("streams", "1"));
    let (listener, routes) = (Listener::unix(&socket).unwrap(), server.routes());
    tokio::spawn(async move { serve(listener, routes, std::future::pending()).await });
    let config = Config::at(format!("unix:{}", socket.display()));
    let far = RemoteProvider::new("far".parse().unwrap(), &config, None).unwrap();
    let call = || Call::within(Duration::from_secs(10));
    far.connect(&call()).await.unwrap();
    let mut watches = Vec::new();
    for number in 0..WATCHES {
        let request_id = format!("r-{number}").parse().unwrap();
        let script = r#"{"steps":[{"name":"work","takes":"1h"}]}"#;
        let request = StartRequest {
            input: Some(Payload::json(script)),
            ..StartRequest::new(StartDefinition::native("script"), request_id)
        };
        let id = far.start(&call(), request).await.unwrap().id;
        let mut watch = far
            .watch(&call(), WatchScope::One(id.clone()))
            .await
            .unwrap();
        assert!(matches!(watch.next().await, Some(Ok(Watched::Seen(_)))));
        watches.push((id, watch));
    }
    for (id, _) in &watches {
        far.get(&call(), id, View::Basic).await.unwrap();
    }
}
