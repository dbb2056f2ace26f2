//! The remote codec: slow, refusing and chatty codecs in front of executions whose failures and labels are encoded.

#![allow(clippy::unwrap_used)]

use crate::mock;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stateway_model::ExecutionId;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, EventOrder, HistoryRequest, ListRequest, Observation, Provider, SignalRequest, View,
};
use stateway_provider_temporal::{Codec, TemporalProvider};

use mock::Mock;

/// `binary/encrypted` in base64.
const ENCRYPTED: &str = "YmluYXJ5L2VuY3J5cHRlZA==";
/// `json/plain` in base64.
const PLAIN: &str = "anNvbi9wbGFpbg==";
/// `{"message":"card 4242 declined"}` in base64.
const DECODED: &str = "eyJtZXNzYWdlIjoiY2FyZCA0MjQyIGRlY2xpbmVkIn0=";

/// What the codec does with the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Mood {
    Decodes,
    Refuses,
    Hangs,
    Chats,
    /// Refuses every request with a payload that was not encrypted by this key.
    IsPicky,
}

/// The payload that a picky codec refuses, in base64.
const STRANGE: &str = "c3RyYW5nZQ==";

/// A codec on the loopback interface.
struct Remote {
    url: String,
    mood: Arc<AtomicU8>,
    asked: Arc<AtomicUsize>,
    /// Connections that get no answer stay open.
    _held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Remote {
    fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            mood: Arc::new(AtomicU8::new(mood as u8)),
            asked: Arc::default(),
            _held: Arc::default(),
        };
        let (mood, asked) = (remote.mood.clone(), remote.asked.clone());
        let held = remote._held.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                asked.fetch_add(1, Ordering::SeqCst);
                let mood = mood.load(Ordering::SeqCst);
                if mood == Mood::Hangs as u8 {
                    held.lock().unwrap().push(stream);
                } else {
                    answer(stream, mood);
                }
            }
        });
        remote
    }

    fn set(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, mood: u8) {
    let (mut request, mut part) = (Vec::new(), [0; 4_096]);
    while !request.ends_with(b"]}") {
        match stream.read(&mut part) {
            Ok(read) if read > 0 => request.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
    let text = String::from_utf8(request).unwrap();
    let count = text.matches("\"data\"").count();
    let one = json!({"metadata": {"encoding": PLAIN}, "data": DECODED});
    let is_strange = mood == Mood::IsPicky as u8 && text.contains(STRANGE);
    let (status, body) = if is_strange {
        ("422 Unprocessable Content", json!("another key"))
    } else if mood == Mood::Refuses as u8 {
        ("500 Internal Server Error", json!("no key for tenant 7"))
    } else if mood == Mood::Chats as u8 {
        ("200 OK", json!({"payloads": "card 4242"}))
    } else {
        ("200 OK", json!({"payloads": vec![one; count]}))
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    // A client that is gone needs no answer.
    let _ = stream.write_all((head + &body).as_bytes());
}

fn encrypted() -> Value {
    json!({"metadata": {"encoding": ENCRYPTED}, "data": "c2VjcmV0"})
}

/// Adds activities to a workflow whose encoded failure messages have this data.
fn fail(mock: &Mock, count: usize, data: &str) {
    let encoded = json!({"metadata": {"encoding": ENCRYPTED}, "data": data});
    mock.change(|world| {
        let run = &mut world.runs[0];
        for number in 0..count {
            let id = format!("{}-{number}", run.events.len());
            let scheduled = json!({"activityId": id, "activityType": {"name": "pay"}});
            run.record("ACTIVITY_TASK_SCHEDULED", &scheduled);
            let failed = json!({
                "scheduledEventId": run.events.len().to_string(),
                "failure": {"message": "Encoded failure", "encodedAttributes": encoded},
            });
            run.record("ACTIVITY_TASK_FAILED", &failed);
        }
    });
}

/// A workflow with an encoded memo. Its activity failed, is not retried, and has an encoded failure message.
fn put(mock: &Mock, id: &str) -> ExecutionId {
    let time = "2026-11-01T08:00:00Z";
    let run = format!("0cc1e1af-0fa0-788e-9075-{:012x}", id.len());
    let description = json!({"workflowExecutionInfo": {
        "execution": {"workflowId": id, "runId": run}, "type": {"name": "Script"},
        "status": "WORKFLOW_EXECUTION_STATUS_RUNNING", "startTime": time, "executionTime": time,
        "taskQueue": "lab", "historyLength": "4", "stateTransitionCount": "4",
        "memo": {"fields": {"customer": encrypted()}},
    }});
    let event = |number: u32, kind: &str, name: &str, attributes: Value| {
        json!({
            "eventId": number.to_string(), "eventTime": time, "eventType": format!("EVENT_TYPE_{kind}"),
            format!("{name}EventAttributes"): attributes,
        })
    };
    let failure = json!({"message": "Encoded failure", "encodedAttributes": encrypted(),
        "applicationFailureInfo": {"type": "Declined"}});
    let history = json!({"events": [
        event(1, "WORKFLOW_EXECUTION_STARTED", "workflowExecutionStarted",
            json!({"workflowType": {"name": "Script"}, "attempt": 1})),
        event(2, "ACTIVITY_TASK_SCHEDULED", "activityTaskScheduled",
            json!({"activityId": "charge", "activityType": {"name": "pay"}})),
        event(3, "ACTIVITY_TASK_STARTED", "activityTaskStarted",
            json!({"scheduledEventId": "2", "attempt": 1})),
        event(4, "ACTIVITY_TASK_FAILED", "activityTaskFailed",
            json!({"scheduledEventId": "2", "startedEventId": "3", "failure": failure})),
    ]});
    mock.put(&description, &history);
    ExecutionId::new(id).unwrap()
}

async fn server(mood: Mood) -> (Mock, TemporalProvider, Remote) {
    let (mock, remote) = (Mock::start().await, Remote::start(mood));
    let mut config = mock.config();
    config.codec = Some(Codec {
        url: remote.url.clone(),
        bearer_env: None,
        ca_file: None,
        insecure: false,
    });
    let table = compiled_in("temporal").unwrap();
    let provider = TemporalProvider::new("test".parse().unwrap(), &config, table);
    (mock, provider.unwrap(), remote)
}

async fn get(provider: &TemporalProvider, id: &ExecutionId, patience: Duration) -> Observation {
    let call = Call::within(patience);
    provider.get(&call, id, View::Basic).await.unwrap()
}

fn message(seen: &Observation) -> String {
    let errors = seen
        .steps
        .iter()
        .filter_map(|step| step.last_error.as_ref());
    errors.map(|error| error.message.clone()).collect()
}

const LONG: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_codec_that_hangs_leaves_the_caller_time_for_an_answer() {
    let (mock, provider, _remote) = server(Mood::Hangs).await;
    let id = put(&mock, "order");
    let began = Instant::now();
    let seen = get(&provider, &id, Duration::from_millis(1_500)).await;
    assert!(began.elapsed() < Duration::from_millis(1_500));
    assert_eq!(message(&seen), "Encoded failure");
}

#[tokio::test]
async fn a_codec_that_hangs_is_not_asked_for_every_read() {
    let (mock, provider, remote) = server(Mood::Hangs).await;
    let id = put(&mock, "order");
    let began = Instant::now();
    for _ in 0..20 {
        get(&provider, &id, LONG).await;
    }
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert!(remote.asked() <= 4, "asked {} times", remote.asked());
}

#[tokio::test]
async fn failures_that_were_not_decoded_are_decoded_later() {
    let (mock, provider, remote) = server(Mood::Refuses).await;
    let id = put(&mock, "order");
    assert_eq!(message(&get(&provider, &id, LONG).await), "Encoded failure");
    remote.set(Mood::Decodes);
    provider.clock().skip(Duration::from_secs(10));
    let seen = get(&provider, &id, LONG).await;
    assert_eq!(message(&seen), "card 4242 declined");
    // What was decoded is remembered.
    let since = Instant::now();
    get(&provider, &id, LONG).await;
    let calls = mock.calls_since(since);
    let histories = calls.get("GetWorkflowExecutionHistoryReverse");
    assert_eq!(histories, None, "{calls:?}");
}

#[tokio::test]
async fn one_payload_that_the_codec_refuses_does_not_hide_the_others() {
    let (mock, provider, remote) = server(Mood::IsPicky).await;
    let id = put(&mock, "order");
    fail(&mock, 40, "c2VjcmV0");
    fail(&mock, 1, STRANGE);
    fail(&mock, 40, "c2VjcmV0");
    let seen = get(&provider, &id, LONG).await;
    let messages = message(&seen);
    let count = |text: &str| messages.matches(text).count();
    assert_eq!((count("4242"), count("Encoded failure")), (81, 1));
    // One for the labels, one for all failures, two for each half.
    assert!(
        remote.asked() <= 2 + 2 * 8,
        "asked {} times",
        remote.asked()
    );
    // The halves that were decoded do not hide the trouble.
    let health = provider.health(&Call::within(LONG)).await.unwrap();
    assert!(health.detail.contains("422"), "{}", health.detail);
}

#[tokio::test]
async fn a_codec_that_refuses_everything_is_asked_a_bounded_number_of_times() {
    let (mock, provider, remote) = server(Mood::Refuses).await;
    let id = put(&mock, "order");
    fail(&mock, 160, "c2VjcmV0");
    get(&provider, &id, LONG).await;
    assert!(
        remote.asked() <= 2 + 2 * 16,
        "asked {} times",
        remote.asked()
    );
}

#[tokio::test]
async fn texts_that_cannot_be_decoded_are_read_again_ever_more_rarely() {
    let (mock, provider, _remote) = server(Mood::Refuses).await;
    let id = put(&mock, "order");
    let mut reads = Vec::new();
    for seconds in [0, 9, 1, 10, 50, 60, 539, 1, 599, 1] {
        provider.clock().skip(Duration::from_secs(seconds));
        let since = Instant::now();
        get(&provider, &id, LONG).await;
        let calls = mock.calls_since(since);
        let histories = calls.get("GetWorkflowExecutionHistoryReverse");
        reads.push(histories.is_some());
    }
    let expected = [
        true, false, true, false, true, false, false, true, false, true,
    ];
    assert_eq!(reads, expected);
}

#[tokio::test]
async fn failures_are_decoded_in_the_basic_view_of_a_history() {
    let (mock, provider, _remote) = server(Mood::Decodes).await;
    let request = HistoryRequest {
        id: put(&mock, "order"),
        page_size: 10,
        cursor: None,
        view: View::Basic,
        order: EventOrder::OldestFirst,
    };
    let history = provider.history(&Call::within(LONG), request).await;
    let events = history.unwrap().events;
    let failed = events
        .iter()
        .find(|it| it.native_type == "ACTIVITY_TASK_FAILED");
    let summary = &failed.unwrap().summary;
    assert!(summary.contains("card 4242 declined"), "{summary}");
}

#[tokio::test]
async fn a_refusal_is_remembered_briefly() {
    let (mock, provider, _remote) = server(Mood::Refuses).await;
    let id = put(&mock, "order");
    get(&provider, &id, LONG).await;
    let since = Instant::now();
    get(&provider, &id, LONG).await;
    let calls = mock.calls_since(since);
    let histories = calls.get("GetWorkflowExecutionHistoryReverse");
    assert_eq!(histories, None, "{calls:?}");
}

#[tokio::test]
async fn labels_are_decoded_in_lists_as_in_descriptions() {
    let (mock, provider, _remote) = server(Mood::Decodes).await;
    let id = put(&mock, "order");
    let described = get(&provider, &id, LONG).await.labels;
    assert!(described["customer"].contains("4242"), "{described:?}");
    mock.change(|world| {
        let run = &mut world.runs[0];
        let attributes = json!({});
        run.close(
            stateway_provider_temporal::api::enums::v1::WorkflowExecutionStatus::Completed,
            "WORKFLOW_EXECUTION_COMPLETED",
            &attributes,
        );
    });
    let request = ListRequest {
        page_size: 10,
        cursor: None,
        hints: Hints::none(),
    };
    let page = provider.list(&Call::within(LONG), request).await.unwrap();
    assert_eq!(page.observations[0].labels, described);
}

#[tokio::test]
async fn the_answer_of_an_update_is_decoded() {
    let (mock, provider, _remote) = server(Mood::Decodes).await;
    let id = put(&mock, "charged");
    let request = SignalRequest {
        id,
        signal: "update:sealed".to_owned(),
        payload: None,
        request_id: "update".parse().unwrap(),
    };
    let call = Call::within(Duration::from_secs(10));
    let seen = provider.signal(&call, request).await.unwrap();
    let note = seen.notes.iter().find(|note| note.contains("answered"));
    assert!(note.unwrap().contains("card 4242 declined"), "{note:?}");
}

#[tokio::test]
async fn trouble_with_the_codec_is_shown_without_payloads() {
    let (mock, provider, _remote) = server(Mood::Chats).await;
    let id = put(&mock, "order");
    get(&provider, &id, LONG).await;
    let health = provider.health(&Call::within(LONG)).await.unwrap();
    assert!(health.detail.contains("not decoded"), "{}", health.detail);
    assert!(!health.detail.contains("4242"), "{}", health.detail);
}
