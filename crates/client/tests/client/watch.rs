//! A watch goes on by itself, loses nothing and tells nothing twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fake::{Proxy, Script, serve};
use stateway_client::v1::watch_executions_response::Kind;
use stateway_client::{Change, Client, Code, WatchRequest, v1};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

fn told(kind: Kind, name: &str, cursor: &str) -> Result<v1::WatchExecutionsResponse, Status> {
    let execution = v1::Execution {
        name: name.into(),
        ..Default::default()
    };
    Ok(v1::WatchExecutionsResponse {
        kind: kind as i32,
        execution: (!name.is_empty()).then_some(execution),
        cursor: cursor.into(),
        unreachable: Vec::new(),
    })
}

fn refused(code: Code, reason: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "stateway.dev", HashMap::new());
    Status::with_error_details(code, "refused", details)
}

/// Longer than the client's own first pause.
const PAUSE: Duration = Duration::from_millis(300);

fn retryable(code: Code, reason: &str) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, "stateway.dev", HashMap::new());
    details.set_retry_info(Some(PAUSE));
    Status::with_error_details(code, "refused", details)
}

fn script(watches: Vec<Vec<Result<v1::WatchExecutionsResponse, Status>>>) -> Arc<Script> {
    let script = Arc::<Script>::default();
    *script.watches.lock().unwrap() = watches.into();
    script
}

/// A change as one word, so that whole sequences can be compared.
fn short(change: &Change) -> String {
    match change {
        Change::Added(execution) => format!("added {}", execution.name),
        Change::Modified(execution) => format!("modified {}", execution.name),
        Change::Removed(execution) => format!("removed {}", execution.name),
        Change::Bookmark { .. } => "bookmark".into(),
        Change::Resync => "resync".into(),
        Change::Interrupted(_) => "interrupted".into(),
    }
}

async fn next(watch: &mut stateway_client::Watch, count: usize) -> Vec<String> {
    let mut changes = Vec::new();
    for _ in 0..count {
        changes.push(short(&watch.next().await.unwrap().unwrap()));
    }
    changes
}

#[tokio::test]
async fn a_cut_connection_is_taken_up_from_the_last_cursor() {
    let script = script(vec![
        vec![told(Kind::Added, "a", "1"), told(Kind::Bookmark, "", "2")],
        vec![told(Kind::Modified, "a", "3")],
    ]);
    let proxy = Proxy::to(serve(&script).await).await;
    let client = Client::connect(&format!("http://{}", proxy.address))
        .await
        .unwrap();
    let mut watch = client.watch(WatchRequest::new("providers/-"));
    assert_eq!(next(&mut watch, 2).await, ["added a", "bookmark"]);
    proxy.cut();
    assert_eq!(next(&mut watch, 2).await, ["interrupted", "modified a"]);
    assert_eq!(script.asked(), ["", "2"]);
}

#[tokio::test]
async fn a_break_before_the_first_cursor_begins_anew_and_says_so() {
    let script = script(vec![
        vec![told(Kind::Added, "a", "")],
        vec![told(Kind::Added, "a", ""), told(Kind::Bookmark, "", "1")],
    ]);
    let proxy = Proxy::to(serve(&script).await).await;
    let client = Client::connect(&format!("http://{}", proxy.address))
        .await
        .unwrap();
    let mut watch = client.watch(WatchRequest::new("providers/-"));
    assert_eq!(next(&mut watch, 1).await, ["added a"]);
    proxy.cut();
    let after = next(&mut watch, 4).await;
    assert_eq!(after, ["interrupted", "resync", "added a", "bookmark"]);
    assert_eq!(script.asked(), ["", ""]);
}

#[tokio::test]
async fn an_expired_cursor_begins_anew_after_a_resync() {
    let script = script(vec![
        vec![Err(refused(Code::OutOfRange, "CURSOR_EXPIRED"))],
        vec![told(Kind::Added, "b", "9"), told(Kind::Bookmark, "", "10")],
    ]);
    let client = Client::connect(&format!("http://{}", serve(&script).await))
        .await
        .unwrap();
    let mut watch = client.watch(WatchRequest::new("providers/-").cursor("old"));
    assert_eq!(next(&mut watch, 3).await, ["resync", "added b", "bookmark"]);
    assert_eq!(script.asked(), ["old", ""]);
    assert_eq!(watch.cursor(), "10");
}

#[tokio::test]
async fn a_cursor_that_expires_in_the_middle_is_told_once() {
    let script = script(vec![
        vec![
            told(Kind::Added, "a", "1"),
            Err(Status::unavailable("draining")),
        ],
        vec![Err(refused(Code::OutOfRange, "CURSOR_EXPIRED"))],
        vec![told(Kind::Added, "a", "7")],
    ]);
    let client = Client::connect(&format!("http://{}", serve(&script).await))
        .await
        .unwrap();
    let mut watch = client.watch(WatchRequest::new("providers/-"));
    assert_eq!(
        next(&mut watch, 4).await,
        ["added a", "interrupted", "resync", "added a"]
    );
    assert_eq!(script.asked(), ["", "1", ""]);
}

#[tokio::test]
async fn what_the_gateway_refuses_ends_the_watch() {
    let script = script(vec![vec![Err(refused(
        Code::InvalidArgument,
        "INVALID_FILTER",
    ))]]);
    let client = Client::connect(&format!("http://{}", serve(&script).await))
        .await
        .unwrap();
    let mut watch = client.watch(WatchRequest::new("providers/-").filter("x ="));
    let error = watch.next().await.unwrap().unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (Code::InvalidArgument, "INVALID_FILTER")
    );
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn what_may_pass_is_tried_again_with_the_same_cursor() {
    let busy = [
        refused(Code::Unavailable, "PROVIDER_UNAVAILABLE"),
        refused(Code::ResourceExhausted, "TOO_MANY_WATCHES"),
        refused(Code::DeadlineExceeded, "PROVIDER_TIMEOUT"),
        retryable(Code::Aborted, "CONFLICT"),
    ];
    let mut watches = vec![vec![
        told(Kind::Added, "a", "1"),
        Err(Status::unavailable("draining")),
    ]];
    watches.extend(busy.map(|status| vec![Err(status)]));
    watches.push(vec![told(Kind::Modified, "a", "2")]);
    let script = script(watches);
    let client = Client::connect(&format!("http://{}", serve(&script).await))
        .await
        .unwrap();
    let mut watch = client.watch(WatchRequest::new("providers/-"));
    let mut expected = vec!["added a"];
    expected.extend(["interrupted"; 5]);
    expected.push("modified a");
    assert_eq!(next(&mut watch, 7).await, expected);
    assert_eq!(script.asked(), ["", "1", "1", "1", "1", "1"]);
}

#[tokio::test]
async fn a_watch_that_cannot_be_opened_at_first_is_tried_again_after_the_pause_asked_for() {
    let script = script(vec![
        vec![Err(retryable(Code::ResourceExhausted, "TOO_MANY_WATCHES"))],
        vec![told(Kind::Added, "a", "1")],
    ]);
    let client = Client::connect(&format!("http://{}", serve(&script).await))
        .await
        .unwrap();
    let begin = Instant::now();
    let mut watch = client.watch(WatchRequest::new("providers/-"));
    assert_eq!(next(&mut watch, 2).await, ["interrupted", "added a"]);
    assert!(begin.elapsed() >= PAUSE, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn the_gateways_own_resync_is_passed_on() {
    let script = script(vec![vec![
        told(Kind::Added, "a", "1"),
        told(Kind::Resync, "", "2"),
        told(Kind::Added, "b", "3"),
    ]]);
    let client = Client::connect(&format!("http://{}", serve(&script).await))
        .await
        .unwrap();
    let mut watch = client.watch(WatchRequest::new("providers/-"));
    assert_eq!(next(&mut watch, 3).await, ["added a", "resync", "added b"]);
}
