//! What one caller may use: starts and open streams, each with a pause and with figures.

use std::time::Duration;

use jiff::Timestamp;
use stateway_access::{Place, Rules};
use stateway_client::v1;
use stateway_client::v1::triggers_client::TriggersClient;
use stateway_gateway::{Quota, RulesSource};
use stateway_identity::api_key::{KeyFile, NewKey, RANDOM_BYTES};
use stateway_visitor::Visitor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Request};

use crate::support::{BuiltInRig, reason_of, retry_delay_of};

/// A gateway on loopback with API keys of two callers, and limits for each of them.
async fn rig(folder: &std::path::Path, quota: Quota) -> (BuiltInRig, [String; 2]) {
    let mut file = KeyFile::default();
    let keys = [(1, "ada"), (2, "bob")].map(|(number, subject)| {
        let new = NewKey {
            subject: subject.into(),
            roles: Vec::new(),
            tenant: None,
            expires: Some(Timestamp::now() + Duration::from_secs(3600)),
        };
        let made = file.create(new, &[number; RANDOM_BYTES], Timestamp::now());
        made.expect("a key").1.expose().to_owned()
    });
    let path = folder.join("keys.json");
    std::fs::write(&path, file.to_json()).expect("a file");
    let rig = BuiltInRig::start_beside(|mut gateway| {
        gateway.settings.authentication.api_keys = Some(path);
        let rules = "[[rules]]\nname = \"all\"\nwho = { subject = \"*\" }\nmay = \"admin\"";
        let rules = Rules::parse(rules, Place::OwnFile).expect("rules");
        gateway.settings.access.rules = RulesSource::Fixed(rules);
        gateway.settings.quotas.default = quota;
        gateway
    })
    .await;
    (rig, keys)
}

fn with<M>(key: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    let value = format!("Bearer {key}").parse().expect("a header");
    request.metadata_mut().insert("authorization", value);
    request
}

#[tokio::test]
async fn open_streams_of_one_caller_are_limited_until_one_ends() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota {
        max_streams: Some(2),
        ..Quota::UNLIMITED
    };
    let (rig, [ada, bob]) = rig(folder.path(), quota).await;
    let mut client = rig.gateway.executions().await;
    let mut watch = async |key: &str| {
        let request = v1::WatchExecutionsRequest {
            parent: "providers/b".into(),
            ..v1::WatchExecutionsRequest::default()
        };
        client.watch_executions(with(key, request)).await
    };
    let first = watch(&ada).await.expect("the first");
    let _second = watch(&ada).await.expect("the second");
    let refused = watch(&ada).await.expect_err("too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(reason_of(&refused), "TOO_MANY_STREAMS");
    assert!(retry_delay_of(&refused).is_some());
    watch(&bob).await.expect("the stream of another caller");
    drop(first);
    let waiting = async {
        while watch(&ada).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let freed = tokio::time::timeout(Duration::from_secs(10), waiting);
    freed.await.expect("a stream that ended makes room");
}

#[tokio::test]
async fn starts_of_one_caller_are_limited_and_its_reads_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota {
        starts_per_second: Some(0.5),
        ..Quota::UNLIMITED
    };
    let (rig, [ada, bob]) = rig(folder.path(), quota).await;
    let mut client = rig.gateway.executions().await;
    let start = v1::StartExecutionRequest {
        definition: "definitions/none".into(),
        ..v1::StartExecutionRequest::default()
    };
    let mut reasons = Vec::new();
    for key in [&ada, &ada, &bob] {
        let status = client.start_execution(with(key, start.clone())).await;
        let status = status.expect_err("there is no such definition");
        if status.code() == Code::ResourceExhausted {
            let pause = retry_delay_of(&status).expect("a pause");
            assert!(
                pause > Duration::from_secs(1) && pause <= Duration::from_secs(2),
                "{pause:?}"
            );
        }
        reasons.push(reason_of(&status));
    }
    assert_eq!(
        reasons,
        [
            "DEFINITION_NOT_FOUND",
            "START_RATE_EXCEEDED",
            "DEFINITION_NOT_FOUND"
        ]
    );
    for _ in 0..20 {
        let list = v1::ListExecutionsRequest {
            parent: "providers/b".into(),
            ..v1::ListExecutionsRequest::default()
        };
        client
            .list_executions(with(&ada, list))
            .await
            .expect("a list");
    }
}

/// A definition that waits for a person.
const RELEASE: &str = "\
name: release
trigger: {event: dusk}
steps:
  - {name: sign-off, approval: {role: ops}}
";

async fn apply(rig: &BuiltInRig, key: &str) {
    let request = v1::ApplyDefinitionRequest {
        source: RELEASE.into(),
        ..v1::ApplyDefinitionRequest::default()
    };
    let mut client = rig.definitions().await;
    client
        .apply_definition(with(key, request))
        .await
        .expect("it is valid");
}

fn start(id: &str, wait: bool) -> v1::StartExecutionRequest {
    v1::StartExecutionRequest {
        parent: "providers/b".into(),
        definition: "definitions/release".into(),
        execution_id: id.into(),
        wait,
        ..v1::StartExecutionRequest::default()
    }
}

#[tokio::test]
async fn a_start_that_waits_is_a_stream_of_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota {
        max_streams: Some(1),
        ..Quota::UNLIMITED
    };
    let (rig, [ada, _]) = rig(folder.path(), quota).await;
    apply(&rig, &ada).await;
    let mut client = rig.gateway.executions().await;
    let (mut other, first) = (client.clone(), with(&ada, start("first", true)));
    let waiting = tokio::spawn(async move { other.start_execution(first).await });
    let get = |id: &str| v1::GetExecutionRequest {
        name: format!("providers/b/executions/{id}"),
        ..v1::GetExecutionRequest::default()
    };
    let begun = async {
        while client
            .get_execution(with(&ada, get("first")))
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let begun = tokio::time::timeout(Duration::from_secs(10), begun);
    begun.await.expect("it starts");
    let second = client.start_execution(with(&ada, start("second", true)));
    let refused = second.await.expect_err("a second stream");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(reason_of(&refused), "TOO_MANY_STREAMS");
    assert!(retry_delay_of(&refused).is_some());
    // A wait that is refused starts nothing.
    let absent = client.get_execution(with(&ada, get("second"))).await;
    assert_eq!(absent.expect_err("absent").code(), Code::NotFound);
    let plain = client.start_execution(with(&ada, start("third", false)));
    plain.await.expect("a start that does not wait");
    assert!(!waiting.is_finished());
    waiting.abort();
    let freed = async {
        let watch = v1::WatchExecutionsRequest {
            parent: "providers/b".into(),
            ..v1::WatchExecutionsRequest::default()
        };
        while client
            .watch_executions(with(&ada, watch.clone()))
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let freed = tokio::time::timeout(Duration::from_secs(10), freed);
    freed.await.expect("a wait that ended makes room");
}

#[tokio::test]
async fn an_event_and_the_form_of_the_dashboard_are_starts() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota {
        starts_per_second: Some(0.01),
        ..Quota::UNLIMITED
    };
    let (rig, [ada, bob]) = rig(folder.path(), quota).await;
    apply(&rig, &ada).await;
    let publish = |id: &str| v1::PublishEventRequest {
        parent: "providers/-".into(),
        event: "dusk".into(),
        request_id: id.into(),
        ..v1::PublishEventRequest::default()
    };
    let mut triggers = TriggersClient::new(rig.gateway.channel().await);
    let published = triggers.publish_event(with(&ada, publish("1"))).await;
    assert_eq!(published.unwrap().into_inner().executions.len(), 1);
    let refused = triggers.publish_event(with(&ada, publish("2"))).await;
    let refused = refused.expect_err("the second start");
    assert_eq!(reason_of(&refused), "START_RATE_EXCEEDED");
    let mut client = rig.gateway.executions().await;
    let refused = client.start_execution(with(&ada, start("a", false))).await;
    let refused = refused.expect_err("the second start");
    assert_eq!(reason_of(&refused), "START_RATE_EXCEEDED");
    let mut visit = Visitor::with_key(&rig.gateway, &bob);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let on = visit.get("/definitions/release").await;
        let path = "/definitions/release/start";
        let fields = [("input", "{}"), ("provider", "providers/b")];
        let answer = visit.send(&on, path, &fields).await;
        let is_limited = answer
            .body
            .contains("exceeds its limit of started executions");
        answers.push((answer.status == 303, is_limited));
    }
    assert_eq!(answers, [(true, false), (false, true)]);
    let list = v1::ListExecutionsRequest {
        parent: "providers/b".into(),
        ..v1::ListExecutionsRequest::default()
    };
    let listed = client.list_executions(with(&bob, list)).await;
    // One by the event, and one by the form.
    assert_eq!(listed.unwrap().into_inner().executions.len(), 2);
}

/// Asks for a page that stays open; the start of its answer and the connection.
async fn live_page(rig: &BuiltInRig, key: &str, accept: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(rig.gateway.address).await.unwrap();
    let head = format!(
        "GET /executions/live HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n{accept}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    (String::from_utf8_lossy(&answer).into_owned(), stream)
}

#[tokio::test]
async fn a_live_page_is_a_stream_of_its_visitor() {
    let folder = tempfile::tempdir().unwrap();
    let quota = Quota {
        max_streams: Some(1),
        ..Quota::UNLIMITED
    };
    let (rig, [ada, bob]) = rig(folder.path(), quota).await;
    let accept = "accept: text/event-stream\r\n";
    let (first, open) = live_page(&rig, &ada, accept).await;
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    // Also for a client that does not ask for a stream and gets one.
    for accept in [accept, ""] {
        let (second, _) = live_page(&rig, &ada, accept).await;
        assert!(second.starts_with("HTTP/1.1 429"), "{second}");
        assert!(second.contains("retry-after: "), "{second}");
    }
    let (other, _) = live_page(&rig, &bob, accept).await;
    assert!(other.starts_with("HTTP/1.1 200"), "{other}");
    drop(open);
    let freed = async {
        while !live_page(&rig, &ada, accept).await.0.contains(" 200 ") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let freed = tokio::time::timeout(Duration::from_secs(30), freed);
    freed.await.expect("a page that was closed makes room");
}
