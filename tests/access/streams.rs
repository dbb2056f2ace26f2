//! Watches, waits and worker sessions end when the key of their caller is revoked or names other roles.

use std::time::Duration;

use stateway_client::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Status};

use super::rig::{AccessRig, RELEASE, name};
use super::workers::{Worker, offer};
use crate::support::reason_of;

/// How long a stream may stay open after its key is revoked. The file is read every 20 ms here.
const PATIENCE: Duration = Duration::from_secs(10);

async fn rig() -> AccessRig {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("a1", "acme")).await.unwrap();
    rig
}

/// The error that ends a stream.
async fn end<M>(mut stream: tonic::Streaming<M>) -> Status {
    let reading = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without an error"),
                Err(status) => return status,
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    ended.expect("the stream ends in time")
}

fn assert_revoked(status: &Status) {
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    assert_eq!(reason_of(status), "API_KEY_REVOKED");
}

#[tokio::test]
async fn a_revoked_key_ends_watches_and_waits_of_its_caller_and_no_others() {
    let rig = rig().await;
    let mut client = rig.executions().await;
    let watch = v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        ..v1::WatchExecutionsRequest::default()
    };
    let executions = client.watch_executions(rig.by("vic", watch.clone())).await;
    let executions = executions.unwrap().into_inner();
    let mut kept = client.watch_executions(rig.by("ada", watch)).await;
    let kept = kept.as_mut().unwrap().get_mut();
    let watch = v1::WatchApprovalsRequest {
        parent: "providers/b".into(),
        ..v1::WatchApprovalsRequest::default()
    };
    let approvals = rig.approvals().await;
    let approvals = approvals
        .clone()
        .watch_approvals(rig.by("vic", watch))
        .await;
    let approvals = approvals.unwrap().into_inner();
    let wait = v1::WaitExecutionRequest {
        name: name("a1"),
        ..v1::WaitExecutionRequest::default()
    };
    let wait = rig.by("vic", wait);
    let waiting = async {
        let waited = tokio::time::timeout(PATIENCE, client.wait_execution(wait)).await;
        waited.expect("the wait ends in time").unwrap_err()
    };
    let revoking = async {
        // The wait has begun by then; if it has not, it is refused.
        tokio::time::sleep(Duration::from_millis(100)).await;
        rig.revoke("vic");
    };
    let (waited, ()) = tokio::join!(waiting, revoking);
    assert_revoked(&waited);
    assert_revoked(&end(executions).await);
    assert_revoked(&end(approvals).await);
    // The caller of another key does not notice.
    rig.begin("ada", "release", ("a2", "acme")).await.unwrap();
    loop {
        let response = kept.message().await.unwrap().unwrap();
        let execution = response.execution;
        if execution.is_some_and(|it| it.name.ends_with("/a2")) {
            break;
        }
    }
}

#[tokio::test]
async fn a_revoked_key_ends_the_wait_of_a_start_and_its_answer_has_only_the_name() {
    let rig = AccessRig::audited().await;
    rig.apply(RELEASE).await;
    let before = rig.records().len();
    let start = v1::StartExecutionRequest {
        parent: "providers/b".into(),
        definition: "definitions/release".into(),
        execution_id: "a1".into(),
        input: Some(v1::Payload {
            data: r#"{"secret": "s3cret"}"#.into(),
            content_type: String::new(),
        }),
        labels: [("tenant".to_owned(), "acme".to_owned())].into(),
        wait: true,
        ..v1::StartExecutionRequest::default()
    };
    let (mut client, start) = (rig.executions().await, rig.by("ada", start));
    let starting = async {
        let started = tokio::time::timeout(PATIENCE, client.start_execution(start)).await;
        started.expect("the wait ends in time").unwrap()
    };
    let revoking = async {
        // The record of the start is written before the wait begins.
        while rig.records().len() == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        rig.revoke("ada");
    };
    let (started, ()) = tokio::join!(starting, revoking);
    // The start has succeeded.
    let expected = v1::Execution {
        name: name("a1"),
        payloads_redacted: true,
        ..v1::Execution::default()
    };
    assert_eq!(started.into_inner(), expected);
    assert!(rig.get("root", "a1").await.is_ok());
    while rig.records().len() < before + 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let records = rig.records();
    let told = records[before..].iter();
    let told: Vec<_> = told
        .map(|it| (&*it.verb, &*it.outcome, &*it.reason))
        .collect();
    let expected = [
        ("StartExecution", "OK", ""),
        ("StartExecution", "UNAUTHENTICATED", "API_KEY_REVOKED"),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_revoked_key_ends_the_session_of_its_worker() {
    let rig = rig().await;
    let offered = offer("agent-billing", "acme");
    let mut worker = Worker::connect(&rig, "wilma", offered).await.unwrap();
    rig.revoke("wilma");
    let status = loop {
        match worker.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the session ended without an error"),
            Err(status) => break status,
        }
    };
    assert_revoked(&status);
}

#[tokio::test]
async fn a_key_that_names_other_roles_ends_the_streams_that_were_opened_with_it() {
    let rig = rig().await;
    let watch = v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        ..v1::WatchExecutionsRequest::default()
    };
    let mut client = rig.executions().await;
    let stream = client.watch_executions(rig.by("vic", watch.clone())).await;
    let stream = stream.unwrap().into_inner();
    rig.change_keys(|file| file.to_json().replace("\"viewer\"", "\"auditor\""));
    let status = end(stream).await;
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert_eq!(reason_of(&status), "ACCESS_CHANGED");
    let again = client.watch_executions(rig.by("vic", watch)).await;
    assert_eq!(again.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_stream_over_grpc_web_ends_with_trailers_that_say_why() {
    let rig = rig().await;
    let mut stream = TcpStream::connect(rig.rig.gateway.address).await.unwrap();
    let watch = v1::WatchExecutionsRequest {
        parent: "providers/b".into(),
        ..v1::WatchExecutionsRequest::default()
    };
    let message = prost::Message::encode_to_vec(&watch);
    let length = u32::try_from(message.len()).unwrap();
    let mut frame = vec![0];
    frame.extend(length.to_be_bytes());
    frame.extend(message);
    let head = format!(
        "POST /stateway.v1.Executions/WatchExecutions HTTP/1.1\r\nhost: localhost\r\n\
         connection: close\r\nauthorization: Bearer {}\r\n\
         content-type: application/grpc-web+proto\r\ncontent-length: {}\r\n\r\n",
        rig.key("vic"),
        frame.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&frame).await.unwrap();
    let mut answer = Vec::new();
    let begins = async {
        while !answer.windows(2).any(|part| part == b"a1") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
        }
    };
    tokio::time::timeout(PATIENCE, begins).await.unwrap();
    rig.revoke("vic");
    let ends = stream.read_to_end(&mut answer);
    tokio::time::timeout(PATIENCE, ends).await.unwrap().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    // The last frame is one of trailers: its first byte says so, and four bytes have its length.
    let at = answer.windows(5).rposition(|head| {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        head[0] == 0x80 && (1..=1024).contains(&length)
    });
    let trailers = String::from_utf8_lossy(&answer[at.expect("trailers") + 5..]).into_owned();
    assert!(trailers.contains("grpc-status:16"), "{trailers}");
    assert!(trailers.contains("grpc-status-details-bin:"), "{trailers}");
    assert!(trailers.contains("revoked"), "{trailers}");
}
