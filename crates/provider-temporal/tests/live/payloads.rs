//! Inputs, outputs, labels and histories.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::json;
use stateway_model::SubState;
use stateway_provider_api::{CancelMode, EventOrder, HistoryRequest, Provider, StartRequest, View};
use stateway_provider_temporal::{Codec, Config};

use crate::NAMESPACE;
use crate::lab::NOBODY;
use crate::rig::{Rig, call, config, execution_id, provider, shown};

pub(crate) async fn payloads_are_shown_and_encrypted_ones_are_decoded_by_the_codec(rig: &Rig) {
    let id = rig
        .start(&rig.id("plain"), json!([{"return": {"total": 42}}]))
        .await;
    let done = rig.until_shown(&id, SubState::Succeeded).await;
    assert!(text(done.input.as_ref()).contains("return"), "{done:#?}");
    assert_eq!(text(done.output.as_ref()), r#"{"total":42}"#);

    let secret = rig.id("secret");
    // "binary/encrypted" in base64, as the wire form has it.
    let payload = json!({
        "metadata": {"encoding": "YmluYXJ5L2VuY3J5cHRlZA=="}, "data": "c2VjcmV0",
    });
    let body = json!({
        "workflowType": {"name": "Script"}, "taskQueue": {"name": NOBODY},
        "input": {"payloads": [payload]},
    });
    rig.at.post(&format!("workflows/{secret}"), &body);
    let id = execution_id(&secret);
    let seen = shown(rig.provider.get(&call(), &id, View::Full).await.unwrap());
    let input = seen.input.unwrap();
    assert!(input.content_type.contains("encrypted"), "{input:?}");

    let with_codec = Config {
        codec: Some(Codec {
            url: codec(),
            bearer_env: None,
            ca_file: None,
            insecure: false,
        }),
        ..config(rig.lab.server.address(), NAMESPACE)
    };
    let seen = provider(&with_codec).get(&call(), &id, View::Full).await;
    assert_eq!(text(seen.unwrap().input.as_ref()), r#"{"card":"4242"}"#);
    rig.cancel(&id, CancelMode::Kill).await.unwrap();
}

/// A codec on the loopback interface that answers every request with one document.
fn codec() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().take(MOST_DECODED) {
            answer(stream.unwrap());
        }
    });
    url
}

/// How many requests the codec answers.
const MOST_DECODED: usize = 20;

/// Reads one request and answers it.
fn answer(mut stream: TcpStream) {
    let mut request = Vec::new();
    let mut part = [0; 4_096];
    while !request.ends_with(b"}") {
        match stream.read(&mut part) {
            Ok(read) if read > 0 => request.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
    // `json/plain` and `{"card":"4242"}` in base64.
    let body = r#"{"payloads":[{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"eyJjYXJkIjoiNDI0MiJ9"}]}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    // A client that is gone needs no answer.
    let _ = stream.write_all(answer.as_bytes());
}

fn text(payload: Option<&stateway_model::Payload>) -> String {
    let data = payload.map(|payload| payload.data.to_vec());
    String::from_utf8(data.unwrap_or_default()).unwrap()
}

pub(crate) async fn labels_are_memo_and_search_attributes(rig: &Rig) {
    let name = rig.id("labels");
    let request = StartRequest {
        labels: [
            ("team".to_owned(), "billing".to_owned()),
            ("ticket".to_owned(), "T-7".to_owned()),
        ]
        .into(),
        ..rig.start_request(&name, &json!([{"signal": "go"}]))
    };
    let labels = request.labels.clone();
    let id = rig.provider.start(&call(), request).await.unwrap().id;
    let seen = rig.get(&id).await;
    assert_eq!(seen.labels, labels);
    // The search attribute is visible to queries of the server.
    rig.at.until_found("team%3D%27billing%27", &name);
    rig.cancel(&id, CancelMode::Kill).await.unwrap();
}

pub(crate) async fn a_history_has_pages_in_both_orders(rig: &Rig) {
    let steps = json!([{"activity": {"id": "first"}}, {"timer": {"seconds": 0.05}}, {"return": 1}]);
    let id = rig.start(&rig.id("history"), steps).await;
    rig.until_shown(&id, SubState::Succeeded).await;
    let whole = events(rig, &id, EventOrder::OldestFirst, 1_000).await;
    assert!(whole.len() > 10, "{}", whole.len());
    assert_eq!(events(rig, &id, EventOrder::OldestFirst, 3).await, whole);
    let mut newest = events(rig, &id, EventOrder::NewestFirst, 3).await;
    newest.reverse();
    assert_eq!(newest, whole);
}

async fn events(
    rig: &Rig,
    id: &stateway_model::ExecutionId,
    order: EventOrder,
    page_size: u32,
) -> Vec<stateway_model::Event> {
    let mut events = Vec::new();
    let mut cursor = None;
    for _ in 0..100 {
        let request = HistoryRequest {
            id: id.clone(),
            page_size,
            cursor,
            view: View::Basic,
            order,
        };
        let page = rig.provider.history(&call(), request).await.unwrap();
        events.extend(page.events);
        cursor = page.next;
        if cursor.is_none() {
            return events;
        }
    }
    panic!("the history has no end");
}
