//! From requests of the gateway to requests to objects.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;
use stateway_definition::{digest, parse};
use stateway_driver::parse_payload;
use stateway_machine::Data;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::{Call, Error, RequestId, Result, StartRequest, Verb};

use super::{HostPort, HostedProvider};
use crate::message::{ObjectRequest, StartWork, VERSION, Work};
use crate::portability::obstacles;

/// The idempotency key of a request, and the digest that distinguishes a repeated request from another
/// one with the same id.
pub(super) struct Body {
    pub(super) id: Arc<str>,
    pub(super) digest: Arc<str>,
}

/// A digest in the making. The length precedes each part, so that parts do not run together.
pub(super) struct BodyParts {
    id: Arc<str>,
    parts: Vec<u8>,
}

impl Body {
    pub(super) fn of(call: &Call, verb: Verb, id: &RequestId) -> BodyParts {
        let parts = BodyParts {
            id: id.as_str().into(),
            parts: Vec::new(),
        };
        parts.text(verb.as_str()).text(&call.actor)
    }
}

impl BodyParts {
    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        let length = (bytes.len() as u64).to_le_bytes();
        self.parts.extend_from_slice(&length);
        self.parts.extend_from_slice(bytes);
        self
    }

    pub(super) fn payload(self, payload: Option<&Payload>) -> Self {
        match payload {
            Some(payload) => self.text(&payload.content_type).bytes(&payload.data),
            None => self.text("none"),
        }
    }

    pub(super) fn finish(self) -> Body {
        Body {
            id: self.id,
            digest: digest(&self.parts)[..32].into(),
        }
    }
}

/// A payload as JSON; none is `null`.
pub(super) fn data(verb: Verb, what: &str, payload: Option<&Payload>) -> Result<Data> {
    let Some(payload) = payload else {
        return Ok(Data::default());
    };
    let not_json = |why: &str| {
        Error::invalid(verb, format!("the {what} is not JSON: {why}"))
            .with_hint("Portable executions accept only JSON.")
    };
    if !is_json(&payload.content_type) {
        return Err(not_json(&format!(
            "its content type is `{}`",
            payload.content_type
        )));
    }
    if payload.data.is_empty() {
        return Ok(Data::new(Value::Null));
    }
    let read = parse_payload(&payload.data);
    read.map(Arc::new).map_err(|error| not_json(&error))
}

/// `application/json`, with parameters or without, or no content type.
pub(super) fn is_json(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    media.is_empty() || media.eq_ignore_ascii_case(Payload::JSON)
}

impl<P: HostPort> HostedProvider<P> {
    /// Refuses a definition that the report calls impossible, with the words of the report.
    pub(super) fn check_portable(&self, source: &str, name: &str) -> Result<()> {
        // What is wrong with a source is the object's to report.
        let Ok(parsed) = parse(source, name) else {
            return Ok(());
        };
        let reasons = obstacles((&parsed.definition, source), &self.abilities());
        match reasons.into_iter().next() {
            None => Ok(()),
            Some(reason) => Err(Error::invalid(Verb::Start, reason)
                .with_reason("DEFINITION_NOT_PORTABLE")
                .with_hint("{ValidateDefinition} lists everything that a host cannot do.")),
        }
    }

    /// The request that starts an execution, and the id of the execution. Without an id the request id
    /// decides about it, so a repeated request finds the same object.
    pub(super) async fn start_request(
        &self,
        call: &Call,
        request: StartRequest,
    ) -> Result<(ExecutionId, ObjectRequest)> {
        request.check_options(&[])?;
        let input = data(Verb::Start, "input", request.input.as_ref())?;
        let definition: Arc<str> = request.definition.id().into();
        let mut body = Body::of(call, Verb::Start, &request.request_id)
            .text(&definition)
            .text(request.execution_id.as_ref().map_or("", |id| id.as_str()))
            .text(&format!("{:?}", request.delay))
            .text(&request.labels.len().to_string());
        for (name, value) in &request.labels {
            body = body.text(name).text(value);
        }
        let body = body.payload(request.input.as_ref()).finish();
        let id = match request.execution_id {
            Some(id) => id,
            None => {
                let id = &digest(request.request_id.as_str().as_bytes())[..26];
                ExecutionId::new(id)
                    .map_err(|error| Error::invalid(Verb::Start, error.to_string()))?
            }
        };
        let at = self.now();
        let delay = request.delay.map(SignedDuration::try_from);
        let not_before = match delay {
            None => None,
            Some(delay) => {
                let due = delay.ok().and_then(|delay| at.checked_add(delay).ok());
                let beyond = || Error::invalid(Verb::Start, "the delay is too long");
                Some(due.ok_or_else(beyond)?)
            }
        };
        let source = self.current_source(call, &definition).await?;
        let start = StartWork {
            definition,
            source,
            labels: request.labels,
            not_before,
            input,
            by: Arc::clone(&call.actor),
            child: None,
        };
        let start = ObjectRequest {
            v: VERSION,
            id: body.id,
            at,
            body: Some(body.digest),
            work: Work::Start(Box::new(start)),
            claim: None,
        };
        Ok((id, start))
    }
}
