//! Payloads by the standard converters. What this gateway cannot read is shown as what it is: bytes in
//! the encoding that the payload names. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use stateway_model::Payload;

use crate::api::common::v1::{Payload as Encoded, Payloads};

/// The metadata that names the converter.
const ENCODING: &str = "encoding";
const JSON_PLAIN: &str = "json/plain";
const JSON_PROTOBUF: &str = "json/protobuf";
const NULL: &str = "binary/null";
const BINARY: &str = "binary/plain";
const PROTOBUF: &str = "binary/protobuf";

/// The converter that a payload names; empty where it names none.
pub(crate) fn encoding(payload: &Encoded) -> &str {
    let name = payload.metadata.get(ENCODING);
    name.and_then(|name| std::str::from_utf8(name).ok())
        .unwrap_or_default()
}

/// Whether the payload can be shown without a codec.
pub(crate) fn is_readable(payload: &Encoded) -> bool {
    let encoding = encoding(payload);
    [JSON_PLAIN, JSON_PROTOBUF, NULL, BINARY, PROTOBUF, ""].contains(&encoding)
}

/// What is shown of arguments or of a result: one payload as it is, several as a JSON array.
pub(crate) fn shown(payloads: Option<&Payloads>) -> Option<Payload> {
    match payloads?.payloads.as_slice() {
        [] => None,
        [one] => Some(shown_one(one)),
        many => {
            let values: Vec<Value> = many.iter().map(value).collect();
            Some(Payload::json(Value::Array(values).to_string()))
        }
    }
}

/// What is shown of one payload.
pub(crate) fn shown_one(payload: &Encoded) -> Payload {
    let content_type = match encoding(payload) {
        JSON_PLAIN | JSON_PROTOBUF => Payload::JSON.to_owned(),
        NULL => return Payload::json("null"),
        BINARY | "" => "application/octet-stream".to_owned(),
        PROTOBUF => "application/x-protobuf".to_owned(),
        other => format!("application/octet-stream; encoding=\"{other}\""),
    };
    Payload {
        content_type,
        data: payload.data.clone(),
    }
}

/// A payload as a JSON value: its document, or its encoding and its bytes.
pub(crate) fn value(payload: &Encoded) -> Value {
    match encoding(payload) {
        NULL => Value::Null,
        JSON_PLAIN | JSON_PROTOBUF => {
            serde_json::from_slice(&payload.data).unwrap_or_else(|_| opaque(payload))
        }
        _ => opaque(payload),
    }
}

fn opaque(payload: &Encoded) -> Value {
    json!({ "encoding": encoding(payload), "data": STANDARD.encode(&payload.data) })
}

/// A payload as the text of a label: a JSON string without its quotes, anything else as JSON.
pub(crate) fn text(payload: &Encoded) -> String {
    match value(payload) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The arguments of a workflow, a signal or an update.
pub(crate) fn arguments(payload: Option<&Payload>) -> Option<Payloads> {
    let payload = payload?;
    let is_json = payload.content_type.starts_with(Payload::JSON)
        || serde_json::from_slice::<serde::de::IgnoredAny>(&payload.data).is_ok();
    let encoding = if is_json { JSON_PLAIN } else { BINARY };
    Some(Payloads {
        payloads: vec![encoded(encoding, payload.data.clone())],
    })
}

/// A text as the value of a memo field or of a search attribute of type Keyword.
pub(crate) fn keyword(text: &str) -> Encoded {
    let mut payload = encoded(JSON_PLAIN, Value::from(text).to_string().into());
    let kind = Bytes::from_static(b"Keyword");
    payload.metadata.insert("type".to_owned(), kind);
    payload
}

/// A text as the value of a memo field.
pub(crate) fn memo(text: &str) -> Encoded {
    encoded(JSON_PLAIN, Value::from(text).to_string().into())
}

fn encoded(encoding: &'static str, data: Bytes) -> Encoded {
    let encoding = Bytes::from_static(encoding.as_bytes());
    Encoded {
        metadata: [(ENCODING.to_owned(), encoding)].into(),
        data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(encoding: &'static str, data: &'static str) -> Encoded {
        encoded(encoding, Bytes::from_static(data.as_bytes()))
    }

    fn payloads(payloads: Vec<Encoded>) -> Payloads {
        Payloads { payloads }
    }

    #[test]
    fn the_standard_converters_are_shown_as_documents() {
        let one = payloads(vec![of(JSON_PLAIN, "{\"n\":2}")]);
        assert_eq!(shown(Some(&one)), Some(Payload::json("{\"n\":2}")));
        let null = payloads(vec![of(NULL, "")]);
        assert_eq!(shown(Some(&null)), Some(Payload::json("null")));
        let two = payloads(vec![of(JSON_PROTOBUF, "1"), of(NULL, "")]);
        assert_eq!(shown(Some(&two)), Some(Payload::json("[1,null]")));
        assert_eq!(shown(Some(&payloads(vec![]))), None);
        assert_eq!(shown(None), None);
    }

    #[test]
    fn what_is_encrypted_is_shown_as_encrypted() {
        let secret = of("binary/encrypted", "\u{1}\u{2}");
        assert!(!is_readable(&secret));
        let shown = shown_one(&secret);
        assert!(shown.content_type.contains("binary/encrypted"));
        assert_eq!(&*shown.data, b"\x01\x02");
        assert_eq!(
            value(&secret),
            json!({ "encoding": "binary/encrypted", "data": "AQI=" })
        );
    }

    #[test]
    fn arguments_are_read_back_as_they_were_sent() {
        let sent = Payload::json("[1,2]");
        assert_eq!(shown(arguments(Some(&sent)).as_ref()), Some(sent));
        assert_eq!(text(&memo("billing")), "billing");
        assert_eq!(text(&of(JSON_PLAIN, "7")), "7");
    }
}
