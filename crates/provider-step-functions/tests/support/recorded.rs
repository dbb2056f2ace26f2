//! Recorded answers as the events and definitions they tell of. The adapter itself decodes with
//! the SDK; this reads JSON alone, because snapshots of the real service have scrubbed values
//! that the SDK would refuse.

use jiff::Timestamp;
use serde_json::Value;
use stateway_provider_step_functions::pure::{Detail, Event};

pub(crate) fn history(body: &Value) -> Vec<Event> {
    let events = body["events"].as_array();
    events.map_or_else(Vec::new, |events| events.iter().map(event).collect())
}

pub(crate) fn event(event: &Value) -> Event {
    let fields = event.as_object().into_iter().flatten();
    let details = fields.filter(|(key, value)| key.ends_with("EventDetails") && value.is_object());
    let details: Vec<&Value> = details.map(|(_, value)| value).collect();
    let find = |key: &str| details.iter().find_map(|detail| detail.get(key));
    let text = |key: &str| {
        find(key).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    Event {
        id: event["id"].as_u64().unwrap_or_default(),
        previous: event["previousEventId"].as_u64().unwrap_or_default(),
        kind: event["type"].as_str().unwrap_or_default().to_owned(),
        at: event["timestamp"].as_f64().and_then(time),
        detail: Detail {
            name: text("name").or_else(|| text("state")),
            index: find("index").and_then(Value::as_u64),
            error: text("error"),
            cause: text("cause"),
            resource: text("resource"),
            resource_type: text("resourceType"),
            timeout_seconds: find("timeoutInSeconds").and_then(Value::as_i64),
            parameters: text("parameters"),
            map_run: text("mapRunArn"),
            redrive_count: find("redriveCount")
                .and_then(Value::as_u64)
                .and_then(|count| u32::try_from(count).ok()),
        },
    }
}

/// Seconds since 1970, to the microsecond.
pub(crate) fn time(seconds: f64) -> Option<Timestamp> {
    #[expect(clippy::cast_possible_truncation, reason = "times of this century")]
    Timestamp::from_microsecond((seconds * 1e6).round() as i64).ok()
}
