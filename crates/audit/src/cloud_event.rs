//! A record as a CloudEvent 1.0.

use serde_json::{Value, json};

use crate::chain::Line;

/// The record of a line as a CloudEvent in its JSON form. The id is the number and the hash of the line, so
/// that a receiver notices a log that was written a second time.
#[must_use]
pub fn cloud_event(source: &str, line: &Line) -> Value {
    let hash = line.chain().hash();
    let record = &line.record;
    let mut event = json!({
        "specversion": "1.0",
        "id": format!("{}-{}", line.seq, &hash[..16]),
        "source": source,
        "type": "dev.stateway.audit.v1",
        "time": record.time.to_string(),
        "datacontenttype": "application/json",
        "data": {
            "seq": line.seq,
            "hash": hash,
            "prev": crate::key::to_hex(&line.prev),
            "record": record,
        },
    });
    if !record.object.is_empty() {
        event["subject"] = record.object.clone().into();
    }
    event
}
