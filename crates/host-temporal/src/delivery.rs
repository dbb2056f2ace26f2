//! A message to another object, as the argument of the activity that delivers it.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stateway_hosted::definition_object;
use stateway_hosted::message::{ChildRequest, ObjectRequest};
use stateway_hosted::object::{Message, oversize};
use stateway_provider_temporal::host::MAX_VALUE_BYTES;

/// A message and where it goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Delivery {
    /// To an execution.
    Execution(Arc<str>, Box<ObjectRequest>),
    /// The order to start a child by the current revision of a definition.
    Definition(Arc<str>, Box<ChildRequest>),
}

impl Delivery {
    pub(crate) fn of(message: Message) -> Self {
        match message {
            Message::Execution(to, request) => Self::Execution(to, request),
            Message::Definition(name, request) => Self::Definition(name, request),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a message has only text keys, so it is always JSON")
    }
}

/// What a definition sends because a child is to be started. Reads the definition and changes nothing, so no task
/// of its workflow is needed.
pub(crate) fn start_child(
    name: &str,
    request: &ChildRequest,
    current: Option<&Bytes>,
) -> Vec<(Arc<str>, Box<ObjectRequest>)> {
    let request = serde_json::to_vec(request).unwrap_or_default();
    let mut read = |_: &str| Ok(current.map(|current| current.to_vec()));
    let turn = definition_object::start_child(name, &request, &mut read);
    let messages = turn.unwrap_or_default().messages.into_iter();
    let messages = messages.filter_map(|message| match message {
        Message::Execution(to, request) => Some((to, request)),
        Message::Definition(..) => None,
    });
    messages.collect()
}

/// A message as the server accepts it: a small one instead of one that is longer than a payload may be.
pub(crate) fn sendable(
    to: Arc<str>,
    request: Box<ObjectRequest>,
) -> (Arc<str>, Box<ObjectRequest>) {
    let bytes = serde_json::to_vec(&request).map_or(0, |request| request.len());
    if bytes <= MAX_VALUE_BYTES {
        return (to, request);
    }
    let why = format!("the message has {bytes} bytes, more than {MAX_VALUE_BYTES}");
    match oversize::instead_of_request(&request, &why) {
        Some(Message::Execution(to, small)) => (to, small),
        _ => (to, request),
    }
}
