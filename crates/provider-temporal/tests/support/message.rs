//! Messages from the JSON form of protobuf, as recordings have it. Fields that this adapter's selection of the API
//! does not have are left out, as a decoder of the wire form leaves them out.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it")]

use std::str::FromStr;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::{SignedDuration, Timestamp};
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
};
use serde_json::Value as Json;
use stateway_provider_temporal::api::DESCRIPTORS;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("descriptors of this crate"));

/// The message of this type, by its name below `temporal.api`.
#[track_caller]
pub(crate) fn message<T: Message + Default>(name: &str, json: &Json) -> T {
    let name = format!("temporal.api.{name}");
    let descriptor = POOL.get_message_by_name(&name);
    let descriptor = descriptor.unwrap_or_else(|| panic!("{name} is not in the selection"));
    dynamic(&descriptor, json).transcode_to().unwrap()
}

/// A description of a workflow execution.
#[track_caller]
pub(crate) fn described(
    json: &Json,
) -> stateway_provider_temporal::api::workflowservice::v1::DescribeWorkflowExecutionResponse {
    message("workflowservice.v1.DescribeWorkflowExecutionResponse", json)
}

/// The events of a history.
#[track_caller]
pub(crate) fn events(
    json: &Json,
) -> Vec<stateway_provider_temporal::api::history::v1::HistoryEvent> {
    let history: stateway_provider_temporal::api::history::v1::History =
        message("history.v1.History", json);
    history.events
}

fn dynamic(descriptor: &MessageDescriptor, json: &Json) -> DynamicMessage {
    match descriptor.full_name() {
        "google.protobuf.Timestamp" => return timestamp(descriptor, json.as_str().unwrap()),
        "google.protobuf.Duration" => return duration(descriptor, json.as_str().unwrap()),
        "temporal.api.common.v1.Payload" if json.get("metadata").is_none() => {
            return plain(descriptor, json);
        }
        "temporal.api.common.v1.Payloads" if json.is_array() => {
            return dynamic(descriptor, &serde_json::json!({"payloads": json}));
        }
        _ => {}
    }
    let mut message = DynamicMessage::new(descriptor.clone());
    let object = json.as_object();
    let object = object.unwrap_or_else(|| panic!("{} is {json}", descriptor.full_name()));
    for (key, value) in object {
        if let Some(field) = descriptor.get_field_by_json_name(key)
            && !value.is_null()
        {
            message.set_field(&field, field_value(&field, value));
        }
    }
    message
}

fn field_value(field: &FieldDescriptor, json: &Json) -> Value {
    if field.is_map() {
        let kind = field.kind();
        let entry = kind.as_message().unwrap().map_entry_value_field();
        let entries = json.as_object().unwrap().iter();
        let entries =
            entries.map(|(key, value)| (MapKey::String(key.clone()), scalar(&entry, value)));
        return Value::Map(entries.collect());
    }
    match json {
        Json::Array(items) if field.is_list() => {
            Value::List(items.iter().map(|item| scalar(field, item)).collect())
        }
        json => scalar(field, json),
    }
}

fn scalar(field: &FieldDescriptor, json: &Json) -> Value {
    match field.kind() {
        Kind::Message(descriptor) => Value::Message(dynamic(&descriptor, json)),
        Kind::String => Value::String(json.as_str().unwrap().to_owned()),
        Kind::Bool => Value::Bool(json.as_bool().unwrap()),
        Kind::Bytes => {
            let bytes = BASE64_STANDARD.decode(json.as_str().unwrap()).unwrap();
            Value::Bytes(bytes.into())
        }
        Kind::Double => Value::F64(json.as_f64().unwrap()),
        Kind::Int32 => Value::I32(number(json)),
        Kind::Int64 => Value::I64(number(json)),
        Kind::Enum(kind) => match json {
            Json::Number(_) => Value::EnumNumber(number(json)),
            json => {
                let name = json.as_str().unwrap();
                let value = kind.get_value_by_name(name);
                let value = value.unwrap_or_else(|| panic!("{} has no {name}", kind.name()));
                Value::EnumNumber(value.number())
            }
        },
        kind => panic!("{} is a {kind:?}", field.full_name()),
    }
}

/// 64-bit numbers are strings in JSON.
fn number<T: FromStr>(json: &Json) -> T {
    let text = json
        .as_str()
        .map_or_else(|| json.to_string(), str::to_owned);
    text.parse()
        .ok()
        .unwrap_or_else(|| panic!("{text} is not a number"))
}

fn timestamp(descriptor: &MessageDescriptor, text: &str) -> DynamicMessage {
    let time: Timestamp = text.parse().unwrap();
    parts(descriptor, time.as_second(), time.subsec_nanosecond())
}

fn duration(descriptor: &MessageDescriptor, text: &str) -> DynamicMessage {
    let seconds: f64 = text.trim_end_matches('s').parse().unwrap();
    let duration = SignedDuration::from_secs_f64(seconds);
    parts(descriptor, duration.as_secs(), duration.subsec_nanos())
}

fn parts(descriptor: &MessageDescriptor, seconds: i64, nanos: i32) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    message.set_field_by_name("seconds", Value::I64(seconds));
    message.set_field_by_name("nanos", Value::I32(nanos));
    message
}

/// Temporal's command line prints the value itself instead of the payload.
fn plain(descriptor: &MessageDescriptor, json: &Json) -> DynamicMessage {
    let encoding = (
        MapKey::String("encoding".to_owned()),
        Value::Bytes("json/plain".into()),
    );
    let mut message = DynamicMessage::new(descriptor.clone());
    message.set_field_by_name("metadata", Value::Map([encoding].into()));
    message.set_field_by_name("data", Value::Bytes(json.to_string().into()));
    message
}
