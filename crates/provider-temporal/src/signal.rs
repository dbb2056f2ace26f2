//! Signals, and updates: signals that the workflow answers.

use stateway_provider_api::{Error, ErrorKind, Observation, Result, SignalRequest, Verb, View};

use crate::TemporalProvider;
use crate::api::common::v1::Payloads;
use crate::api::enums::v1::UpdateWorkflowExecutionLifecycleStage;
use crate::api::history::v1::HistoryEvent;
use crate::api::history::v1::history_event::Attributes;
use crate::api::update::v1::outcome::Value;
use crate::api::update::v1::{Input, Meta, Outcome, Request, WaitPolicy};
use crate::api::workflowservice::v1::{
    SignalWorkflowExecutionRequest, UpdateWorkflowExecutionRequest,
};
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;
use crate::request::update_name;
use crate::steer::open_execution;
use crate::{failure, payload};

pub(crate) async fn signal(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &SignalRequest,
) -> Result<Observation> {
    match update_name(&request.signal) {
        Some(name) => update(provider, ask, of, request, name).await,
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
    // The server delivers one request id once, whatever the later signal says. A repeated signal is
    // answered also if the first one has ended the workflow.
    if was_delivered(provider, ask, of, request).await? {
        return reader.get(ask, of, View::Basic).await;
    }
    open_execution(provider, ask, of).await?;
    let message = SignalWorkflowExecutionRequest {
        namespace: reader.client.namespace(),
        workflow_execution: Client::execution(of),
        signal_name: request.signal.clone(),
        input: payload::arguments(request.payload.as_ref()),
        identity: reader.client.identity(ask.call),
        request_id: request.request_id.as_str().to_owned(),
    };
    let sent = reader.client.signal_workflow_execution(ask, message).await;
    provider.nudge(of);
    match sent {
        Ok(_) => reader.get(ask, of, View::Basic).await,
        Err(error) if error.kind == ErrorKind::NotFound => {
            // It ended in between, or it is gone.
            open_execution(provider, ask, of).await?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Whether the newest events of the current run show this signal. A request id that an earlier signal
/// with another body has used is refused.
async fn was_delivered(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &SignalRequest,
) -> Result<bool> {
    let events = provider.reader.newest_events(ask, of).await?;
    let same = |event: &HistoryEvent| match &event.attributes {
        Some(Attributes::WorkflowExecutionSignaledEventAttributes(it))
            if it.request_id == request.request_id.as_str() =>
        {
            let input = payload::arguments(request.payload.as_ref());
            Some(
                it.signal_name == request.signal && data(it.input.as_ref()) == data(input.as_ref()),
            )
        }
        _ => None,
    };
    match events.iter().find_map(same) {
        Some(false) => Err(Error::request_id_reused(Verb::Signal)),
        Some(true) => Ok(true),
        None => Ok(false),
    }
}

fn data(payloads: Option<&Payloads>) -> Vec<&[u8]> {
    let payloads = payloads
        .map(|it| it.payloads.as_slice())
        .unwrap_or_default();
    payloads.iter().map(|payload| &*payload.data).collect()
}

/// Sends an update and waits for its answer, which is shown in the notes.
async fn update(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &SignalRequest,
    name: &str,
) -> Result<Observation> {
    let reader = &provider.reader;
    open_execution(provider, ask, of).await?;
    let message = UpdateWorkflowExecutionRequest {
        namespace: reader.client.namespace(),
        workflow_execution: Client::execution(of),
        first_execution_run_id: String::new(),
        wait_policy: Some(WaitPolicy {
            lifecycle_stage: UpdateWorkflowExecutionLifecycleStage::Completed as i32,
        }),
        request: Some(Request {
            meta: Some(Meta {
                update_id: request.request_id.as_str().to_owned(),
                identity: reader.client.identity(ask.call),
            }),
            input: Some(Input {
                name: name.to_owned(),
                args: payload::arguments(request.payload.as_ref()),
            }),
        }),
    };
    let answer = reader.client.update_workflow_execution(ask, message).await;
    provider.nudge(of);
    let answer = answer.map_err(|error| match error.kind {
        ErrorKind::Timeout => error.with_hint(
            "The update was sent. Repeat it with the same request id to wait for its answer.",
        ),
        _ => error,
    })?;
    let mut seen = reader.get(ask, of, View::Basic).await?;
    seen.notes.push(outcome(name, answer.outcome.as_ref())?);
    Ok(seen)
}

/// The answer of an update as a note; its failure as an error.
fn outcome(name: &str, outcome: Option<&Outcome>) -> Result<String> {
    match outcome.and_then(|outcome| outcome.value.as_ref()) {
        Some(Value::Success(answer)) => {
            let values: Vec<String> = answer.payloads.iter().map(payload::text).collect();
            Ok(format!("update `{name}` answered {}", values.join(", ")))
        }
        Some(Value::Failure(failed)) => {
            let message = format!("update `{name}` failed: {}", failure::error(failed).message);
            let error = Error::precondition(Verb::Signal, message);
            Err(error.with_reason("UPDATE_FAILED"))
        }
        None => Ok(format!("update `{name}` was accepted and has not answered")),
    }
}
