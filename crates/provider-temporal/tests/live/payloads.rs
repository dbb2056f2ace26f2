//! Inputs, outputs, labels and histories.

use serde_json::json;
use stateway_model::SubState;
use stateway_provider_api::{CancelMode, EventOrder, HistoryRequest, Provider, StartRequest, View};

use crate::lab::NOBODY;
use crate::rig::{Rig, call, execution_id, shown};

pub(crate) async fn payloads_are_shown_and_encrypted_ones_are_named(rig: &Rig) {
    let id = rig
        .start(&rig.id("plain"), json!([{"return": {"total": 42}}]))
        .await;
    let done = rig.until_shown(&id, SubState::Succeeded).await;
    let json = serde_json::to_value(&done).unwrap();
    assert!(json["input"].to_string().contains("return"), "{json:#}");
    assert!(json["output"].to_string().contains("42"), "{json:#}");

    let secret = rig.id("secret");
    // "binary/encrypted" in base64, as the wire form has it.
    let payload = json!({
        "metadata": {"encoding": "YmluYXJ5L2VuY3J5cHRlZA=="}, "data": "c2VjcmV0",
    });
    let body = json!({
        "workflowType": {"name": "Script"}, "taskQueue": {"name": NOBODY},
        "input": {"payloads": [payload]},
    });
    // With its own media type the server takes payloads as they are.
    rig.at
        .post(&format!("workflows/{secret}?noPayloadShorthand"), &body);
    let id = execution_id(&secret);
    let seen = shown(rig.provider.get(&call(), &id, View::Full).await.unwrap());
    let json = serde_json::to_value(&seen).unwrap();
    let input = json["input"].to_string();
    assert!(input.contains("encrypted"), "{input}");
    rig.cancel(&id, CancelMode::Kill).await.unwrap();
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
    let described = rig.at.describe(&name);
    let info = &described["workflowExecutionInfo"];
    assert!(
        info["searchAttributes"].to_string().contains("billing"),
        "{info:#}"
    );
    assert!(info["memo"].to_string().contains("T-7"), "{info:#}");
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
