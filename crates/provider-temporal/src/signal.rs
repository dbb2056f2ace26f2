//! Signals, and updates: signals that the workflow answers.
//!
//! The server compares request ids within one run only. So every request goes to the run that was read before,
//! by its id: the runs before it were searched for the request id, and a run that has ended refuses.

mod earlier;
mod update;

use stateway_provider_api::{Error, ErrorKind, Observation, Result, SignalRequest};

use crate::TemporalProvider;
use crate::api::workflowservice::v1::SignalWorkflowExecutionRequest;
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;
use crate::reader::info;
use crate::request::{signal_body, update_name};
use crate::response::{is_closed, run_id};
use crate::{payload, steer};

/// How often a request is sent again because the run ended in between.
const MOST_TRIES: usize = 5;

pub(crate) async fn signal(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &SignalRequest,
) -> Result<Observation> {
    match update_name(&request.signal) {
        Some(name) => update::update(provider, ask, of, request, name).await,
        None => send(provider, ask, of, request).await,
    }
}

async fn send(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &SignalRequest,
) -> Result<Observation> {
    let reader = &provider.reader;
    let input = payload::arguments(request.payload.as_ref());
    let body = signal_body(&request.signal, input.as_ref());
    for _ in 0..MOST_TRIES {
        let described = reader.describe(ask, of).await?;
        let current = info(ask.verb, &described)?;
        // A repeated signal is answered also if the first one has ended the workflow.
        let id = request.request_id.as_str();
        if reader.earlier(ask, of, current, id, body).await?.is_some() {
            return reader.get_after_write(ask, of).await;
        }
        if is_closed(current) {
            return Err(steer::has_ended(ask.verb));
        }
        let message = SignalWorkflowExecutionRequest {
            namespace: reader.client.namespace(),
            workflow_execution: Client::execution(&of.run(run_id(current))),
            signal_name: request.signal.clone(),
            input: input.clone(),
            identity: reader.client.identity(ask.call),
            request_id: id.to_owned(),
        };
        let sent = reader.client.signal_workflow_execution(ask, message).await;
        provider.nudge(of);
        match sent {
            Ok(_) => return reader.get_after_write(ask, of).await,
            // The run ended in between; another one may continue.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(moves_on(ask))
}

/// The runs of the workflow end faster than a request reaches them.
fn moves_on(ask: Ask<'_>) -> Error {
    let message = format!("the workflow began {MOST_TRIES} new runs while the request was sent");
    Error::new(ErrorKind::Conflict, ask.verb, message)
        .with_reason("RUN_ENDED")
        .with_hint("Repeat the request with the same request id.")
}
