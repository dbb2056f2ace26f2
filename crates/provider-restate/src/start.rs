//! Starting and answering: what goes through the ingress.

use std::time::Instant;

use serde::Deserialize;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::{
    Call, Error, ErrorKind, NativeState, Observation, Result, SignalRequest, StartRequest, Verb,
};

use crate::RestateProvider;
use crate::client::{REQUEST_ID, Send};
use crate::error::{Api, already_finished, malformed, no_definition, precondition, refusal};
use crate::id::{InvocationId, is_awakeable};
use crate::journal;
use crate::request::{Start, Target, check_start, start};
use crate::row::{Entry, Invocation};
use crate::sql;

/// What ends the name of an awakeable that is to be rejected.
const REJECT: &str = "/reject";

#[derive(Deserialize)]
struct Accepted {
    #[serde(rename = "invocationId")]
    invocation_id: String,
    status: String,
}

impl RestateProvider {
    pub(crate) async fn send_start(
        &self,
        call: &Call,
        request: StartRequest,
    ) -> Result<Observation> {
        check_start(&request, &self.can)?;
        let definition = &request.definition;
        let target = Target::parse(definition)
            .ok_or_else(|| no_definition(definition, "it names no handler"))?;
        let service = self.reader.service(call, Verb::Start, &target.service);
        let service = service.await?.ok_or_else(|| {
            no_definition(definition, &format!("no service `{}`", target.service))
        })?;
        let Start {
            target,
            idempotency_key,
        } = start(&request, target, &service)?;
        let server = self.reader.server(call, Verb::Start).await?;
        let path = target.send_path(server.version.has_new_ingress());
        let send = Send {
            payload: request.input.as_ref(),
            idempotency_key: idempotency_key
                .as_deref()
                .filter(|_| self.can.start_idempotent),
            request_id: Some(request.request_id.as_str()),
            delay: request.delay,
        };
        let client = &self.reader.client;
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
            self.check_same(call, &id, &request).await?;
        }
        self.started(call, id, accepted.status).await
    }

    /// Restate answers the first invocation whatever the later body says. What the first one was
    /// started with stands in its journal, the request id included.
    async fn check_same(
        &self,
        call: &Call,
        id: &ExecutionId,
        request: &StartRequest,
    ) -> Result<()> {
        let Some(invocation) = InvocationId::of(id) else {
            return Ok(());
        };
        let client = &self.reader.client;
        let query = sql::input(&invocation);
        let entries: Vec<Entry> = client.query(call, Verb::Start, &query).await?;
        // Without a journal nothing can be compared; that it is the same key is all there is.
        let Some(first) = journal::input(&entries) else {
            return Ok(());
        };
        let taken = |reason, message: String| {
            Err(Error::new(ErrorKind::AlreadyExists, Verb::Start, message).with_reason(reason))
        };
        if first.header(REQUEST_ID) != Some(request.request_id.as_str()) {
            let message = format!("the key is taken by invocation `{id}`");
            return taken("EXECUTION_ALREADY_EXISTS", message);
        }
        if bytes(first.payload.as_ref()) != bytes(request.input.as_ref()) {
            let message = "the request id was used with another body".to_owned();
            return taken("REQUEST_ID_REUSED", message);
        }
        Ok(())
    }

    /// What a start shows at once. A handler that keeps nothing may have finished already, and
    /// then the ingress's own word is all that is known.
    async fn started(&self, call: &Call, id: ExecutionId, word: String) -> Result<Observation> {
        let row = match InvocationId::of(&id) {
            Some(invocation) => self.reader.row(call, Verb::Start, &invocation).await?,
            None => None,
        };
        match row {
            Some(row) => self.reader.observation(call, Verb::Start, row).await,
            None => Ok(Observation::new(id, NativeState::new(word))),
        }
    }

    /// What an invocation answered, while Restate keeps it. The ingress knows the content type too;
    /// while the ingress fails, the journal has the bytes.
    pub(crate) async fn output(&self, call: &Call, id: &InvocationId) -> Result<Option<Payload>> {
        let patience = Call {
            deadline: Instant::now() + call.remaining() / 2,
            ..call.clone()
        };
        match self.ingress_output(&patience, id).await {
            Ok(output) => Ok(output),
            Err(_) => self.journal_output(call, id).await,
        }
    }

    async fn journal_output(&self, call: &Call, id: &InvocationId) -> Result<Option<Payload>> {
        let query = sql::output(id);
        let entries: Vec<Entry> = self.reader.client.query(call, Verb::Get, &query).await?;
        Ok(journal::output(&entries))
    }

    async fn ingress_output(&self, call: &Call, id: &InvocationId) -> Result<Option<Payload>> {
        let server = self.reader.server(call, Verb::Get).await?;
        let path: &[&str] = if server.version.has_new_ingress() {
            &["restate", "output", id.as_str()]
        } else {
            &["restate", "invocation", id.as_str(), "output"]
        };
        let client = &self.reader.client;
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

    pub(crate) async fn send_signal(
        &self,
        call: &Call,
        request: SignalRequest,
    ) -> Result<Observation> {
        let (id, row) = self.find(call, Verb::Signal, &request.id).await?;
        // The ingress takes a signal for whatever there is, and says nothing of what became of it.
        if row.is_completed() {
            return Err(already_finished(Verb::Signal));
        }
        if is_awakeable(&request.signal) {
            self.answer_awakeable(call, &id, &request).await?;
        } else {
            self.call_bound(call, &row, &request).await?;
        }
        self.reader.stir(&id);
        let (_, row) = self.find(call, Verb::Signal, &request.id).await?;
        self.reader.observation(call, Verb::Signal, row).await
    }

    async fn answer_awakeable(
        &self,
        call: &Call,
        id: &InvocationId,
        request: &SignalRequest,
    ) -> Result<()> {
        let (awakeable, action) = match request.signal.strip_suffix(REJECT) {
            Some(awakeable) => (awakeable, "reject"),
            None => (request.signal.as_str(), "resolve"),
        };
        if !id.owns(awakeable) {
            let message = "the awakeable is not one of this invocation's";
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                Verb::Signal,
                message,
            ));
        }
        let path = ["restate", "awakeables", awakeable, action];
        let send = Send {
            payload: request.payload.as_ref(),
            ..Send::default()
        };
        let client = &self.reader.client;
        let answer = client.ingress_post(call, Verb::Signal, &path, send).await?;
        if answer.is_success() {
            Ok(())
        } else {
            Err(refusal(Verb::Signal, Api::Ingress, &answer))
        }
    }

    /// Promises can only be resolved from inside: by a handler of the same workflow.
    async fn call_bound(
        &self,
        call: &Call,
        row: &Invocation,
        request: &SignalRequest,
    ) -> Result<()> {
        let (Some(service), Some(key)) = (&row.target_service_name, &row.target_service_key) else {
            let message = "a service's invocation has no promises";
            return Err(precondition(Verb::Signal, message)
                .with_reason("SIGNAL_NOT_FOUND")
                .with_hint("Name the awakeable it waits for, as its waits show it."));
        };
        let signals = &self.config.signals;
        let bound = signals
            .get(&format!("{service}/{}", request.signal))
            .or_else(|| signals.get(&request.signal))
            .unwrap_or(&request.signal);
        let known = self.reader.service(call, Verb::Signal, service).await?;
        if !known.is_some_and(|service| service.has(bound)) {
            let message = format!("`{service}` has no handler `{bound}` to resolve it by");
            return Err(precondition(Verb::Signal, message)
                .with_reason("SIGNAL_NOT_FOUND")
                .with_hint("Bind the promise to a handler in the provider's `signals`."));
        }
        let target = Target {
            service: service.clone(),
            key: Some(key.clone()),
            handler: bound.clone(),
        };
        let server = self.reader.server(call, Verb::Signal).await?;
        let path = target.send_path(server.version.has_new_ingress());
        let send = Send {
            payload: request.payload.as_ref(),
            request_id: Some(request.request_id.as_str()),
            ..Send::default()
        };
        let client = &self.reader.client;
        let answer = client.ingress_post(call, Verb::Signal, &path, send).await?;
        if answer.is_success() {
            Ok(())
        } else {
            Err(refusal(Verb::Signal, Api::Ingress, &answer))
        }
    }
}

fn bytes(payload: Option<&Payload>) -> &[u8] {
    payload.map_or(&[], |payload| &payload.data)
}
