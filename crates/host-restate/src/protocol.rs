//! The messages of Restate's service protocol that this host uses, by their numbers in versions 5 and 6.

use bytes::Bytes;
use prost::Message;

/// The versions of the protocol.
pub(crate) const VERSIONS: std::ops::RangeInclusive<u32> = 5..=6;

pub(crate) const START: u16 = 0x0000;
pub(crate) const SUSPENSION: u16 = 0x0001;
pub(crate) const ERROR: u16 = 0x0002;
pub(crate) const END: u16 = 0x0003;
pub(crate) const INPUT: u16 = 0x0400;
pub(crate) const OUTPUT: u16 = 0x0401;
pub(crate) const GET_LAZY_STATE: u16 = 0x0402;
pub(crate) const GET_LAZY_STATE_COMPLETION: u16 = 0x8002;
pub(crate) const SET_STATE: u16 = 0x0403;
pub(crate) const CLEAR_ALL_STATE: u16 = 0x0405;
pub(crate) const ONE_WAY_CALL: u16 = 0x040E;

/// The journal does not fit the commands that are computed.
pub(crate) const JOURNAL_MISMATCH: u32 = 570;
/// A message that the protocol does not allow here.
pub(crate) const PROTOCOL_VIOLATION: u32 = 571;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Start {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) id: Bytes,
    #[prost(string, tag = "2")]
    pub(crate) debug_id: String,
    /// The number of commands and notifications that follow.
    #[prost(uint32, tag = "3")]
    pub(crate) known_entries: u32,
    #[prost(message, repeated, tag = "4")]
    pub(crate) state_map: Vec<StateEntry>,
    /// Whether values exist that are not in the map.
    #[prost(bool, tag = "5")]
    pub(crate) partial_state: bool,
    #[prost(string, tag = "6")]
    pub(crate) key: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StateEntry {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) content: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Void {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Input {
    #[prost(message, optional, tag = "14")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Output {
    #[prost(message, optional, tag = "14")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetLazyState {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(uint32, tag = "11")]
    pub(crate) result_completion_id: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetLazyStateCompletion {
    #[prost(uint32, tag = "1")]
    pub(crate) completion_id: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) void: Option<Void>,
    #[prost(message, optional, tag = "5")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SetState {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(message, optional, tag = "3")]
    pub(crate) value: Option<Value>,
}

impl SetState {
    #[must_use]
    pub(crate) fn new(key: &str, value: Vec<u8>) -> Self {
        Self {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: Some(Value {
                content: value.into(),
            }),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ClearAllState {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OneWayCall {
    #[prost(string, tag = "1")]
    pub(crate) service_name: String,
    #[prost(string, tag = "2")]
    pub(crate) handler_name: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) parameter: Bytes,
    /// Milliseconds since the epoch; 0: now.
    #[prost(uint64, tag = "4")]
    pub(crate) invoke_time: u64,
    #[prost(string, tag = "6")]
    pub(crate) key: String,
    #[prost(uint32, tag = "10")]
    pub(crate) invocation_id_notification_idx: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Suspension {
    #[prost(uint32, repeated, tag = "1")]
    pub(crate) waiting_completions: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failure {
    #[prost(uint32, tag = "1")]
    pub(crate) code: u32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct End {}
