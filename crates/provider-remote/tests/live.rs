//! What happens on a connection that lives: reset calls, answers that are too large, slow connects.

#![allow(clippy::unwrap_used)]

use crate::raw;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use h2::Reason;
use prost::Message;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Capabilities, DefinitionsPage, DefinitionsRequest, Description, Error, ErrorKind, Health,
    ListRequest, NativeDefinition, Observation, Provider, Result as Answer, StartDefinition,
    StartRequest, Verb, View,
};
use stateway_provider_memory::MemoryProvider;
use stateway_provider_remote::{Config, RemoteProvider};
use stateway_provider_server::{About, Listener, ProviderServer, serve};
use stateway_wire::{MAX_ENTRIES, v1};

use raw::{Reply, Replying, accept, framed, raw, serve_raw};

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

/// Treats GetExecution as the test wants.
fn on_get(reply: Reply) -> Replying {
    Arc::new(move |method| {
        if method == "GetExecution" {
            reply.clone()
        } else {
            Reply::Body(framed(&v1::CheckHealthResponse::default()))
        }
    })
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
        let accepted = serve_raw(&socket, on_get(Reply::Reset(reason)));
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
    let accepted = serve_raw(&socket, on_get(Reply::Body(framed(&seen))));
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
    serve_raw(&socket, on_get(Reply::Reset(Reason::CANCEL)));
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
    let accepted = accept(&socket, move |stream| {
        let served = raw(stream, on_get(Reply::Reset(Reason::CANCEL)));
        tokio::spawn(tokio::time::timeout(after, served));
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
    // The reason is shown whether it is connected at this moment or not. On a busy machine a connection can be closed
    // before it was described; such a connection has another reason.
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let shown = match far.health(&call()).await {
            Ok(health) => health.detail,
            Err(error) => error.reason().to_owned(),
        };
        if shown.contains("PROVIDER_CLOSES_CONNECTIONS") {
            return;
        }
        assert!(Instant::now() < until, "{shown}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_connect_continues_when_its_caller_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let mut kept = Vec::new();
    let accepted = accept(&socket, move |stream| kept.push(stream));
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

/// The provider, over the wire.
fn served(near: Arc<dyn Provider>, socket: &Path) -> RemoteProvider {
    let server = ProviderServer::new(near, About::new("far", "1"));
    let (listener, routes) = (Listener::unix(socket).unwrap(), server.routes());
    tokio::spawn(async move { serve(listener, routes, std::future::pending()).await });
    far(socket)
}

/// A provider whose definitions have a megabyte each.
struct Library;

#[async_trait]
impl Provider for Library {
    fn describe(&self) -> Arc<Description> {
        let capabilities = Capabilities {
            definitions: true,
            ..Capabilities::NONE
        };
        Description::fixed(capabilities, compiled_in("memory").unwrap())
    }

    async fn health(&self, _: &Call) -> Answer<Health> {
        Ok(Health::default())
    }

    async fn get(&self, _: &Call, _: &ExecutionId, _: View) -> Answer<Observation> {
        Err(Error::unsupported(Verb::Get))
    }

    async fn observe(&self, _: &Call, _: &[ExecutionId]) -> Vec<Answer<Observation>> {
        Vec::new()
    }

    async fn definitions(&self, _: &Call, request: DefinitionsRequest) -> Answer<DefinitionsPage> {
        let begin = request.cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let end = (begin + request.page_size).min(DEFINITIONS);
        let definitions = (begin..end).map(|number| NativeDefinition {
            name: format!("d-{number}"),
            source: "x".repeat(1024 * 1024),
            ..NativeDefinition::default()
        });
        Ok(DefinitionsPage {
            definitions: definitions.collect(),
            next: (end < DEFINITIONS).then(|| end.to_string()),
        })
    }
}

const DEFINITIONS: u32 = 10;

#[tokio::test]
async fn a_page_of_definitions_that_is_too_large_comes_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let far = served(Arc::new(Library), &folder.path().join("far.sock"));
    far.connect(&call()).await.unwrap();
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page_size = 1_000;
        let request = DefinitionsRequest { page_size, cursor };
        let page = far.definitions(&call(), request).await.unwrap();
        names.extend(page.definitions.into_iter().map(|one| one.name));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..DEFINITIONS)
        .map(|number| format!("d-{number}"))
        .collect();
    assert_eq!(names, expected);
    let health = far.health(&call()).await.unwrap();
    assert!(!health.detail.contains("violations"), "{}", health.detail);
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
    let far = served(near.clone(), &socket);
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
