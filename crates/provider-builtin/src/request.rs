//! What the gateway asks, in the engine's terms.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_engine::{ListQuery, RequestDigest, RequestKey, Start, Steer};
use stateway_machine::{CancelMode as Ending, Data};
use stateway_model::{Payload, WaitKind};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Error, RequestId, Result, SignalRequest,
    StartRequest, Verb,
};

use crate::error::not_json;

/// The most rows of a page, whatever is asked for.
pub(crate) const MAX_PAGE: u32 = 1_000;

pub(crate) fn start(call: &Call, request: &StartRequest, now: Timestamp) -> Result<Start> {
    request.check_options(&[])?;
    let definition = request.definition.id();
    let digest = RequestDigest::new(Verb::Start.as_str(), &call.actor)
        .text(definition)
        .text(request.execution_id.as_ref().map_or("", |id| id.as_str()))
        .labels(&request.labels)
        .text(&format!("{:?}", request.delay));
    let digest = with_payload(digest, request.input.as_ref());
    let delay = request
        .delay
        .and_then(|delay| SignedDuration::try_from(delay).ok());
    let not_before = delay.and_then(|delay| now.checked_add(delay).ok());
    if request.delay.is_some() && not_before.is_none() {
        let message = "the delay is too long";
        return Err(Error::invalid(Verb::Start, message));
    }
    Ok(Start {
        definition: definition.into(),
        id: request.execution_id.as_ref().map(|id| id.as_str().into()),
        input: data(Verb::Start, "input", request.input.as_ref())?,
        labels: request.labels.clone(),
        not_before,
        actor: Arc::clone(&call.actor),
        request: digest.key(request.request_id.as_str()),
    })
}

pub(crate) fn signal(call: &Call, request: SignalRequest) -> Result<(Steer, RequestKey)> {
    let texts = [request.id.as_str(), &request.signal];
    let payload = request.payload.as_ref();
    let key = key(call, Verb::Signal, &texts, payload, &request.request_id);
    let steer = Steer::Signal {
        name: request.signal.into(),
        payload: data(Verb::Signal, "signal's body", request.payload.as_ref())?,
    };
    Ok((steer, key))
}

/// A graceful end compensates as the definition's failure policy says, unless the caller chooses; a
/// kill compensates nothing.
pub(crate) fn cancel(call: &Call, request: CancelRequest) -> (Verb, Steer, RequestKey) {
    let (verb, mode) = match (request.mode, request.compensation) {
        (CancelMode::Kill, _) => (Verb::Kill, Ending::Kill),
        (CancelMode::Graceful, CompensationChoice::AsDefined) => (Verb::Cancel, Ending::Policy),
        (CancelMode::Graceful, CompensationChoice::Compensate) => {
            (Verb::Cancel, Ending::Compensate)
        }
        (CancelMode::Graceful, CompensationChoice::Skip) => (Verb::Cancel, Ending::Stop),
    };
    let texts = [request.id.as_str(), &request.comment, mode.as_str()];
    let key = key(call, verb, &texts, None, &request.request_id);
    let cause = request.comment.into();
    (verb, Steer::Cancel { mode, cause }, key)
}

/// The key of a request that consists of these texts and a payload.
pub(crate) fn key(
    call: &Call,
    verb: Verb,
    texts: &[&str],
    input: Option<&Payload>,
    id: &RequestId,
) -> RequestKey {
    let digest = RequestDigest::new(verb.as_str(), &call.actor);
    let digest = texts.iter().fold(digest, |digest, text| digest.text(text));
    with_payload(digest, input).key(id.as_str())
}

/// A payload as JSON; none is `null`.
pub(crate) fn data(verb: Verb, what: &str, payload: Option<&Payload>) -> Result<Data> {
    let Some(payload) = payload else {
        return Ok(Data::new(Value::Null));
    };
    if !is_json(&payload.content_type) {
        let why = format!("its content type is `{}`", payload.content_type);
        return Err(not_json(verb, what, &why));
    }
    if payload.data.is_empty() {
        return Ok(Data::new(Value::Null));
    }
    let read = stateway_engine::parse_payload(&payload.data);
    read.map(Arc::new)
        .map_err(|error| not_json(verb, what, &error))
}

/// `application/json`, with or without parameters, or no content type.
pub(crate) fn is_json(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    media.is_empty() || media.eq_ignore_ascii_case(Payload::JSON)
}

/// Adds a payload to the digest of a request.
fn with_payload(digest: RequestDigest, payload: Option<&Payload>) -> RequestDigest {
    match payload {
        Some(payload) => digest.text(&payload.content_type).bytes(&payload.data),
        None => digest.text("none"),
    }
}

/// What of the hints the engine can narrow a list by; `None` when nothing can pass.
pub(crate) fn narrowed(hints: &Hints) -> Option<ListQuery> {
    let mut query = ListQuery::default();
    if hints.sub_states.len() < stateway_model::SubState::ALL.len() {
        if hints.sub_states.is_empty() {
            return None;
        }
        query.sub_states.clone_from(&hints.sub_states);
    }
    if let Some(wanted) = &hints.definition {
        // Executions here are shown with the names of portable definitions.
        query.definition = Some(wanted.portable_id()?.to_owned());
    }
    query.labels.clone_from(&hints.labels);
    // Approvals and escalations wait for a person.
    let person = |kind: &WaitKind| matches!(kind, WaitKind::Approval | WaitKind::Escalation);
    query.inbox = !hints.wait_kinds.is_empty() && hints.wait_kinds.iter().all(person);
    Some(query)
}

/// Where a history continues: the branch and the sequence of the last event shown, and how many were
/// shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryPosition {
    pub(crate) branch: u32,
    pub(crate) sequence: u64,
    pub(crate) events: u64,
}

#[cfg(test)]
mod tests {
    use stateway_provider_api::ErrorKind;

    use super::*;

    #[test]
    fn only_json_is_taken() {
        let payload = |content_type: &str, data: &'static str| Payload {
            content_type: content_type.to_owned(),
            data: data.into(),
        };
        let read = |payload: &Payload| data(Verb::Start, "input", Some(payload));
        for good in ["application/json", "application/json; charset=utf-8", ""] {
            assert_eq!(
                *read(&payload(good, "{\"a\":1}")).unwrap(),
                serde_json::json!({"a": 1})
            );
        }
        for bad in [
            payload("text/plain", "1"),
            payload("", "{"),
            payload("", "1 2"),
        ] {
            assert_eq!(read(&bad).unwrap_err().kind, ErrorKind::InvalidArgument);
        }
        assert_eq!(*data(Verb::Start, "input", None).unwrap(), Value::Null);
    }
}
