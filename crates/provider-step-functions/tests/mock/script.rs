//! Histories, written event by event.

use serde_json::{Value, json};

use super::{Execution, now};

/// An event's details: the name of the member without its ending, and its content.
pub(crate) type Details = (&'static str, Value);

pub(crate) const NOTHING: Details = ("", Value::Null);

/// An execution with this history, running.
pub(crate) fn execution(machine: &str, name: &str, events: Vec<Value>) -> Execution {
    Execution {
        machine: machine.to_owned(),
        name: name.to_owned(),
        status: "RUNNING".to_owned(),
        input: "{}".to_owned(),
        mark: None,
        redrive_status: "NOT_REDRIVABLE".to_owned(),
        redrives: 0,
        failure: None,
        started: now(),
        events,
    }
}

/// Adds an event; its id.
pub(crate) fn push(events: &mut Vec<Value>, previous: usize, kind: &str, detail: Details) -> usize {
    let id = events.len() + 1;
    let mut event = json!({
        "id": id, "previousEventId": previous, "type": kind, "timestamp": now()
    });
    if !detail.0.is_empty() {
        event[format!("{}EventDetails", detail.0)] = detail.1;
    }
    events.push(event);
    id
}

pub(crate) fn begun() -> Vec<Value> {
    let mut events = Vec::new();
    push(
        &mut events,
        0,
        "ExecutionStarted",
        ("executionStarted", json!({"input": "{}"})),
    );
    events
}

pub(crate) fn entered(name: &str) -> Details {
    ("stateEntered", json!({"name": name, "input": "{}"}))
}

pub(crate) fn exited(name: &str) -> Details {
    ("stateExited", json!({"name": name, "output": "{}"}))
}

pub(crate) fn iteration(kind: &'static str, name: &str, index: usize) -> Details {
    (kind, json!({"name": name, "index": index}))
}

pub(crate) fn activity() -> Details {
    (
        "activityScheduled",
        json!({"resource": "arn:aws:states:us-east-1:0:activity:work"}),
    )
}

/// A task that no worker has taken.
pub(crate) fn open_task(name: &str) -> Vec<Value> {
    let mut events = begun();
    let id = push(&mut events, 0, "TaskStateEntered", entered(name));
    push(&mut events, id, "ActivityScheduled", activity());
    events
}

/// Waits in iteration `index` of the map `M`, after the event `previous`.
pub(crate) fn wait_for_token(events: &mut Vec<Value>, previous: usize, state: &str, index: usize) {
    let id = push(
        events,
        previous,
        "MapIterationStarted",
        iteration("mapIterationStarted", "M", index),
    );
    let id = push(events, id, "TaskStateEntered", entered(state));
    let parameters = json!({"MessageBody": {"token": format!("token-{id}")}}).to_string();
    let detail = json!({
        "resource": "sendMessage.waitForTaskToken", "resourceType": "sqs",
        "region": "us-east-1", "parameters": parameters,
    });
    let id = push(events, id, "TaskScheduled", ("taskScheduled", detail));
    let called = json!({"resource": "sendMessage.waitForTaskToken", "resourceType": "sqs"});
    let id = push(events, id, "TaskStarted", ("taskStarted", called.clone()));
    push(events, id, "TaskSubmitted", ("taskSubmitted", called));
}

/// The token of the newest task.
pub(crate) fn open_token(events: &[Value]) -> Option<String> {
    let scheduled = events
        .iter()
        .rfind(|event| event["type"] == "TaskScheduled")?;
    let parameters = scheduled["taskScheduledEventDetails"]["parameters"].as_str()?;
    let parameters: Value = serde_json::from_str(parameters).ok()?;
    parameters["MessageBody"]["token"]
        .as_str()
        .map(str::to_owned)
}

/// The first of two iterations is over, or both are and so is the execution.
pub(crate) fn answer_token(execution: &mut Execution) {
    let events = &mut execution.events;
    let entry = events
        .iter()
        .rfind(|event| event["type"] == "TaskStateEntered");
    let state = entry.and_then(|event| event["stateEnteredEventDetails"]["name"].as_str());
    let state = state.unwrap_or_default().to_owned();
    let index = events
        .iter()
        .filter(|event| event["type"] == "MapIterationStarted")
        .count()
        - 1;
    let id = events.len();
    let called = json!({"resource": "sendMessage.waitForTaskToken", "resourceType": "sqs"});
    let id = push(events, id, "TaskSucceeded", ("taskSucceeded", called));
    let id = push(events, id, "TaskStateExited", exited(&state));
    let over = iteration("mapIterationSucceeded", "M", index);
    push(events, id, "MapIterationSucceeded", over);
    if index == 0 {
        wait_for_token(events, id, &state, 1);
        return;
    }
    push(events, id, "MapStateSucceeded", NOTHING);
    let id = push(events, id, "MapStateExited", exited("M"));
    push(
        events,
        id,
        "ExecutionSucceeded",
        ("executionSucceeded", json!({"output": "{}"})),
    );
    "SUCCEEDED".clone_into(&mut execution.status);
}
