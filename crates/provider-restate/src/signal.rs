//! Signals through the ingress: an awakeable is resolved or rejected, a promise is resolved by a handler
//! of its workflow.

use stateway_provider_api::{Call, Error, Observation, Result, SignalRequest, Verb};

use crate::RestateProvider;
use crate::client::Send;
use crate::error::{Api, already_finished, refusal};
use crate::id::{InvocationId, is_awakeable};
use crate::request::Target;
use crate::row::Invocation;

/// What ends the name of an awakeable that is to be rejected.
const REJECT: &str = "/reject";

pub(crate) async fn signal(
    provider: &RestateProvider,
    call: &Call,
    request: SignalRequest,
) -> Result<Observation> {
    let (id, row) = provider.find(call, Verb::Signal, &request.id).await?;
    // The ingress takes a signal for whatever there is, and says nothing of what became of it.
    if row.is_completed() {
        return Err(already_finished(Verb::Signal));
    }
    if is_awakeable(&request.signal) {
        answer_awakeable(provider, call, &id, &request).await?;
    } else {
        call_bound(provider, call, &row, &request).await?;
    }
    provider.reader.stir(&id);
    let (_, row) = provider.find(call, Verb::Signal, &request.id).await?;
    provider.reader.observation(call, Verb::Signal, row).await
}

async fn answer_awakeable(
    provider: &RestateProvider,
    call: &Call,
    id: &InvocationId,
    request: &SignalRequest,
) -> Result<()> {
    let (awakeable, action) = match request.signal.strip_suffix(REJECT) {
        Some(awakeable) => (awakeable, "reject"),
        None => (request.signal.as_str(), "resolve"),
    };
    if !id.owns(awakeable) {
        let message = "the awakeable does not belong to this invocation";
        return Err(Error::invalid(Verb::Signal, message));
    }
    let path = ["restate", "awakeables", awakeable, action];
    let send = Send {
        payload: request.payload.as_ref(),
        ..Send::default()
    };
    let client = &provider.reader.client;
    let answer = client.ingress_post(call, Verb::Signal, &path, send).await?;
    if answer.is_success() {
        Ok(())
    } else {
        Err(refusal(Verb::Signal, Api::Ingress, &answer))
    }
}

/// Promises can only be resolved from inside: by a handler of the same workflow.
async fn call_bound(
    provider: &RestateProvider,
    call: &Call,
    row: &Invocation,
    request: &SignalRequest,
) -> Result<()> {
    let (Some(service), Some(key)) = (&row.target_service_name, &row.target_service_key) else {
        let message = "an invocation of a service has no promises";
        return Err(Error::precondition(Verb::Signal, message)
            .with_reason("SIGNAL_NOT_FOUND")
            .with_hint("Name the awakeable that the invocation waits for; `waits` of the execution shows it."));
    };
    let signals = &provider.config.signals;
    let bound = signals
        .get(&format!("{service}/{}", request.signal))
        .or_else(|| signals.get(&request.signal))
        .unwrap_or(&request.signal);
    let known = provider.reader.service(call, Verb::Signal, service).await?;
    if !known.is_some_and(|service| service.has(bound)) {
        let message = format!("`{service}` has no handler `{bound}` that resolves the promise");
        return Err(Error::precondition(Verb::Signal, message)
            .with_reason("SIGNAL_NOT_FOUND")
            .with_hint("Bind the promise to a handler in the provider's `signals`."));
    }
    let target = Target {
        service: service.clone(),
        key: Some(key.clone()),
        handler: bound.clone(),
    };
    let server = provider.reader.server(call, Verb::Signal).await?;
    let path = target.send_path(server.version.has_new_ingress());
    let send = Send {
        payload: request.payload.as_ref(),
        request_id: Some(request.request_id.as_str()),
        ..Send::default()
    };
    let client = &provider.reader.client;
    let answer = client.ingress_post(call, Verb::Signal, &path, send).await?;
    if answer.is_success() {
        Ok(())
    } else {
        Err(refusal(Verb::Signal, Api::Ingress, &answer))
    }
}
