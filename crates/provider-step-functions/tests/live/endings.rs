//! More moments: time-outs, children, gates, and what is refused.

use serde_json::json;
use stateway_model::{Execution, Reason, SubState, WaitKind};
use stateway_provider_api::{
    ErrorKind, Provider, RetryFromRequest, StartDefinition, StartRequest, View,
};
use stateway_provider_step_functions::Config;

use super::rig::{Rig, emulated, ensure, told};
use crate::Outcome;

const ROLE: &str = "arn:aws:iam::000000000000:role/sfn";

pub(crate) async fn an_execution_that_takes_too_long_times_out(rig: &Rig) -> Outcome {
    let wait = json!({"Type": "Wait", "Seconds": 600, "End": true});
    let machine = json!({"StartAt": "W", "TimeoutSeconds": 2, "States": {"W": wait}});
    rig.machine(&machine).await?;
    let started = rig
        .provider
        .start(&Rig::call(), rig.start_request("{}"))
        .await;
    let id = started.map_err(told)?.id;
    rig.until_shown(&id, SubState::Waiting).await?;
    let seen = rig.until_shown(&id, SubState::Failed).await?;
    ensure(seen.native_state == "TIMED_OUT", "its native state", &seen)?;
    ensure(seen.reason == Some(Reason::TimedOut), "timed out", &seen)
}

pub(crate) async fn a_parent_waits_for_its_child_and_both_are_seen(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let retry = json!([{"ErrorEquals": ["Refused"], "IntervalSeconds": 600}]);
    let states = json!({"T": {"Type": "Task", "Resource": work, "Retry": retry, "End": true}});
    let name = format!("{}-child", rig.unique);
    let child = rig
        .service
        .create_state_machine()
        .name(&name)
        .definition(json!({"StartAt": "T", "States": states}).to_string())
        .role_arn(ROLE);
    let child = child.send().await.map_err(told)?.state_machine_arn;
    let states = json!({"Child": {
        "Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync:2",
        "Parameters": {"StateMachineArn": child, "Input": {}}, "End": true
    }});
    let id = rig.run(&states, "Child").await?;
    let task = rig.take(&work).await?;
    let waits = |seen: &Execution| seen.waits.iter().any(|wait| wait.kind == WaitKind::Child);
    let seen = rig.until(&id, "waiting for its child", waits).await?;
    ensure(
        seen.sub_state == SubState::Running,
        "a parent whose child works runs",
        &seen,
    )?;
    // The child is an execution of its own, with its own state.
    let children = rig.service.list_executions().state_machine_arn(&child);
    let children = children.send().await.map_err(told)?.executions;
    let first = children.first().ok_or("no child")?;
    let of_child = stateway_model::ExecutionId::new(&first.execution_arn)?;
    rig.fail(task, "Refused").await?;
    rig.until_shown(&of_child, SubState::BackingOff).await?;
    let seen = rig.get(&id).await?;
    ensure(
        seen.sub_state == SubState::Running,
        "the parent does not back off",
        &seen,
    )
}

pub(crate) async fn a_gate_that_pauses_is_an_error_until_someone_decides(rig: &Rig) -> Outcome {
    let (work, gate) = (rig.activity("work").await?, rig.activity("gate").await?);
    let catch = json!([{"ErrorEquals": ["States.ALL"], "Next": "Charge~paused"}]);
    let states = json!({
        "Charge": {"Type": "Task", "Resource": work, "Catch": catch, "End": true},
        "Charge~paused": {"Type": "Task", "Resource": gate, "End": true}
    });
    let id = rig.run(&states, "Charge").await?;
    let task = rig.take(&work).await?;
    rig.fail(task, "Boom").await?;
    let seen = rig.until_shown(&id, SubState::Error).await?;
    ensure(seen.reason == Some(Reason::Paused), "paused", &seen)?;
    let task = rig.take(&gate).await?;
    let taken = |seen: &Execution| {
        let mut steps = seen.steps.iter();
        steps.any(|step| step.native_state == "ActivityStarted")
    };
    let seen = rig.until(&id, "held by a controller", taken).await?;
    ensure(seen.sub_state == SubState::Error, "still paused", &seen)?;
    rig.succeed(task).await?;
    rig.until_shown(&id, SubState::Succeeded).await?;
    Ok(())
}

pub(crate) async fn a_missed_heartbeat_backs_off_like_a_timeout(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let retry = json!([{"ErrorEquals": ["States.Timeout"], "IntervalSeconds": 600}]);
    let states = json!({"T": {
        "Type": "Task", "Resource": work, "HeartbeatSeconds": 1, "TimeoutSeconds": 60,
        "Retry": retry, "End": true
    }});
    let id = rig.run(&states, "T").await?;
    // Taken, and never heard of again.
    let _task = rig.take(&work).await?;
    let seen = rig.until_shown(&id, SubState::BackingOff).await?;
    let error = seen.retry.last_error.as_ref();
    let code = error.map(|error| error.native_code.as_str());
    ensure(code == Some("States.Timeout"), "a timeout", &seen)?;
    ensure(
        seen.retry.next_attempt_time.is_some(),
        "a next attempt",
        &seen,
    )
}

pub(crate) async fn an_express_machine_says_what_it_cannot(rig: &Rig) -> Outcome {
    let config = Config {
        region: "us-east-1".to_owned(),
        endpoint: rig.endpoint.clone(),
        role: ROLE.to_owned(),
        express: true,
        ..Config::default()
    };
    let provider = emulated(&config)?;
    let source = json!({"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}});
    let apply = stateway_provider_api::ApplyDefinitionRequest {
        name: rig.unique.clone(),
        source: source.to_string(),
        labels: stateway_model::Labels::new(),
        request_id: "express-1".parse()?,
    };
    let made = provider.apply_definition(&Rig::call(), apply).await;
    made.map_err(told)?;
    let start = StartRequest {
        definition: StartDefinition::native(rig.unique.clone()),
        ..rig.start_request("{}")
    };
    let started = provider.start(&Rig::call(), start).await.map_err(told)?;
    let read = provider.get(&Rig::call(), &started.id, View::Basic).await;
    let refused = read.err().map(|error| error.reason().to_owned());
    ensure(
        refused.as_deref() == Some("CAPABILITY_NOT_SUPPORTED"),
        "it cannot be read",
        &refused,
    )
}

pub(crate) async fn what_is_still_open_cannot_be_redriven(rig: &Rig) -> Outcome {
    let states = json!({"W": {"Type": "Wait", "Seconds": 600, "End": true}});
    let id = rig.run(&states, "W").await?;
    rig.until_shown(&id, SubState::Waiting).await?;
    let request = RetryFromRequest {
        id: id.clone(),
        step: String::new(),
        input: None,
        feedback: String::new(),
        from_start: false,
        request_id: "redrive-1".parse()?,
        execution_id: None,
    };
    let refused = rig.provider.retry_from(&Rig::call(), request).await;
    let refused = refused
        .err()
        .map(|error| (error.kind, error.reason().to_owned()));
    ensure(
        refused == Some((ErrorKind::Unsupported, "NOT_REDRIVABLE".to_owned())),
        "refused with the reason",
        &refused,
    )
}
