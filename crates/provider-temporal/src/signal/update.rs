//! Updates. The server answers a repeated one with the first answer, also after the end of the run.

use std::time::{Duration, Instant};

use stateway_provider_api::{Error, ErrorKind, Observation, Result, SignalRequest, Verb};

use super::{MOST_TRIES, moves_on};
use crate::api::enums::v1::UpdateWorkflowExecutionLifecycleStage as Stage;
use crate::api::update::v1::outcome::Value;
use crate::api::update::v1::{Input, Meta, Outcome, Request, WaitPolicy};
use crate::api::workflowservice::v1::{
    UpdateWorkflowExecutionRequest, UpdateWorkflowExecutionResponse,
};
use crate::client::{Ask, Client};
use crate::id::WorkflowRef;
use crate::reader::info;
use crate::request::update_body;
use crate::response::{is_closed, run_id};
use crate::{TemporalProvider, failure, payload, steer};

/// What is left of the call for the observation after an update that does not answer.
const RESERVE: Duration = Duration::from_secs(1);
/// The shortest time between two requests for an answer. The server itself waits for about 20 seconds.
const PACE: Duration = Duration::from_millis(200);

/// Sends an update and waits for its answer, which is shown in the notes.
pub(super) async fn update(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &SignalRequest,
    name: &str,
) -> Result<Observation> {
    let reader = &provider.reader;
    let args = payload::arguments(request.payload.as_ref());
    let body = update_body(name, args.as_ref());
    for _ in 0..MOST_TRIES {
        let described = reader.describe(ask, of).await?;
        let current = info(ask.verb, &described)?;
        let id = request.request_id.as_str();
        let earlier = reader.earlier(ask, of, current, id, body).await?;
        let was_accepted = earlier.is_some();
        if !was_accepted && is_closed(current) {
            return Err(steer::has_ended(ask.verb));
        }
        let run = earlier.unwrap_or_else(|| of.run(run_id(current)));
        let message = UpdateWorkflowExecutionRequest {
            namespace: reader.client.namespace(),
            workflow_execution: Client::execution(&run),
            first_execution_run_id: String::new(),
            wait_policy: Some(WaitPolicy {
                lifecycle_stage: Stage::Completed as i32,
            }),
            request: Some(Request {
                meta: Some(Meta {
                    update_id: id.to_owned(),
                    identity: reader.client.identity(ask.call),
                }),
                input: Some(Input {
                    name: name.to_owned(),
                    args: args.clone(),
                }),
            }),
        };
        let answer = answer(provider, ask, message).await;
        provider.nudge(of);
        match answer {
            Ok(mut answer) => {
                if let (Some(codec), Some(outcome)) = (&reader.codec, &mut answer.outcome) {
                    codec.decode_outcome(ask.call, outcome).await;
                }
                let note = note(name, &answer)?;
                let mut seen = reader.get_after_write(ask, of).await?;
                seen.notes.push(note);
                return Ok(seen);
            }
            Err(error) if error.kind == ErrorKind::NotFound && was_accepted => {
                let message = format!("the run ended before update `{name}` answered");
                let error = Error::precondition(Verb::Signal, message);
                return Err(error.with_reason("UPDATE_FAILED"));
            }
            // The run ended in between; another one may continue.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) if error.kind == ErrorKind::Timeout => {
                return Err(error.with_hint(
                    "The update was sent. Repeat it with the same request id to wait for its answer.",
                ));
            }
            Err(error) => return Err(error),
        }
    }
    Err(moves_on(ask))
}

/// The answer of the workflow. The server answers without one after its own patience, so the request is repeated
/// until the call has no more time.
async fn answer(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    message: UpdateWorkflowExecutionRequest,
) -> Result<UpdateWorkflowExecutionResponse> {
    let client = &provider.reader.client;
    loop {
        let sent = Instant::now();
        let answer = client
            .update_workflow_execution(ask, message.clone())
            .await?;
        let waited = sent.elapsed();
        if answer.outcome.is_some() || ask.call.remaining() < waited + RESERVE {
            return Ok(answer);
        }
        tokio::time::sleep(PACE.saturating_sub(waited)).await;
    }
}

/// The answer of an update as a note; its failure as an error.
fn note(name: &str, answer: &UpdateWorkflowExecutionResponse) -> Result<String> {
    match outcome(answer.outcome.as_ref()) {
        Some(Value::Success(answer)) => {
            let values: Vec<String> = answer.payloads.iter().map(payload::text).collect();
            Ok(format!("update `{name}` answered {}", values.join(", ")))
        }
        Some(Value::Failure(failed)) => {
            let message = format!("update `{name}` failed: {}", failure::error(failed).message);
            let error = Error::precondition(Verb::Signal, message);
            Err(error.with_reason("UPDATE_FAILED"))
        }
        None if answer.stage() == Stage::Accepted => {
            Ok(format!("update `{name}` was accepted and has not answered"))
        }
        None => Ok(format!(
            "update `{name}` was sent, and no worker has accepted it yet"
        )),
    }
}

fn outcome(outcome: Option<&Outcome>) -> Option<&Value> {
    outcome?.value.as_ref()
}
