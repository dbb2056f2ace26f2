//! Activities that people answer, and tasks that are denied.

use std::time::Duration;

use serde_json::{Value, json};
use stateway_model::{ExecutionId, Payload, Reason, SubState, WaitKind};
use stateway_provider_api::{Error, ErrorKind, Observation, Provider, SignalRequest, StartRequest};
use stateway_provider_step_functions::{Config, StepFunctionsProvider};

use super::rig::{Rig, emulated, ensure, told};
use crate::Outcome;

fn provider(rig: &Rig, activity: &str) -> Result<StepFunctionsProvider, libtest_mimic::Failed> {
    let config = Config {
        region: "us-east-1".to_owned(),
        endpoint: rig.endpoint.clone(),
        activities: vec![activity.to_owned()],
        heartbeat_seconds: 1,
        ..Config::default()
    };
    Ok(emulated(&config)?)
}

async fn signal(
    provider: &StepFunctionsProvider,
    id: &ExecutionId,
    name: &str,
    body: &Value,
) -> Result<Observation, Error> {
    let request = SignalRequest {
        id: id.clone(),
        signal: name.to_owned(),
        payload: Some(Payload::json(body.to_string())),
        request_id: "signal-1".parse().expect("a request id"),
    };
    provider.signal(&Rig::call(), request).await
}

/// A state whose tasks say whose they are, and lapse when nobody keeps them alive.
fn approve(activity: &str) -> Value {
    let address = json!({"execution.$": "$$.Execution.Id", "state.$": "$$.State.Name"});
    json!({
        "Type": "Task", "Resource": activity, "HeartbeatSeconds": 3, "End": true,
        "Parameters": {"amount.$": "$.amount", "stateway": address}
    })
}

pub(crate) async fn an_activity_for_people_is_answered_by_a_signal(rig: &Rig) -> Outcome {
    let people = rig.activity("people").await?;
    let provider = provider(rig, &people)?;
    let states = json!({"StartAt": "Approve", "States": {"Approve": approve(&people)}});
    rig.machine(&states).await?;
    let mut ids = Vec::new();
    for name in ["first", "second", "third"] {
        let request = StartRequest {
            request_id: name.parse()?,
            ..rig.start_request("{\"amount\":7}")
        };
        ids.push(
            provider
                .start(&Rig::call(), request)
                .await
                .map_err(told)?
                .id,
        );
    }
    // Who does not know that people answer it shows a task in a queue.
    let queued = |seen: &stateway_model::Execution| {
        let mut waits = seen.waits.iter();
        waits.any(|wait| wait.kind == WaitKind::Capacity)
    };
    rig.until(&ids[2], "queued", queued).await?;
    let refused = signal(&rig.provider, &ids[2], "Approve", &json!({})).await;
    let refused = refused
        .err()
        .map(|error| (error.kind, error.reason().to_owned()));
    let expected = (
        ErrorKind::Unsupported,
        "ACTIVITY_NOT_ADDRESSABLE".to_owned(),
    );
    ensure(refused == Some(expected), "no opt-in", &refused)?;
    let body = json!({"by": "ada"});
    let answered = signal(&provider, &ids[2], "Approve", &body).await;
    answered.map_err(told)?;
    let seen = rig.until_shown(&ids[2], SubState::Succeeded).await?;
    let output = seen.output.as_ref().map(|output| output.data.clone());
    let output: Option<Value> = output.and_then(|data| serde_json::from_slice(&data).ok());
    ensure(
        output == Some(body),
        "its output is the signal's body",
        &seen,
    )?;
    // The others were taken on the way. They live on beyond their heartbeat.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for id in &ids[..2] {
        let denied = json!({"error": "TooMuch", "cause": "over the limit"});
        let denied = signal(&provider, id, "Approve:fail", &denied).await;
        denied.map_err(told)?;
        let seen = rig.until_shown(id, SubState::Failed).await?;
        let error = seen.last_error.as_ref();
        let error = error.map(|error| (error.native_code.as_str(), error.message.as_str()));
        ensure(
            error == Some(("TooMuch", "over the limit")),
            "denied",
            &seen,
        )?;
    }
    Ok(())
}

pub(crate) async fn a_task_whose_gateway_is_gone_is_handed_out_again(rig: &Rig) -> Outcome {
    let people = rig.activity("people").await?;
    let mut state = approve(&people);
    state["Retry"] = json!([{"ErrorEquals": ["States.Timeout"], "IntervalSeconds": 1}]);
    rig.machine(&json!({"StartAt": "Approve", "States": {"Approve": state}}))
        .await?;
    let mut ids = Vec::new();
    let gone = provider(rig, &people)?;
    for name in ["first", "second"] {
        let request = StartRequest {
            request_id: name.parse()?,
            ..rig.start_request("{\"amount\":7}")
        };
        ids.push(gone.start(&Rig::call(), request).await.map_err(told)?.id);
    }
    let waits = |seen: &stateway_model::Execution| !seen.waits.is_empty();
    rig.until(&ids[1], "queued", waits).await?;
    let answered = signal(&gone, &ids[1], "Approve", &json!({})).await;
    answered.map_err(told)?;
    drop(gone);
    let next = provider(rig, &people)?;
    let taken = signal(&next, &ids[0], "Approve", &json!({})).await;
    let taken = taken.err().map(|error| error.reason().to_owned());
    ensure(
        taken.as_deref() == Some("TASK_TAKEN"),
        "the gateway that is gone has it",
        &taken,
    )?;
    let second = |seen: &stateway_model::Execution| {
        seen.steps
            .iter()
            .any(|step| step.native_state == "ActivityScheduled")
            && seen.retry.attempt == 2
    };
    rig.until(&ids[0], "handed out again", second).await?;
    let answered = signal(&next, &ids[0], "Approve", &json!({})).await;
    answered.map_err(told)?;
    rig.until_shown(&ids[0], SubState::Succeeded).await?;
    Ok(())
}

pub(crate) async fn a_token_is_denied_by_a_signal(rig: &Rig) -> Outcome {
    let quiet = json!({"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}});
    let child = rig
        .service
        .create_state_machine()
        .name(format!("{}-child", rig.unique))
        .definition(quiet.to_string())
        .role_arn("arn:aws:iam::000000000000:role/sfn");
    let child = child.send().await.map_err(told)?.state_machine_arn;
    let states = json!({
        "Approve": {
            "Type": "Task", "Resource": "arn:aws:states:::states:startExecution.waitForTaskToken",
            "Parameters": {"StateMachineArn": child, "Input": {"token.$": "$$.Task.Token"}},
            "Catch": [{"ErrorEquals": ["TooMuch"], "Next": "Undo"}], "End": true
        },
        "Undo": {"Type": "Wait", "Seconds": 600, "End": true}
    });
    let id = rig.run(&states, "Approve").await?;
    let awaits = |seen: &stateway_model::Execution| seen.reason == Some(Reason::AwaitingInput);
    rig.until(&id, "waiting for its token", awaits).await?;
    let denied = json!({"error": "TooMuch"});
    signal(&rig.provider, &id, "Approve:fail", &denied)
        .await
        .map_err(told)?;
    // The definition catches it, so that the execution goes on elsewhere.
    let undoes =
        |seen: &stateway_model::Execution| seen.steps.iter().any(|step| step.name == "Undo");
    rig.until(&id, "undoing it", undoes).await?;
    Ok(())
}
