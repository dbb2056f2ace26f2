//! Starts through the ingress, and the outputs that the ingress keeps.

use std::time::Instant;

use serde::Deserialize;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::{Call, Error, NativeState, Observation, Result, StartRequest, Verb};

use crate::RestateProvider;
use crate::client::{REQUEST_ID, Send};
use crate::error::{Api, malformed, no_definition, refusal};
use crate::id::InvocationId;
use crate::journal;
use crate::request::{Start, Target, address, check_start};
use crate::row::Entry;
use crate::sql;

#[derive(Deserialize)]
struct Accepted {
    #[serde(rename = "invocationId")]
    invocation_id: String,
    status: String,
}

pub(crate) async fn start(
    provider: &RestateProvider,
    call: &Call,
    request: StartRequest,
) -> Result<Observation> {
    let definition = check_start(&request)?;
    let target = Target::parse(definition)
        .ok_or_else(|| no_definition(definition, "it names no handler"))?;
    let service = provider.reader.service(call, Verb::Start, &target.service);
    let service = service
        .await?
        .ok_or_else(|| no_definition(definition, &format!("no service `{}`", target.service)))?;
    let Start {
        target,
        idempotency_key,
    } = address(&request, target, &service)?;
    let server = provider.reader.server(call, Verb::Start).await?;
    let path = target.send_path(server.version.has_new_ingress());
    let send = Send {
        payload: request.input.as_ref(),
        idempotency_key: idempotency_key.as_deref(),
        request_id: Some(request.request_id.as_str()),
        delay: request.delay,
    };
    let client = &provider.reader.client;
    let answer = client.ingress_post(call, Verb::Start, &path, send).await?;
    match answer.status {
        200..=299 => {}
        404 => return Err(no_definition(definition, &answer.message())),
        _ => return Err(refusal(Verb::Start, Api::Ingress, &answer)),
    }
    let accepted: Accepted = answer.json(Verb::Start, Api::Ingress)?;
    let id = ExecutionId::new(&accepted.invocation_id);
    let id = id.map_err(|why| malformed(Verb::Start, Api::Ingress, why))?;
    if accepted.status == "PreviouslyAccepted" {
        check_same(provider, call, &id, &request).await?;
    }
    started(provider, call, id, accepted.status).await
}

/// Restate answers the first invocation whatever the later body says. What the first one was
/// started with stands in its journal, the request id included.
async fn check_same(
    provider: &RestateProvider,
    call: &Call,
    id: &ExecutionId,
    request: &StartRequest,
) -> Result<()> {
    let Some(invocation) = InvocationId::of(id) else {
        return Ok(());
    };
    let client = &provider.reader.client;
    let query = sql::input(&invocation);
    let entries: Vec<Entry> = client.query(call, Verb::Start, &query).await?;
    // Without a journal the inputs cannot be compared; only the key is known to be the same.
    let Some(first) = journal::input(&entries) else {
        return Ok(());
    };
    if first.header(REQUEST_ID) != Some(request.request_id.as_str()) {
        return Err(Error::execution_exists(id));
    }
    if bytes(first.payload.as_ref()) != bytes(request.input.as_ref()) {
        return Err(Error::request_id_reused(Verb::Start));
    }
    Ok(())
}

/// The execution right after its start. A handler that keeps nothing may have finished already, and
/// then the ingress's own word is all that is known.
async fn started(
    provider: &RestateProvider,
    call: &Call,
    id: ExecutionId,
    word: String,
) -> Result<Observation> {
    let row = match InvocationId::of(&id) {
        Some(invocation) => provider.reader.row(call, Verb::Start, &invocation).await?,
        None => None,
    };
    match row {
        Some(row) => provider.reader.observation(call, Verb::Start, row).await,
        None => Ok(Observation::new(id, NativeState::new(word))),
    }
}

/// What an invocation answered, while Restate keeps it. The ingress knows the content type too;
/// while the ingress fails, the journal has the bytes.
pub(crate) async fn output(
    provider: &RestateProvider,
    call: &Call,
    id: &InvocationId,
) -> Result<Option<Payload>> {
    let patience = Call {
        deadline: Instant::now() + call.remaining() / 2,
        ..call.clone()
    };
    match ingress_output(provider, &patience, id).await {
        Ok(output) => Ok(output),
        Err(_) => journal_output(provider, call, id).await,
    }
}

async fn journal_output(
    provider: &RestateProvider,
    call: &Call,
    id: &InvocationId,
) -> Result<Option<Payload>> {
    let query = sql::output(id);
    let entries: Vec<Entry> = provider
        .reader
        .client
        .query(call, Verb::Get, &query)
        .await?;
    Ok(journal::output(&entries))
}

async fn ingress_output(
    provider: &RestateProvider,
    call: &Call,
    id: &InvocationId,
) -> Result<Option<Payload>> {
    let server = provider.reader.server(call, Verb::Get).await?;
    let path: &[&str] = if server.version.has_new_ingress() {
        &["restate", "output", id.as_str()]
    } else {
        &["restate", "invocation", id.as_str(), "output"]
    };
    let client = &provider.reader.client;
    let answer = client.ingress_get(call, Verb::Get, path).await?;
    match answer.status {
        200 => Ok(Some(Payload {
            content_type: answer.content_type.unwrap_or_default(),
            data: answer.body,
        })),
        // Not kept, or not done after all.
        404 | 470 => Ok(None),
        _ => Err(refusal(Verb::Get, Api::Ingress, &answer)),
    }
}

fn bytes(payload: Option<&Payload>) -> &[u8] {
    payload.map_or(&[], |payload| &payload.data)
}
