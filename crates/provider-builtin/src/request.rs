//! What the gateway asks, in the engine's terms.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use stateway_engine::{ListQuery, RequestDigest, RequestKey, Start, Steer};
use stateway_machine::{CancelMode as Ending, Data};
use stateway_model::Payload;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, Capabilities, Compensation, Error, ErrorKind, RequestId,
    Result, SignalRequest, StartRequest, Verb,
};

use crate::error::{foreign_cursor, not_json};

/// The most rows of a page, whatever is asked for.
const MAX_PAGE: u32 = 1_000;

pub(crate) fn start(
    call: &Call,
    request: &StartRequest,
    can: &Capabilities,
    now: Timestamp,
) -> Result<Start> {
    if request.delay.is_some() && !can.start_delayed {
        return Err(Error::unsupported(Verb::Start).with_hint("Start without a delay."));
    }
    if !request.labels.is_empty() && !can.labels {
        return Err(Error::unsupported(Verb::Start).with_hint("Start without labels."));
    }
    let digest = RequestDigest::new(Verb::Start.as_str(), &call.actor)
        .text(&request.definition)
        .text(request.execution_id.as_ref().map_or("", |id| id.as_str()))
        .labels(&request.labels)
        .text(&format!("{:?}", request.delay));
    let digest = with_payload(digest, request.input.as_ref());
    let delay = request
        .delay
        .and_then(|delay| SignedDuration::try_from(delay).ok());
    let not_before = delay.and_then(|delay| now.checked_add(delay).ok());
    if request.delay.is_some() && not_before.is_none() {
        let message = "the delay reaches beyond the end of time";
        return Err(Error::new(ErrorKind::InvalidArgument, Verb::Start, message));
    }
    Ok(Start {
        definition: request.definition.as_str().into(),
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
        (CancelMode::Graceful, Compensation::AsDefined) => (Verb::Cancel, Ending::Policy),
        (CancelMode::Graceful, Compensation::Compensate) => (Verb::Cancel, Ending::Compensate),
        (CancelMode::Graceful, Compensation::NoCompensation) => (Verb::Cancel, Ending::Stop),
    };
    let texts = [request.id.as_str(), &request.cause, mode.as_str()];
    let key = key(call, verb, &texts, None, &request.request_id);
    let cause = request.cause.into();
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

/// `application/json`, with parameters or without, or nothing said.
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
pub(crate) fn narrowed(hints: &Hints, can: &Capabilities) -> Option<ListQuery> {
    let mut query = ListQuery::default();
    if !can.list_hints {
        return Some(query);
    }
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
    Some(query)
}

/// A list's cursor says after which number to go on.
pub(crate) fn list_cursor(number: i64) -> String {
    format!("list.{number}")
}

pub(crate) fn read_list_cursor(cursor: Option<&str>) -> Result<Option<i64>> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let number = cursor
        .strip_prefix("list.")
        .and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| foreign_cursor(Verb::List))
}

/// A history's cursor: the branch and the sequence of the last event told, and how many were told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) branch: u32,
    pub(crate) sequence: u64,
    pub(crate) events: u64,
}

impl Told {
    pub(crate) fn cursor(self) -> String {
        let Self {
            branch,
            sequence,
            events,
        } = self;
        format!("history.{branch}.{sequence}.{events}")
    }

    pub(crate) fn read(cursor: Option<&str>) -> Result<Self> {
        let Some(cursor) = cursor else {
            return Ok(Self::default());
        };
        let parse = || {
            let mut parts = cursor.strip_prefix("history.")?.split('.');
            let told = Self {
                branch: parts.next()?.parse().ok()?,
                sequence: parts.next()?.parse().ok()?,
                events: parts.next()?.parse().ok()?,
            };
            parts.next().is_none().then_some(told)
        };
        parse().ok_or_else(|| foreign_cursor(Verb::History))
    }
}

/// A page of nothing would never end.
pub(crate) fn page_size(size: u32, verb: Verb) -> Result<usize> {
    if size == 0 {
        let message = "a page has at least one row";
        return Err(Error::new(ErrorKind::InvalidArgument, verb, message));
    }
    Ok(usize::try_from(size.min(MAX_PAGE)).unwrap_or(usize::MAX))
}

/// What a provider without the capability answers.
pub(crate) fn offered(verb: Verb, can: &Capabilities) -> Result<()> {
    match verb.is_offered(can) {
        true => Ok(()),
        false => Err(Error::unsupported(verb)),
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn cursors_are_read_back_and_foreign_ones_are_not() {
        let told = Told {
            branch: 1,
            sequence: 7,
            events: 12,
        };
        assert_eq!(Told::read(Some(&told.cursor())).unwrap(), told);
        for wrong in [
            "",
            "history",
            "history.1",
            "history.1.2",
            "list.1",
            "history.1.2.3.4",
        ] {
            assert!(Told::read(Some(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(read_list_cursor(Some(&list_cursor(7))).unwrap(), Some(7));
    }
}
