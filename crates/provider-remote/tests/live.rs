//! What happens on a connection that lives: reset calls, answers that are too large, slow connects.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::{MEMORY, compiled_in};
use stateway_provider_api::{
    Call, ErrorKind, ListRequest, Provider, StartDefinition, StartRequest, View,
};
use stateway_provider_memory::MemoryProvider;
use stateway_provider_remote::{Config, RemoteProvider};
use stateway_provider_server::{About, Listener, ProviderServer, serve};
use stateway_wire::{MAX_ENTRIES, v1};
use tokio::net::{UnixListener, UnixStream};

fn far(socket: &Path) -> RemoteProvider {
    let config = Config::at(format!("unix:{}", socket.display()));
    RemoteProvider::new("far".parse().unwrap(), &config, None).unwrap()
}

fn call() -> Call {
    Call::within(Duration::from_secs(10))
}

fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

/// A message as gRPC frames it.
fn framed(message: &impl Message) -> Bytes {
    let body = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    frame.extend(body);
    frame.into()
}

fn description() -> v1::DescribeResponse {
    v1::DescribeResponse {
        name: "raw".into(),
        min_contract_version: 1,
        max_contract_version: 1,
        instance_id: "one".into(),
        state_table: MEMORY.to_owned(),
        ..v1::DescribeResponse::default()
    }
}

/// What a raw server does with GetExecution.
#[derive(Clone)]
enum OnGet {
    Reset(Reason),
    Answer(Bytes),
}

/// A server without a gRPC library: it describes itself, and treats GetExecution as the test wants.
async fn raw(stream: UnixStream, on_get: OnGet) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let body = match (request.uri().path(), &on_get) {
            ("/stateway.provider.v1.Identity/Describe", _) => framed(&description()),
            ("/stateway.provider.v1.Provider/GetExecution", OnGet::Reset(reason)) => {
                respond.send_reset(*reason);
                continue;
            }
            ("/stateway.provider.v1.Provider/GetExecution", OnGet::Answer(body)) => body.clone(),
            _ => framed(&v1::CheckHealthResponse::default()),
        };
        let head = Response::builder().header("content-type", "application/grpc");
        let mut stream = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        tokio::spawn(async move {
            let mut body = body;
            while !body.is_empty() {
                stream.reserve_capacity(body.len());
                let ready = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
                let Some(Ok(ready)) = ready else { return };
                stream
                    .send_data(body.split_to(ready.min(body.len())), false)
                    .ok();
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            stream.send_trailers(trailers).ok();
        });
    }
}

/// Serves the raw server. Returns the number of accepted connections.
fn serve_raw(socket: &Path, on_get: OnGet) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(socket).unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(raw(stream, on_get.clone()));
        }
    });
    accepted
}

#[tokio::test]
async fn a_call_that_is_reset_on_a_live_connection_is_no_outage() {
    let folder = tempfile::tempdir().unwrap();
    for (reason, kind) in [
        (Reason::INTERNAL_ERROR, ErrorKind::Internal),
        (Reason::CANCEL, ErrorKind::Internal),
        (Reason::REFUSED_STREAM, ErrorKind::Throttled),
    ] {
        let socket = folder.path().join(format!("{reason:?}.sock"));
        let accepted = serve_raw(&socket, OnGet::Reset(reason));
        let far = far(&socket);
        for _ in 0..3 {
            let failed = far.get(&call(), &id("a"), View::Basic).await.unwrap_err();
            assert_eq!(failed.kind, kind, "{failed}");
            assert!(failed.message.contains("reset the call"), "{failed}");
            far.health(&call()).await.unwrap();
        }
        assert_eq!(accepted.load(Ordering::Relaxed), 1, "one connection");
    }
}

#[tokio::test]
async fn a_message_with_too_many_entries_is_refused_before_it_is_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    // Two bytes for each step on the wire, several hundred in memory.
    let mut seen = v1::Observation {
        id: "a".into(),
        ..v1::Observation::default()
    };
    seen.steps = vec![v1::StepObservation::default(); MAX_ENTRIES + 1];
    let accepted = serve_raw(&socket, OnGet::Answer(framed(&seen)));
    let far = far(&socket);
    let refused = far.get(&call(), &id("a"), View::Basic).await.unwrap_err();
    assert_eq!(refused.reason(), "PROVIDER_ANSWER_TOO_LARGE");
    let health = far.health(&call()).await.unwrap();
    assert!(health.detail.contains("PROVIDER_ANSWER_TOO_LARGE"));
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_connection_that_any_call_made_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    serve_raw(&socket, OnGet::Reset(Reason::CANCEL));
    let far = far(&socket);
    far.health(&call()).await.unwrap();
    let reported = tokio::time::timeout(Duration::from_secs(5), far.reconnected()).await;
    reported.expect("the call has connected");
    let again = tokio::time::timeout(Duration::from_millis(100), far.reconnected()).await;
    assert!(again.is_err(), "nothing has changed since");
}

#[tokio::test]
async fn a_provider_that_closes_its_connections_is_not_connected_without_end() {
    // Both long enough for the description.
    for lived in [3, 25] {
        closes_its_connections(Duration::from_millis(lived)).await;
    }
}

async fn closes_its_connections(after: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let served = raw(stream, OnGet::Reset(Reason::CANCEL));
            tokio::spawn(tokio::time::timeout(after, served));
        }
    });
    let far = far(&socket);
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        tokio::time::timeout(Duration::from_millis(5), far.reconnected())
            .await
            .ok();
        far.health(&call()).await.ok();
    }
    let accepted = accepted.load(Ordering::Relaxed);
    assert!(
        (5..=15).contains(&accepted),
        "{accepted} connections that lived for {after:?}"
    );
    // The reason is shown whether it is connected at this moment or not.
    let shown = match far.health(&call()).await {
        Ok(health) => health.detail,
        Err(error) => error.reason().to_owned(),
    };
    assert!(shown.contains("PROVIDER_CLOSES_CONNECTIONS"), "{shown}");
}

#[tokio::test]
async fn a_connect_continues_when_its_caller_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            kept.push(stream);
        }
    });
    let far = far(&socket);
    for _ in 0..20 {
        let hasty = Call::within(Duration::from_millis(20));
        let failed = far.get(&hasty, &id("a"), View::Basic).await.unwrap_err();
        assert_eq!(failed.kind, ErrorKind::Timeout);
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1, "one connect for all");
}

fn memory() -> Arc<MemoryProvider> {
    let table = compiled_in("memory").unwrap();
    let config = stateway_provider_memory::Config::default();
    Arc::new(MemoryProvider::new("far".parse().unwrap(), &config, table).unwrap())
}

#[tokio::test]
async fn pages_and_sets_that_are_too_large_come_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let near = memory();
    // 600 executions of 8 KiB or more.
    let labels = (0..20).map(|label| (format!("label-{label}"), "x".repeat(400)));
    let labels: BTreeMap<_, _> = labels.collect();
    let input = r#"{"steps":[{"name":"work","takes":"1h"}]}"#;
    let mut ids = Vec::new();
    for number in 0..600 {
        let request_id = format!("r-{number}").parse().unwrap();
        let request = StartRequest {
            input: Some(Payload::json(input)),
            labels: labels.clone(),
            ..StartRequest::new(StartDefinition::native("script"), request_id)
        };
        ids.push(near.start(&call(), request).await.unwrap().id);
    }
    let server = ProviderServer::new(near.clone(), About::new("far", "1"));
    let (listener, routes) = (Listener::unix(&socket).unwrap(), server.routes());
    tokio::spawn(async move { serve(listener, routes, std::future::pending()).await });
    let far = far(&socket);
    let request = || ListRequest {
        hints: Hints::none(),
        page_size: 1_000,
        cursor: None,
    };
    let whole = near.list(&call(), request()).await.unwrap();
    let bytes: usize = {
        let rows = whole.observations.iter();
        rows.map(|row| stateway_wire::convert::observation(row).encoded_len())
            .sum()
    };
    assert!(
        bytes > stateway_wire::MAX_MESSAGE_BYTES,
        "only {bytes} bytes"
    );
    far.connect(&call()).await.unwrap();
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let request = ListRequest {
            cursor,
            ..request()
        };
        let page = far.list(&call(), request).await.unwrap();
        listed.extend(page.observations);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, whole.observations);
    let observed = far.observe(&call(), &ids).await;
    assert_eq!(observed.len(), ids.len());
    for (id, one) in ids.iter().zip(observed) {
        assert_eq!(one.unwrap().id, *id);
    }
    // Large and right: nothing to blame the provider for.
    let health = far.health(&call()).await.unwrap();
    assert!(!health.detail.contains("violations"), "{}", health.detail);
}
