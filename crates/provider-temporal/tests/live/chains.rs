//! Executions that are more than one run, children, and executions that are gone.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stateway_model::{Event, ExecutionId, Payload, Reason, SubState, WaitKind};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{
    Call, CancelMode, ErrorKind, EventOrder, HistoryRequest, ListRequest, Observation,
    PauseRequest, Provider, PurgeRequest, RetryFromRequest, SignalRequest, StartDefinition,
    StartRequest, View,
};

use crate::lab::PATIENCE;
use crate::rig::{Rig, call, config, execution_id, provider, shown};

/// How often a list shows this execution.
async fn listed(rig: &Rig, id: &str) -> usize {
    let mut found = 0;
    let mut cursor = None;
    for _ in 0..100 {
        let request = ListRequest {
            hints: Hints::none(),
            page_size: 50,
            cursor,
        };
        let page = rig.provider.list(&call(), request).await.unwrap();
        found += page
            .observations
            .iter()
            .filter(|row| row.id.as_str() == id)
            .count();
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
    panic!("the list has no end");
}

pub(crate) async fn runs_that_continue_as_new_are_one_execution(rig: &Rig) {
    let name = rig.id("chain");
    let second = json!({"steps": [{"signal": "go"}, {"return": "second"}]});
    let first = rig.at.start(&name, json!([{"continue_as_new": second}]));
    let id = execution_id(&name);
    // A signal that the first run received would be lost with it.
    rig.at.until(&name, "in its second run", |shown| {
        shown["workflowExecutionInfo"]["execution"]["runId"] != first.as_str()
    });
    rig.until_shown(&id, SubState::Waiting).await;
    assert_eq!(listed(rig, &name).await, 1);
    let run = execution_id(&format!("{name}~run:{first}"));
    let run = shown(rig.provider.get(&call(), &run, View::Full).await.unwrap());
    assert_eq!(
        (run.sub_state, run.reason),
        (SubState::Running, Some(Reason::Superseded))
    );
    rig.signal(&id, "go", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
    assert_eq!(listed(rig, &name).await, 1);
}

pub(crate) async fn a_workflow_that_retries_itself_backs_off(rig: &Rig) {
    let name = rig.id("retry");
    let policy = json!({"retryPolicy": {"initialInterval": "600s", "maximumAttempts": 3}});
    rig.at.start_with(
        &name,
        json!([{"fail": {"message": "order rejected"}}]),
        &policy,
    );
    let id = execution_id(&name);
    let resting = rig.until_shown(&id, SubState::BackingOff).await;
    assert_eq!(resting.retry.attempt, 1);
    assert_eq!(resting.retry.max_attempts, Some(3));
    assert!(resting.retry.next_attempt_time.is_some());
    let error = resting.retry.last_error.unwrap();
    assert!(
        error.message.contains("order rejected"),
        "{}",
        error.message
    );
    assert_eq!(listed(rig, &name).await, 1);
    rig.cancel(&id, CancelMode::Kill).await.unwrap();
}

pub(crate) async fn a_child_is_an_execution_of_its_own(rig: &Rig) {
    let (name, child) = (rig.id("parent"), rig.id("child"));
    let steps = json!([{"child": {"id": child, "steps": [{"signal": "go"}]}}]);
    let id = rig.start(&name, steps).await;
    let waiting = rig.until_shown(&id, SubState::Waiting).await;
    assert_eq!(waiting.reason, Some(Reason::AwaitingChild));
    let wait = waiting
        .waits
        .iter()
        .find(|wait| wait.kind == WaitKind::Child)
        .unwrap();
    assert!(wait.name.contains(&child), "{wait:?}");
    let child = execution_id(&child);
    rig.until_shown(&child, SubState::Waiting).await;
    rig.signal(&child, "go", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
}

pub(crate) async fn a_repeated_start_is_the_same_execution(rig: &Rig) {
    let steps = json!([{"return": 1}]);
    let request = rig.start_request(&rig.id("once"), &steps);
    let id = rig
        .provider
        .start(&call(), request.clone())
        .await
        .unwrap()
        .id;
    rig.until_shown(&id, SubState::Succeeded).await;
    // Also after its end.
    let again = rig.provider.start(&call(), request.clone()).await.unwrap();
    assert_eq!((again.id, again.native.state.as_str()), (id, "COMPLETED"));
    let other = StartRequest {
        request_id: rig.request_id(),
        ..request
    };
    let refused = rig.provider.start(&call(), other).await.unwrap_err();
    assert_eq!(refused.reason(), "EXECUTION_ALREADY_EXISTS");
}

pub(crate) async fn a_deleted_execution_is_not_found(rig: &Rig) {
    let name = rig.id("gone");
    let id = rig.start(&name, json!([{"return": 1}])).await;
    rig.until_shown(&id, SubState::Succeeded).await;
    let purge = || PurgeRequest {
        id: id.clone(),
        request_id: rig.request_id(),
    };
    rig.provider.purge(&call(), purge()).await.unwrap();
    let gone = rig
        .provider
        .get(&call(), &id, View::Basic)
        .await
        .unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    assert_eq!(listed(rig, &name).await, 0);
}

pub(crate) async fn a_schedule_is_shown_and_cannot_be_started(rig: &Rig) {
    let name = rig.id("nightly");
    let workflow = json!({
        "workflowId": rig.id("scheduled"), "workflowType": {"name": "Script"},
        "taskQueue": {"name": "lab"},
    });
    let schedule = json!({
        "spec": {"interval": [{"interval": "86400s"}]},
        "action": {"startWorkflow": workflow},
    });
    let body = json!({"schedule": schedule, "requestId": name});
    rig.at.post(&format!("schedules/{name}"), &body);
    let definition = format!("schedule:{name}");
    let shown = rig
        .provider
        .definition(&call(), &definition, None)
        .await
        .unwrap();
    assert!(shown.source.contains("Script"), "{}", shown.source);
    let request = StartRequest {
        definition: StartDefinition::native(definition),
        ..rig.start_request(&rig.id("by-schedule"), &json!([]))
    };
    rig.provider.start(&call(), request).await.unwrap_err();
}

pub(crate) async fn a_signal_does_not_hide_why_a_run_has_not_begun(rig: &Rig) {
    let retry = json!({"retryPolicy": {"initialInterval": "600s", "maximumAttempts": 3}});
    let delay = json!({"workflowStartDelay": "600s"});
    let cron = json!({"cronSchedule": "0 3 1 1 *"});
    for (name, fields, sub_state, reason) in [
        ("retry", retry, SubState::BackingOff, None),
        ("delay", delay, SubState::Waiting, Some(Reason::Scheduled)),
        ("cron", cron, SubState::Waiting, Some(Reason::Scheduled)),
    ] {
        let name = rig.id(name);
        rig.at
            .start_with(&name, json!([{"fail": {"message": "no"}}]), &fields);
        let id = execution_id(&name);
        rig.until_shown(&id, sub_state).await;
        rig.signal(&id, "go", None).await.unwrap();
        assert_eq!(rig.at.events(&name).len(), 2, "{name}");
        let seen = rig.get(&id).await;
        assert_eq!((seen.sub_state, seen.reason), (sub_state, reason), "{name}");
        // The server cannot pause it yet, and answers as if it could later.
        let request = PauseRequest {
            id: id.clone(),
            comment: "live test".to_owned(),
            request_id: rig.request_id(),
        };
        let refused = rig.provider.pause(&call(), request).await.unwrap_err();
        assert_eq!(refused.reason(), "NOT_BEGUN", "{name}: {refused}");
        rig.cancel(&id, CancelMode::Kill).await.unwrap();
    }
}

pub(crate) async fn the_first_task_of_a_delayed_run_is_found_for_a_reset(rig: &Rig) {
    let name = rig.id("late");
    let delay = json!({"workflowStartDelay": "2s"});
    let steps = json!([{"signal": "go"}, {"signal": "go"}, {"signal": "go"}, {"return": "done"}]);
    rig.at.start_with(&name, steps, &delay);
    let id = execution_id(&name);
    for _ in 0..2 {
        rig.signal(&id, "go", None).await.unwrap();
    }
    rig.until(&id, "begun", |seen| {
        seen.sub_state == SubState::Waiting && seen.reason.is_none()
    })
    .await;
    let request = RetryFromRequest {
        id: id.clone(),
        step: String::new(),
        input: None,
        feedback: String::new(),
        from_start: true,
        request_id: rig.request_id(),
        execution_id: None,
    };
    rig.provider.retry_from(&call(), request).await.unwrap();
    rig.until_shown(&id, SubState::Waiting).await;
    rig.signal(&id, "go", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
}

fn signal(rig: &Rig, id: &ExecutionId, signal: &str, body: &str) -> SignalRequest {
    SignalRequest {
        id: id.clone(),
        signal: signal.to_owned(),
        payload: Some(Payload::json(body.to_owned())),
        request_id: rig.request_id(),
    }
}

/// How many signals the current run has received.
fn signals(rig: &Rig, name: &str) -> usize {
    let events = rig.at.events(name);
    let signals = events
        .iter()
        .filter(|event| event["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED");
    signals.count()
}

pub(crate) async fn a_repeated_request_has_no_effect_in_a_later_run(rig: &Rig) {
    let name = rig.id("again");
    let last = json!({"steps": [{"signal": "end"}]});
    let second = json!({"steps": [{"signal": "go"}, {"continue_as_new": last}]});
    let steps = json!([{"signal": "go"}, {"continue_as_new": second}]);
    let id = rig.start(&name, steps).await;
    rig.until_shown(&id, SubState::Waiting).await;
    let update = signal(rig, &id, "update:set", r#"{"limit":3}"#);
    let answer = |seen: Observation| seen.notes.last().cloned();
    let first = answer(rig.provider.signal(&call(), update.clone()).await.unwrap());
    let (one, two) = (signal(rig, &id, "go", "1"), signal(rig, &id, "go", "2"));
    for request in [&one, &two] {
        let run = current_run(rig, &name);
        rig.provider.signal(&call(), request.clone()).await.unwrap();
        rig.at
            .until(&name, "in its next run", |shown| run_of(shown) != run);
    }
    rig.until_shown(&id, SubState::Waiting).await;
    for request in [&one, &two] {
        rig.provider.signal(&call(), request.clone()).await.unwrap();
    }
    assert_eq!(signals(rig, &name), 0);
    let repeated = rig.provider.signal(&call(), update.clone()).await.unwrap();
    assert_eq!(answer(repeated), first);
    assert!(
        !rig.at
            .has_event(&name, "WORKFLOW_EXECUTION_UPDATE_ACCEPTED")
    );
    let other = SignalRequest {
        payload: Some(Payload::json("3")),
        ..one.clone()
    };
    let refused = rig.provider.signal(&call(), other).await.unwrap_err();
    assert_eq!(refused.reason(), "REQUEST_ID_REUSED");
    rig.signal(&id, "end", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
    // Also after the end.
    rig.provider.signal(&call(), one).await.unwrap();
    let repeated = rig.provider.signal(&call(), update).await.unwrap();
    assert_eq!(answer(repeated), first);
}

fn run_of(shown: &Value) -> String {
    let run = &shown["workflowExecutionInfo"]["execution"]["runId"];
    run.as_str().unwrap().to_owned()
}

fn current_run(rig: &Rig, name: &str) -> String {
    run_of(&rig.at.describe(name))
}

pub(crate) async fn a_repeated_signal_has_no_effect_after_a_reset(rig: &Rig) {
    let name = rig.id("reset");
    let id = rig
        .start(&name, json!([{"signal": "go"}, {"signal": "end"}]))
        .await;
    rig.until_shown(&id, SubState::Waiting).await;
    let request = signal(rig, &id, "go", "1");
    rig.provider.signal(&call(), request.clone()).await.unwrap();
    rig.at.until_event(&name, "WORKFLOW_EXECUTION_SIGNALED");
    rig.at.reset(&name);
    rig.provider.signal(&call(), request).await.unwrap();
    assert_eq!(signals(rig, &name), 1);
    rig.signal(&id, "end", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
}

/// The server applies updates again to the run that a reset makes, and their events are others than before.
pub(crate) async fn a_repeated_update_has_its_first_answer_after_a_reset(rig: &Rig) {
    let name = rig.id("reset-update");
    let id = rig.start(&name, json!([{"signal": "end"}])).await;
    rig.until_shown(&id, SubState::Waiting).await;
    let answer = |seen: Observation| seen.notes.last().cloned();
    let answered = signal(rig, &id, "update:set", r#"{"limit":3}"#);
    let first = rig.provider.signal(&call(), answered.clone()).await;
    let first = answer(first.unwrap());
    // Its answer comes after the reset.
    let waiting = signal(rig, &id, "update:set", r#"{"wait":true}"#);
    let call_that_waits = Call::within(2 * PATIENCE);
    tokio::select! {
        early = rig.provider.signal(&call_that_waits, waiting.clone()) => panic!("{early:?}"),
        () = until_accepted(rig, &id) => {}
    }
    rig.at.reset(&name);
    until_accepted(rig, &id).await;
    let mut accepted = rig.at.events(&name);
    accepted.retain(|event| event["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED");
    assert_eq!(accepted.len(), 2);
    for event in accepted {
        let attributes = &event["workflowExecutionUpdateAcceptedEventAttributes"];
        assert!(attributes["acceptedRequest"].is_null(), "{event:#}");
    }
    let repeated = rig.provider.signal(&call(), answered.clone()).await;
    assert_eq!(answer(repeated.unwrap()), first);
    let other = SignalRequest {
        payload: Some(Payload::json(r#"{"limit":4}"#)),
        ..answered
    };
    let refused = rig.provider.signal(&call(), other).await.unwrap_err();
    assert_eq!(refused.reason(), "REQUEST_ID_REUSED");
    rig.signal(&id, "release", None).await.unwrap();
    let late = rig.provider.signal(&call(), waiting).await.unwrap();
    assert!(answer(late).is_some_and(|note| note.contains("answered")));
    rig.signal(&id, "end", None).await.unwrap();
    rig.until_shown(&id, SubState::Succeeded).await;
}

const ACCEPTED: &str = "update `set` was accepted and has not answered";

/// Reads until the current run has accepted the update.
async fn until_accepted(rig: &Rig, id: &ExecutionId) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = rig.provider.get(&call(), id, View::Basic).await.unwrap();
        if seen.notes.iter().any(|note| note == ACCEPTED) {
            return;
        }
        assert!(Instant::now() < deadline, "{:?}", seen.notes);
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

async fn events(rig: &Rig, id: &ExecutionId, order: EventOrder, page_size: u32) -> Vec<Event> {
    let (mut events, mut cursor) = (Vec::new(), None);
    loop {
        let request = HistoryRequest {
            id: id.clone(),
            page_size,
            cursor,
            view: View::Basic,
            order,
        };
        let page = rig.provider.history(&call(), request).await.unwrap();
        events.extend(page.events);
        cursor = page.next;
        if cursor.is_none() {
            return events;
        }
    }
}

pub(crate) async fn a_history_has_the_runs_that_the_server_still_has(rig: &Rig) {
    let name = rig.id("story");
    let last = json!({"steps": [{"signal": "go"}]});
    let second = json!({"steps": [{"signal": "go"}, {"continue_as_new": last}]});
    let steps = json!([{"signal": "go"}, {"continue_as_new": second}]);
    let id = rig.start(&name, steps).await;
    let mut runs = vec![current_run(rig, &name)];
    for _ in 0..2 {
        rig.until(&id, "begun", |seen| {
            seen.sub_state == SubState::Waiting && seen.reason.is_none()
        })
        .await;
        rig.signal(&id, "go", None).await.unwrap();
        let run = runs.last().unwrap().clone();
        rig.at
            .until(&name, "in its next run", |shown| run_of(shown) != run);
        runs.push(current_run(rig, &name));
    }
    rig.until(&id, "begun", |seen| {
        seen.sub_state == SubState::Waiting && seen.reason.is_none()
    })
    .await;
    rig.at.reset(&name);
    let run = runs.last().unwrap().clone();
    rig.at
        .until(&name, "in its next run", |shown| run_of(shown) != run);
    rig.until_shown(&id, SubState::Waiting).await;
    runs.push(current_run(rig, &name));
    rig.at.until_listed(&name);
    let all = events(rig, &id, EventOrder::OldestFirst, 1_000).await;
    let ascends = all
        .windows(2)
        .all(|pair| pair[0].sequence < pair[1].sequence && pair[0].time <= pair[1].time);
    assert!(ascends, "{all:#?}");
    let starts = all
        .iter()
        .filter(|event| event.native_type == "WORKFLOW_EXECUTION_STARTED");
    assert_eq!(starts.count(), 3, "the reset copied the fourth");
    for (order, size) in [
        (EventOrder::OldestFirst, 1),
        (EventOrder::OldestFirst, 3),
        (EventOrder::NewestFirst, 3),
        (EventOrder::NewestFirst, 1_000),
    ] {
        let mut same = events(rig, &id, order, size).await;
        same.sort_by_key(|event| event.sequence);
        assert_eq!(same, all, "{order:?} in pages of {size}");
    }
    let first = execution_id(&format!("{name}~run:{}", runs[0]));
    let part = events(rig, &first, EventOrder::OldestFirst, 1_000).await;
    assert_eq!(part, all[..part.len()]);
    // As after the retention time of the first run.
    let purge = PurgeRequest {
        id: first.clone(),
        request_id: rig.request_id(),
    };
    rig.provider.purge(&call(), purge).await.unwrap();
    let left = events(rig, &id, EventOrder::OldestFirst, 3).await;
    let words = |events: &[Event]| -> Vec<String> {
        let words = events.iter().map(|event| event.native_type.clone());
        words.collect()
    };
    assert_eq!(words(&left), words(&all[part.len()..]));
    let summary = &left[0].summary;
    assert!(summary.contains("deleted"), "{summary}");
    rig.cancel(&id, CancelMode::Kill).await.unwrap();
}

pub(crate) async fn a_list_without_reads_to_spare_shows_open_executions_as_unread(rig: &Rig) {
    let names: Vec<String> = (0..5).map(|n| rig.id(&format!("unread-{n}"))).collect();
    for name in &names {
        rig.at.start(name, json!([{"signal": "go"}]));
        rig.at.until_listed(name);
    }
    let mut few = config(rig.lab.server.address(), &rig.at.name);
    few.quotas.reads.burst = 4;
    few.quotas.reads.per_second = 1;
    let request = ListRequest {
        hints: Hints::none(),
        page_size: 1_000,
        cursor: None,
    };
    let page = provider(&few).list(&call(), request).await.unwrap();
    let unread = page.observations.iter().filter(|row| {
        let pending = row.native.qualifiers.get("pending");
        pending.is_some_and(|pending| pending == "unread") && names.contains(&row.id.to_string())
    });
    let unread: Vec<_> = unread.cloned().map(shown).collect();
    assert!(unread.len() >= 3, "{} of 5 are unread", unread.len());
    for row in unread {
        assert_eq!((row.sub_state, row.reason), (SubState::Running, None));
    }
    for name in &names {
        rig.at.terminate(name);
    }
}
