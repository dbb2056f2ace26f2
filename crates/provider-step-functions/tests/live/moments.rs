//! Executions at each moment of their lives.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateway_model::{Reason, RetryBasis, SubState, WaitKind};
use stateway_provider_api::filter::{DefinitionPattern, Hints};
use stateway_provider_api::{
    CancelMode, CancelRequest, CompensationChoice, ErrorKind, EventOrder, HistoryRequest,
    ListRequest, Provider, RetryFromRequest, SignalRequest, StartRequest, View,
};

use super::rig::{Rig, ensure, told};
use crate::Outcome;

pub(crate) async fn a_task_is_queued_runs_backs_off_and_succeeds(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let retry = json!([{"ErrorEquals": ["Refused"], "IntervalSeconds": 2, "MaxAttempts": 3}]);
    let states = json!({"Charge": {"Type": "Task", "Resource": work, "Retry": retry, "End": true}});
    let id = rig.run(&states, "Charge").await?;
    let queued = |seen: &stateway_model::Execution| {
        seen.waits
            .iter()
            .any(|wait| wait.kind == WaitKind::Capacity)
    };
    let seen = rig.until(&id, "queued", queued).await?;
    ensure(
        seen.sub_state == SubState::Running,
        "queued is running",
        &seen,
    )?;
    let task = rig.take(&work).await?;
    let taken = |seen: &stateway_model::Execution| seen.waits.is_empty() && !seen.steps.is_empty();
    let seen = rig.until(&id, "taken by a worker", taken).await?;
    ensure(seen.retry.attempt == 1, "the first attempt", &seen)?;
    rig.fail(task, "Refused").await?;
    let seen = rig.until_shown(&id, SubState::BackingOff).await?;
    let retry = &seen.retry;
    let right =
        (retry.attempt, retry.max_attempts, retry.basis) == (1, Some(4), RetryBasis::Inferred);
    ensure(right, "attempt 1 of 4, inferred", &seen)?;
    let error = retry
        .last_error
        .as_ref()
        .map(|error| error.native_code.as_str());
    ensure(error == Some("Refused"), "the last error", &seen)?;
    ensure(retry.next_attempt_time.is_some(), "a next attempt", &seen)?;
    let task = rig.take(&work).await?;
    let second = |seen: &stateway_model::Execution| seen.retry.attempt == 2;
    let seen = rig.until(&id, "in its second attempt", second).await?;
    ensure(seen.sub_state == SubState::Running, "running again", &seen)?;
    rig.succeed(task).await?;
    // The emulator tells of the end before it tells of the output.
    let done = |seen: &stateway_model::Execution| {
        seen.sub_state == SubState::Succeeded && seen.output.is_some()
    };
    let seen = rig.until(&id, "done with an output", done).await?;
    ensure(seen.steps.is_empty(), "no open step", &seen)
}

pub(crate) async fn the_next_attempt_comes_when_it_was_promised(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let retry = json!([{
        "ErrorEquals": ["States.ALL"], "IntervalSeconds": 2, "BackoffRate": 1.5, "MaxAttempts": 2
    }]);
    let states = json!({"T": {"Type": "Task", "Resource": work, "Retry": retry, "End": true}});
    let id = rig.run(&states, "T").await?;
    for attempt in 1..=2 {
        let task = rig.take(&work).await?;
        rig.fail(task, "Boom").await?;
        let seen = rig.until_shown(&id, SubState::BackingOff).await?;
        ensure(
            seen.retry.attempt == attempt,
            "the attempt that failed",
            &seen,
        )?;
        let promised = seen.retry.next_attempt_time;
        let promised = promised.ok_or("no time is promised")?;
        let goes_on = |seen: &stateway_model::Execution| {
            seen.steps
                .iter()
                .any(|step| step.native_state == "ActivityScheduled")
        };
        let seen = rig.until(&id, "tried again", goes_on).await?;
        let began = seen.waits.first().and_then(|wait| wait.since);
        let began = began.ok_or("no beginning is shown")?;
        let off = (began.duration_since(promised)).abs();
        ensure(
            off < Duration::from_secs(1).try_into()?,
            "it comes as promised",
            &(promised, began),
        )?;
    }
    Ok(())
}

pub(crate) async fn retries_that_are_used_up_end_it_and_a_redrive_goes_on(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let retry = json!([{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 1}]);
    let states = json!({"T": {"Type": "Task", "Resource": work, "Retry": retry, "End": true}});
    let id = rig.run(&states, "T").await?;
    for _ in 0..2 {
        let task = rig.take(&work).await?;
        rig.fail(task, "Boom").await?;
    }
    let seen = rig.until_shown(&id, SubState::Failed).await?;
    ensure(
        seen.reason == Some(Reason::Redrivable),
        "it can be redriven",
        &seen,
    )?;
    let error = seen
        .last_error
        .as_ref()
        .map(|error| error.native_code.as_str());
    ensure(error == Some("Boom"), "the error", &seen)?;
    let request = RetryFromRequest {
        id: id.clone(),
        step: "T".to_owned(),
        input: None,
        feedback: String::new(),
        from_start: false,
        request_id: "redrive-1".parse()?,
        execution_id: None,
    };
    rig.provider
        .retry_from(&Rig::call(), request)
        .await
        .map_err(told)?;
    let task = rig.take(&work).await?;
    let running = |seen: &stateway_model::Execution| {
        seen.sub_state == SubState::Running && seen.retry.attempt == 1
    };
    rig.until(&id, "running, its attempts counted anew", running)
        .await?;
    rig.succeed(task).await?;
    rig.until_shown(&id, SubState::Succeeded).await?;
    Ok(())
}

pub(crate) async fn a_wait_shows_its_deadline_and_a_cancel_ends_it(rig: &Rig) -> Outcome {
    let states = json!({"Cool": {"Type": "Wait", "Seconds": 3_600, "End": true}});
    let id = rig.run(&states, "Cool").await?;
    let seen = rig.until_shown(&id, SubState::Waiting).await?;
    ensure(seen.reason == Some(Reason::AwaitingTimer), "a timer", &seen)?;
    let deadline = seen.waits.first().and_then(|wait| wait.deadline);
    let left = deadline
        .ok_or("no deadline")?
        .duration_since(Timestamp::now());
    ensure((3_500..=3_600).contains(&left.as_secs()), "an hour", &left)?;
    let cancel = |mode| CancelRequest {
        id: id.clone(),
        mode,
        compensation: CompensationChoice::AsDefined,
        comment: "ordered twice".to_owned(),
        request_id: "cancel-1".parse().expect("a request id"),
    };
    for mode in [CancelMode::Graceful, CancelMode::Kill] {
        rig.provider
            .cancel(&Rig::call(), cancel(mode))
            .await
            .map_err(told)?;
    }
    let seen = rig.until_shown(&id, SubState::Failed).await?;
    ensure(seen.reason == Some(Reason::Cancelled), "cancelled", &seen)?;
    let cause = seen.last_error.as_ref().map(|error| error.message.as_str());
    ensure(cause == Some("ordered twice"), "the cause", &seen)
}

pub(crate) async fn a_token_is_answered_by_a_signal(rig: &Rig) -> Outcome {
    let quiet = json!({"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}});
    let child = rig
        .service
        .create_state_machine()
        .name(format!("{}-child", rig.unique))
        .definition(quiet.to_string())
        .role_arn("arn:aws:iam::000000000000:role/sfn");
    let child = child.send().await.map_err(told)?.state_machine_arn;
    let states = json!({"Approve": {
        "Type": "Task", "Resource": "arn:aws:states:::states:startExecution.waitForTaskToken",
        "Parameters": {"StateMachineArn": child, "Input": {"token.$": "$$.Task.Token"}},
        "End": true
    }});
    let id = rig.run(&states, "Approve").await?;
    let seen = rig.until_shown(&id, SubState::Waiting).await?;
    let waits = |seen: &stateway_model::Execution| {
        let mut waits = seen.waits.iter();
        waits.any(|wait| wait.kind == WaitKind::Signal && wait.name == "Approve")
    };
    ensure(waits(&seen), "it waits for a signal", &seen)?;
    let signal = |name: &str| SignalRequest {
        id: id.clone(),
        signal: name.to_owned(),
        payload: None,
        request_id: "signal-1".parse().expect("a request id"),
    };
    let other = rig.provider.signal(&Rig::call(), signal("Other")).await;
    let refused = other.err().map(|error| error.kind);
    ensure(
        refused == Some(ErrorKind::FailedPrecondition),
        "not awaited",
        &refused,
    )?;
    rig.provider
        .signal(&Rig::call(), signal("Approve"))
        .await
        .map_err(told)?;
    rig.until_shown(&id, SubState::Succeeded).await?;
    Ok(())
}

pub(crate) async fn branches_are_seen_on_their_own(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let retry = json!([{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 600}]);
    let branches = json!([
        {"StartAt": "A", "States": {"A": {
            "Type": "Task", "Resource": work, "Retry": retry, "End": true}}},
        {"StartAt": "B", "States": {"B": {"Type": "Wait", "Seconds": 600, "End": true}}}
    ]);
    let states = json!({"P": {"Type": "Parallel", "Branches": branches, "End": true}});
    let id = rig.run(&states, "P").await?;
    let both = |seen: &stateway_model::Execution| seen.steps.len() == 2;
    let seen = rig.until(&id, "in both branches", both).await?;
    ensure(
        seen.sub_state == SubState::Running,
        "one branch runs",
        &seen,
    )?;
    let task = rig.take(&work).await?;
    rig.fail(task, "Boom").await?;
    let seen = rig.until_shown(&id, SubState::BackingOff).await?;
    let shown = |name: &str| {
        let step = seen.steps.iter().find(|step| step.name == name);
        step.map(|step| step.sub_state)
    };
    ensure(
        shown("P.A") == Some(SubState::BackingOff),
        "A backs off",
        &seen,
    )?;
    ensure(shown("P.B") == Some(SubState::Waiting), "B waits", &seen)
}

pub(crate) async fn iterations_are_seen_on_their_own(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let retry = json!([{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 600}]);
    let task = json!({"Type": "Task", "Resource": work, "Retry": retry, "End": true});
    let processor = json!({"StartAt": "T", "States": {"T": task}});
    let states = json!({
        "Items": {"Type": "Pass", "Result": [0, 1, 2], "Next": "M"},
        "M": {"Type": "Map", "ItemProcessor": processor, "End": true}
    });
    let id = rig.run(&states, "Items").await?;
    let all = |seen: &stateway_model::Execution| {
        let tasks = seen
            .steps
            .iter()
            .filter(|step| step.native_state == "ActivityScheduled");
        tasks.count() == 3
    };
    rig.until(&id, "in three iterations", all).await?;
    let first = rig.take(&work).await?;
    rig.fail(first, "Boom").await?;
    let second = rig.take(&work).await?;
    rig.succeed(second).await?;
    let settled = |seen: &stateway_model::Execution| {
        let count = |wanted| {
            seen.steps
                .iter()
                .filter(|step| step.sub_state == wanted)
                .count()
        };
        count(SubState::BackingOff) == 1 && count(SubState::Running) == 1 && seen.steps.len() == 2
    };
    let seen = rig
        .until(&id, "one backing off, one running, one over", settled)
        .await?;
    ensure(seen.sub_state == SubState::Running, "running wins", &seen)?;
    let named = seen
        .steps
        .iter()
        .all(|step| step.name.starts_with("M[") && step.name.ends_with("].T"));
    ensure(named, "named after their iterations", &seen)
}

pub(crate) async fn a_parallel_that_is_tried_again_backs_off_as_a_whole(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let branches = json!([{"StartAt": "A", "States": {"A": {
        "Type": "Task", "Resource": work, "End": true}}}]);
    let retry = json!([{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 600, "MaxAttempts": 2}]);
    let parallel = json!({"Type": "Parallel", "Branches": branches, "Retry": retry, "End": true});
    let id = rig.run(&json!({ "P": parallel }), "P").await?;
    let task = rig.take(&work).await?;
    rig.fail(task, "Boom").await?;
    let seen = rig.until_shown(&id, SubState::BackingOff).await?;
    let right = (seen.retry.attempt, seen.retry.max_attempts) == (1, Some(3));
    ensure(right, "attempt 1 of 3 of the whole", &seen)
}

pub(crate) async fn a_caught_failure_compensates_and_is_no_back_off(rig: &Rig) -> Outcome {
    let work = rig.activity("work").await?;
    let undo = rig.activity("undo").await?;
    let states = json!({
        "Charge": {"Type": "Task", "Resource": work, "End": true,
            "Retry": [{"ErrorEquals": ["Other"]}],
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Refund"}]},
        "Refund": {"Type": "Task", "Resource": undo, "Next": "Failed"},
        "Failed": {"Type": "Fail", "Error": "Refunded", "Cause": "the money is back"}
    });
    let id = rig.run(&states, "Charge").await?;
    let task = rig.take(&work).await?;
    rig.fail(task, "Boom").await?;
    let undoing = |seen: &stateway_model::Execution| {
        assert_ne!(seen.sub_state, SubState::BackingOff, "{seen:#?}");
        seen.steps.iter().any(|step| step.name == "Refund")
    };
    rig.until(&id, "undoing", undoing).await?;
    let task = rig.take(&undo).await?;
    rig.succeed(task).await?;
    let seen = rig.until_shown(&id, SubState::Failed).await?;
    let error = seen
        .last_error
        .as_ref()
        .map(|error| error.native_code.as_str());
    ensure(error == Some("Refunded"), "the Fail state's error", &seen)
}

pub(crate) async fn a_start_is_idempotent_by_its_request_id(rig: &Rig) -> Outcome {
    let states = json!({"P": {"Type": "Pass", "End": true}});
    let id = rig.run(&states, "P").await?;
    rig.until_shown(&id, SubState::Succeeded).await?;
    let again = rig
        .provider
        .start(&Rig::call(), rig.start_request("{}"))
        .await;
    ensure(again.map_err(told)?.id == id, "the same execution", &id)?;
    let other = rig
        .provider
        .start(&Rig::call(), rig.start_request("{\"n\":1}"))
        .await;
    let refused = other.err().map(|error| error.reason().to_owned());
    ensure(
        refused.as_deref() == Some("REQUEST_ID_REUSED"),
        "refused",
        &refused,
    )?;
    let named = |request: &str| StartRequest {
        execution_id: stateway_model::ExecutionId::new("named").ok(),
        request_id: request.parse().expect("a request id"),
        ..rig.start_request("{}")
    };
    let first = rig
        .provider
        .start(&Rig::call(), named("r-1"))
        .await
        .map_err(told)?;
    let again = rig
        .provider
        .start(&Rig::call(), named("r-1"))
        .await
        .map_err(told)?;
    ensure(first.id == again.id, "the same execution", &again)?;
    let other = rig.provider.start(&Rig::call(), named("r-2")).await;
    let refused = other.err().map(|error| error.reason().to_owned());
    ensure(
        refused.as_deref() == Some("EXECUTION_ALREADY_EXISTS"),
        "refused",
        &refused,
    )
}

pub(crate) async fn lists_and_histories_come_in_pages(rig: &Rig) -> Outcome {
    let states = json!({"P": {"Type": "Pass", "End": true}});
    let id = rig.run(&states, "P").await?;
    rig.until_shown(&id, SubState::Succeeded).await?;
    let (mut cursor, mut events) = (None, Vec::new());
    loop {
        let request = HistoryRequest {
            id: id.clone(),
            page_size: 2,
            cursor,
            view: View::Basic,
            order: EventOrder::OldestFirst,
        };
        let page = rig
            .provider
            .history(&Rig::call(), request)
            .await
            .map_err(told)?;
        events.extend(page.events);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let told_types: Vec<_> = events
        .iter()
        .map(|event| event.native_type.as_str())
        .collect();
    let expected = [
        "ExecutionStarted",
        "PassStateEntered",
        "PassStateExited",
        "ExecutionSucceeded",
    ];
    ensure(told_types == expected, "four events", &events)?;
    let hints = Hints {
        definition: Some(DefinitionPattern::new(&rig.unique)),
        sub_states: vec![SubState::Succeeded],
        ..Hints::none()
    };
    let request = ListRequest {
        hints,
        page_size: 10,
        cursor: None,
    };
    let page = rig
        .provider
        .list(&Rig::call(), request)
        .await
        .map_err(told)?;
    let ids: Vec<_> = page.observations.iter().map(|row| row.id.clone()).collect();
    ensure(ids == [id], "the one execution", &page)
}
