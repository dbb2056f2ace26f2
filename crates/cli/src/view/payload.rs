//! Bodies: JSON as JSON, text as text, anything else in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stateway_client::v1;

/// JSON is shown as JSON. Any other content is shown as an object with its content type.
#[must_use]
pub fn payload(wire: Option<&v1::Payload>) -> Option<Value> {
    let wire = wire?;
    let is_json = wire.content_type.is_empty() || wire.content_type.contains("json");
    if is_json && let Ok(value) = serde_json::from_slice(&wire.data) {
        return Some(value);
    }
    let content_type = &wire.content_type;
    Some(match std::str::from_utf8(&wire.data) {
        Ok(text) => json!({ "content_type": content_type, "text": text }),
        Err(_) => json!({ "content_type": content_type, "base64": STANDARD.encode(&wire.data) }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(data: &'static [u8], content_type: &str) -> Value {
        let content_type = content_type.to_owned();
        payload(Some(&v1::Payload {
            data: data.into(),
            content_type,
        }))
        .unwrap()
    }

    #[test]
    fn json_is_itself_and_anything_else_says_what_it_is() {
        assert_eq!(shown(b"{\"a\":1}", ""), json!({ "a": 1 }));
        assert_eq!(
            shown(b"hello", "text/plain"),
            json!({ "content_type": "text/plain", "text": "hello" })
        );
        assert_eq!(
            shown(b"\xff", "x/y"),
            json!({ "content_type": "x/y", "base64": "/w==" })
        );
    }
}
