//! One execution through its states, and what an operator does to it.

use serde_json::json;
use stateway_model::{ExecutionId, Payload, Reason, SubState, WaitKind};
use stateway_provider_api::{
    CancelMode, ErrorKind, EventOrder, HistoryRequest, PauseRequest, Provider, ResumeRequest,
    RetryFromRequest, RetryNowRequest, SignalRequest, View,
};

use crate::lab::{NOBODY, activity};
use crate::rig::{Rig, call, execution_id};

fn retry_now(rig: &Rig, id: &ExecutionId) -> RetryNowRequest {
    RetryNowRequest {
        id: id.clone(),
        step: String::new(),
        request_id: rig.request_id(),
    }
}

pub(crate) async fn a_retrying_activity_counts_down_and_is_retried_now(rig: &Rig) {
    let name = rig.id("pay");
    rig.lab.tell(&name, "fail");
    let retry = json!({"initial": 600, "maximum": 5});
    let charge = json!({"type": "obey", "input": {"name": name}, "retry": retry});
    let id = rig.start(&name, json!([activity(charge)])).await;
    let resting = rig.until_shown(&id, SubState::BackingOff).await;
    assert_eq!(
        (resting.retry.attempt, resting.retry.max_attempts),
        (1, Some(5))
    );
    let next = resting.retry.next_attempt_time.unwrap();
    let left = next.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((500..=600).contains(&left), "{left} s until {next}");
    let error = resting.retry.last_error.unwrap();
    assert!(
        error.message.contains("was told to fail"),
        "{}",
        error.message
    );
    assert_eq!(error.step, "charge");
    assert_eq!(resting.steps.len(), 1);
    assert_eq!(resting.steps[0].sub_state, SubState::BackingOff);

    rig.lab.tell(&name, "go");
    rig.provider
        .retry_now(&call(), retry_now(rig, &id))
        .await
        .unwrap();
    let done = rig.until_shown(&id, SubState::Succeeded).await;
    assert_eq!(done.steps[0].sub_state, SubState::Succeeded);
    let refused = rig.provider.retry_now(&call(), retry_now(rig, &id)).await;
    assert_eq!(refused.unwrap_err().reason(), "ALREADY_FINISHED");
}

pub(crate) async fn a_signal_is_delivered_once(rig: &Rig) {
    let steps = json!([{"signal": "go"}, {"signal": "go"}, {"return": "done"}]);
    let id = rig.start(&rig.id("signal"), steps).await;
    rig.until_shown(&id, SubState::Waiting).await;
    let request = SignalRequest {
        id: id.clone(),
        signal: "go".to_owned(),
        payload: Some(Payload::json("1")),
        request_id: rig.request_id(),
    };
    for _ in 0..3 {
        rig.provider.signal(&call(), request.clone()).await.unwrap();
    }
    let events = rig.at.events(id.as_str());
    let is_signal =
        |event: &&serde_json::Value| event["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED";
    assert_eq!(events.iter().filter(is_signal).count(), 1);
    rig.until_shown(&id, SubState::Waiting).await;
    let other = SignalRequest {
        signal: "other".to_owned(),
        ..request
    };
    let refused = rig.provider.signal(&call(), other).await.unwrap_err();
    assert_eq!(refused.reason(), "REQUEST_ID_REUSED");
    rig.signal(&id, "go", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
    let late = rig.signal(&id, "go", None).await.unwrap_err();
    assert_eq!(late.reason(), "ALREADY_FINISHED");
    let nobody = rig
        .signal(&execution_id("nobody"), "go", None)
        .await
        .unwrap_err();
    assert_eq!(nobody.kind, ErrorKind::NotFound);
}

pub(crate) async fn an_update_answers(rig: &Rig) {
    let id = rig
        .start(&rig.id("update"), json!([{"signal": "go"}]))
        .await;
    rig.until_shown(&id, SubState::Waiting).await;
    let update = |value: serde_json::Value| Some(Payload::json(value.to_string()));
    let answered = rig
        .signal(&id, "update:set", update(json!({"limit": 3})))
        .await
        .unwrap();
    let notes = answered.notes.join("\n");
    assert!(notes.contains("limit"), "{notes}");
    let refused = rig
        .signal(&id, "update:set", update(json!({"refuse": true})))
        .await;
    let refused = refused.unwrap_err();
    assert!(
        refused.to_string().contains("the value was refused"),
        "{refused}"
    );
    rig.cancel(&id, CancelMode::Kill).await.unwrap();
}

pub(crate) async fn a_cancelled_workflow_cleans_up_first(rig: &Rig) {
    let name = rig.id("cancel");
    let script = json!({
        "steps": [{"signal": "go"}],
        "on_cancel": [{"activity": {"id": "refund", "type": "obey", "input": {"name": name}}}],
    });
    rig.at
        .start_with(&name, json!([]), &json!({"input": [script]}));
    let id = execution_id(&name);
    rig.until_shown(&id, SubState::Waiting).await;
    rig.cancel(&id, CancelMode::Graceful).await.unwrap();
    let cleaning = rig
        .until(&id, "cleaning up", |seen| {
            seen.steps.iter().any(|step| step.name == "refund")
        })
        .await;
    assert_eq!(cleaning.sub_state, SubState::Running);
    rig.lab.tell(&name, "go");
    let done = rig.until_shown(&id, SubState::Failed).await;
    assert_eq!(done.reason, Some(Reason::Cancelled));
}

fn pause(rig: &Rig, id: &ExecutionId) -> PauseRequest {
    PauseRequest {
        id: id.clone(),
        comment: "live test".to_owned(),
        request_id: rig.request_id(),
    }
}

fn resume(rig: &Rig, id: &ExecutionId) -> ResumeRequest {
    ResumeRequest {
        id: id.clone(),
        request_id: rig.request_id(),
    }
}

pub(crate) async fn a_paused_workflow_waits_and_resumes(rig: &Rig) {
    let id = rig
        .start(&rig.id("pause"), json!([{"signal": "go"}, {"return": 1}]))
        .await;
    rig.until_shown(&id, SubState::Waiting).await;
    rig.provider.pause(&call(), pause(rig, &id)).await.unwrap();
    let paused = rig.get(&id).await;
    assert_eq!(
        (paused.sub_state, paused.reason),
        (SubState::Waiting, Some(Reason::Paused))
    );
    rig.signal(&id, "go", None).await.unwrap();
    let paused = rig.get(&id).await;
    assert_eq!(paused.reason, Some(Reason::Paused));
    rig.provider
        .resume(&call(), resume(rig, &id))
        .await
        .unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
}

pub(crate) async fn a_paused_activity_waits_and_resumes(rig: &Rig) {
    let name = rig.id("hold");
    rig.lab.tell(&name, "fail");
    let charge = json!({"type": "obey", "input": {"name": name}, "retry": {"initial": 600}});
    let id = rig.start(&name, json!([activity(charge)])).await;
    rig.until_shown(&id, SubState::BackingOff).await;
    rig.at.pause_activity(&name, "charge");
    let paused = rig.until_shown(&id, SubState::Waiting).await;
    assert_eq!(paused.reason, Some(Reason::Paused));
    assert_eq!(paused.retry.next_attempt_time, None);
    rig.lab.tell(&name, "go");
    rig.provider
        .resume(&call(), resume(rig, &id))
        .await
        .unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
}

pub(crate) async fn a_failing_workflow_task_is_an_error_with_its_message(rig: &Rig) {
    let name = rig.id("broken");
    rig.at.start_with(
        &name,
        json!([{"break": name}, {"return": 1}]),
        &json!({"workflowTaskTimeout": "1s"}),
    );
    let id = execution_id(&name);
    let stuck = rig.until_shown(&id, SubState::Error).await;
    assert_eq!(stuck.reason, Some(Reason::Stuck));
    let error = stuck.last_error.unwrap();
    assert!(
        error.message.contains("the workflow code has a defect"),
        "{}",
        error.message
    );
    rig.lab.tell(&name, "go");
    rig.until_shown(&id, SubState::Succeeded).await;
}

pub(crate) async fn changed_workflow_code_is_an_error(rig: &Rig) {
    // A worker without a cache replays the history for every task, and notices the change.
    let namespace = "replayed";
    let name = rig.id("changed");
    let lab = crate::lab::Lab::start(&rig.peers, &[namespace.to_owned()]);
    lab.worker.begin_with(namespace, 0);
    let at = lab.namespace(namespace);
    at.start(&name, json!([{"change": name}, {"signal": "go"}]));
    at.until_event(&name, "TIMER_FIRED");
    at.until(&name, "idle", |shown| {
        shown["pendingWorkflowTask"].is_null()
    });
    lab.tell(&name, "go");
    at.signal(&name, "nudge");
    at.until_event(&name, "WORKFLOW_TASK_FAILED");
    let provider = crate::rig::provider(&crate::rig::config(lab.server.address(), namespace));
    let view = stateway_provider_api::View::Full;
    let seen = provider
        .get(&call(), &execution_id(&name), view)
        .await
        .unwrap();
    let stuck = crate::rig::shown(seen);
    assert_eq!(
        (stuck.sub_state, stuck.reason),
        (SubState::Error, Some(Reason::Stuck))
    );
    let error = stuck.last_error.unwrap();
    assert!(!error.message.is_empty());
}

pub(crate) async fn without_a_worker_it_waits_for_capacity(rig: &Rig) {
    let name = rig.id("alone");
    rig.at
        .start_with(&name, json!([]), &json!({"taskQueue": {"name": NOBODY}}));
    let id = execution_id(&name);
    let queued = rig
        .until(&id, "waiting for capacity", |seen| {
            seen.waits
                .iter()
                .any(|wait| wait.kind == WaitKind::Capacity)
        })
        .await;
    assert_eq!(
        (queued.sub_state, queued.reason),
        (SubState::Running, Some(Reason::NoWorker))
    );
    let wait = queued
        .waits
        .iter()
        .find(|wait| wait.kind == WaitKind::Capacity)
        .unwrap();
    assert!(wait.detail.contains(NOBODY), "{wait:?}");
    let busy = rig.id("queued-activity");
    let id = rig
        .start(&busy, json!([activity(json!({"queue": NOBODY}))]))
        .await;
    let queued = rig
        .until(&id, "an activity waiting for capacity", |seen| {
            seen.waits
                .iter()
                .any(|wait| wait.kind == WaitKind::Capacity)
        })
        .await;
    assert_eq!(
        (queued.sub_state, queued.reason),
        (SubState::Running, Some(Reason::NoWorker))
    );
    for name in [&name, &busy] {
        rig.cancel(&execution_id(name), CancelMode::Kill)
            .await
            .unwrap();
    }
}

pub(crate) async fn what_failed_is_done_again_from_its_step(rig: &Rig) {
    let name = rig.id("again");
    rig.lab.tell(&name, "fail");
    let second =
        json!({"id": "second", "type": "obey", "input": {"name": name}, "retry": {"maximum": 1}});
    let steps = json!([{"activity": {"id": "first"}}, {"activity": second}, {"return": "ok"}]);
    let id = rig.start(&name, steps).await;
    let failed = rig.until_shown(&id, SubState::Failed).await;
    let error = failed.last_error.unwrap();
    assert!(
        error.message.contains("was told to fail"),
        "{}",
        error.message
    );
    rig.lab.tell(&name, "go");
    let request = RetryFromRequest {
        id: id.clone(),
        step: String::new(),
        input: None,
        feedback: String::new(),
        from_start: false,
        request_id: rig.request_id(),
        execution_id: None,
    };
    let again = rig
        .provider
        .retry_from(&call(), request.clone())
        .await
        .unwrap();
    assert_eq!(again.id, id);
    let repeated = rig.provider.retry_from(&call(), request).await.unwrap();
    // The first note names the run: a second reset would have made another one.
    assert_eq!(repeated.notes.first(), again.notes.first());
    let done = rig.until_shown(&id, SubState::Succeeded).await;
    assert!(done.output.is_some());
    // The completed step before the reset point is not repeated.
    let events = rig.at.events(&name);
    let first = |event: &&serde_json::Value| {
        event["activityTaskScheduledEventAttributes"]["activityId"] == "first"
    };
    assert_eq!(events.iter().filter(first).count(), 1);
}

pub(crate) async fn a_retry_from_goes_back_to_a_chosen_event(rig: &Rig) {
    let name = rig.id("chosen");
    let steps = json!([
        {"activity": {"id": "first"}}, {"activity": {"id": "second"}}, {"signal": "end"},
    ]);
    let id = rig.start(&name, steps).await;
    let retried = |number: u64| RetryFromRequest {
        id: id.clone(),
        step: format!("event:{number}"),
        input: None,
        feedback: String::new(),
        from_start: false,
        request_id: rig.request_id(),
        execution_id: None,
    };
    let until_waiting = || rig.until_shown(&id, SubState::Waiting);
    until_waiting().await;
    let completed = event_of(rig, &id, "ACTIVITY_TASK_COMPLETED", "first").await;
    let scheduled = event_of(rig, &id, "ACTIVITY_TASK_SCHEDULED", "first").await;
    let refused = rig.provider.retry_from(&call(), retried(9_999)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason(), "STEP_NOT_FOUND");
    assert!(
        refused.to_string().contains("the events 1 to "),
        "{refused}"
    );
    // What the workflow decided after the first activity is decided again.
    let request = retried(completed);
    rig.provider.retry_from(&call(), request).await.unwrap();
    until_waiting().await;
    let after_reset = scheduled_after_reset(rig, &name);
    assert_eq!(after_reset, ["second"]);
    // The number is one of the run before this one: the server resets that run.
    let request = retried(scheduled);
    rig.provider.retry_from(&call(), request).await.unwrap();
    until_waiting().await;
    let after_reset = scheduled_after_reset(rig, &name);
    assert_eq!(after_reset, ["first", "second"]);
    rig.signal(&id, "end", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
}

/// The number that the history has for an event of a step.
async fn event_of(rig: &Rig, id: &ExecutionId, kind: &str, step: &str) -> u64 {
    let request = HistoryRequest {
        id: id.clone(),
        page_size: 100,
        cursor: None,
        view: View::Basic,
        order: EventOrder::OldestFirst,
    };
    let history = rig.provider.history(&call(), request).await.unwrap();
    let mut events = history.events.iter();
    let found = events.find(|event| event.native_type == kind && event.step == step);
    found.unwrap().sequence
}

/// The activities that the current run has scheduled since the reset that made it.
fn scheduled_after_reset(rig: &Rig, name: &str) -> Vec<String> {
    let events = rig.at.events(name);
    let is_reset = |event: &serde_json::Value| {
        event["workflowTaskFailedEventAttributes"]["cause"]
            == "WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW"
    };
    let reset = events.iter().position(is_reset).unwrap();
    let scheduled = events[reset..]
        .iter()
        .filter_map(|event| event["activityTaskScheduledEventAttributes"]["activityId"].as_str());
    scheduled.map(str::to_owned).collect()
}
