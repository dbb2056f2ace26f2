//! Executions of several runs on the mock: requests that are repeated in a later run, and histories whose older
//! runs the server has deleted.

#![allow(clippy::unwrap_used)]

use crate::front;
use crate::mock;

use std::time::{Duration, Instant};

use serde_json::json;
use stateway_contract_kit::Scene;
use stateway_model::{Event, ExecutionId, Payload};
use stateway_provider_api::{
    Call, EventOrder, HistoryPage, HistoryRequest, Provider, RetryFromRequest, SignalRequest, View,
};
use stateway_provider_temporal::TemporalProvider;
use stateway_provider_temporal::api::enums::v1::{EventType, WorkflowExecutionStatus as Status};

use front::{call, gateway, put, server};
use mock::{Mock, World};

fn signal(id: &ExecutionId, name: &str, request_id: &str, body: &str) -> SignalRequest {
    SignalRequest {
        id: id.clone(),
        signal: name.to_owned(),
        payload: Some(Payload::json(body.to_owned())),
        request_id: request_id.parse().unwrap(),
    }
}

/// How many events of this type all runs have.
fn count(mock: &Mock, kind: EventType) -> usize {
    mock.change(|world| {
        let events = world.runs.iter().flat_map(|run| &run.events);
        events.filter(|event| event.event_type() == kind).count()
    })
}

const SIGNALED: EventType = EventType::WorkflowExecutionSignaled;

#[tokio::test]
async fn a_signal_that_is_repeated_in_a_later_run_is_delivered_once() {
    let (mock, provider) = server().await;
    let id = put(&mock, "chain", Scene::NoMetadata);
    let request = signal(&id, "go", "s1", "1");
    provider.signal(&call(), request.clone()).await.unwrap();
    for _ in 0..3 {
        mock.change(|world| world.continue_as_new("chain"));
        // A gateway that has read nothing of the chain before.
        gateway(&mock)
            .signal(&call(), request.clone())
            .await
            .unwrap();
    }
    assert_eq!(count(&mock, SIGNALED), 1);
    let other = signal(&id, "go", "s1", "2");
    let refused = provider.signal(&call(), other).await.unwrap_err();
    assert_eq!(refused.reason(), "REQUEST_ID_REUSED");
    let next = signal(&id, "go", "s2", "2");
    provider.signal(&call(), next).await.unwrap();
    assert_eq!(count(&mock, SIGNALED), 2);
}

#[tokio::test]
async fn a_signal_is_compared_also_after_many_events() {
    let (mock, provider) = server().await;
    let id = put(&mock, "long", Scene::NoMetadata);
    provider
        .signal(&call(), signal(&id, "go", "s1", "1"))
        .await
        .unwrap();
    mock.change(|world| {
        for _ in 0..900 {
            let attributes = json!({"signalName": "tick"});
            world.runs[0].record("WORKFLOW_EXECUTION_SIGNALED", &attributes);
        }
    });
    let other = signal(&id, "go", "s1", "2");
    let refused = provider.signal(&call(), other).await.unwrap_err();
    assert_eq!(refused.reason(), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn a_signal_that_is_repeated_after_a_reset_is_delivered_once() {
    let (mock, provider) = server().await;
    let id = put(&mock, "reset", Scene::NoMetadata);
    let request = signal(&id, "go", "s1", "1");
    provider.signal(&call(), request.clone()).await.unwrap();
    let from_start = retry_from_start(&id);
    provider.retry_from(&call(), from_start).await.unwrap();
    let before = count(&mock, SIGNALED);
    provider.signal(&call(), request).await.unwrap();
    assert_eq!(count(&mock, SIGNALED), before);
}

#[tokio::test]
async fn a_run_that_ends_while_a_signal_is_sent_does_not_lose_or_repeat_it() {
    let (mock, provider) = server().await;
    let id = put(&mock, "moving", Scene::NoMetadata);
    let request = signal(&id, "go", "s1", "1");
    // Another gateway delivers the same signal to the old run, and the workflow continues as new.
    mock.before("SignalWorkflowExecution", |world| {
        let attributes = json!({
            "signalName": "go", "requestId": "s1", "input": {"payloads": [1]},
        });
        world.runs[0].record("WORKFLOW_EXECUTION_SIGNALED", &attributes);
        world.continue_as_new("moving");
    });
    provider.signal(&call(), request).await.unwrap();
    assert_eq!(count(&mock, SIGNALED), 1);
    mock.before("SignalWorkflowExecution", |world| {
        world.continue_as_new("moving");
    });
    let next = signal(&id, "go", "s2", "1");
    provider.signal(&call(), next).await.unwrap();
    assert_eq!(count(&mock, SIGNALED), 2);
}

#[tokio::test]
async fn runs_that_the_server_has_deleted_do_not_refuse_a_signal() {
    let (mock, provider) = server().await;
    let id = put(&mock, "old", Scene::NoMetadata);
    mock.change(|world| {
        world.continue_as_new("old");
        world.runs.remove(0);
    });
    let request = signal(&id, "go", "s1", "1");
    provider.signal(&call(), request).await.unwrap();
    assert_eq!(count(&mock, SIGNALED), 1);
}

const ACCEPTED: EventType = EventType::WorkflowExecutionUpdateAccepted;

#[tokio::test]
async fn a_repeated_update_has_the_first_answer_in_every_later_run_and_after_the_end() {
    let (mock, provider) = server().await;
    let id = put(&mock, "updated", Scene::NoMetadata);
    let set = signal(&id, "update:set", "u1", "1");
    let answered = |notes: &[String]| notes.iter().any(|note| note.contains("answer to u1"));
    let seen = provider.signal(&call(), set.clone()).await.unwrap();
    assert!(answered(&seen.notes), "{:?}", seen.notes);
    mock.change(|world| world.continue_as_new("updated"));
    let seen = gateway(&mock).signal(&call(), set.clone()).await.unwrap();
    assert!(answered(&seen.notes), "{:?}", seen.notes);
    mock.change(|world| {
        let attributes = json!({});
        let kind = "WORKFLOW_EXECUTION_COMPLETED";
        world.runs[1].close(Status::Completed, kind, &attributes);
    });
    let seen = gateway(&mock).signal(&call(), set.clone()).await.unwrap();
    assert!(answered(&seen.notes), "{:?}", seen.notes);
    assert_eq!(count(&mock, ACCEPTED), 1);
    for other in [
        signal(&id, "update:set", "u1", "2"),
        signal(&id, "update:add", "u1", "1"),
        signal(&id, "set", "u1", "1"),
    ] {
        let refused = provider.signal(&call(), other).await.unwrap_err();
        assert_eq!(refused.reason(), "REQUEST_ID_REUSED");
    }
    let late = signal(&id, "update:set", "u2", "1");
    let late = provider.signal(&call(), late).await.unwrap_err();
    assert_eq!(late.reason(), "ALREADY_FINISHED");
}

#[tokio::test]
async fn a_repeated_update_has_the_first_answer_after_a_reset() {
    let (mock, provider) = server().await;
    let id = put(&mock, "reset", Scene::NoMetadata);
    let set = signal(&id, "update:set", "u1", "1");
    provider.signal(&call(), set.clone()).await.unwrap();
    let from_start = retry_from_start(&id);
    provider.retry_from(&call(), from_start).await.unwrap();
    // The first repetition finds the update admitted, the second one finds it accepted.
    for _ in 0..2 {
        let seen = provider.signal(&call(), set.clone()).await.unwrap();
        let notes = seen.notes.join("\n");
        assert!(notes.contains("answer to u1"), "{notes}");
        let other = signal(&id, "update:set", "u1", "2");
        let refused = provider.signal(&call(), other).await.unwrap_err();
        assert_eq!(refused.reason(), "REQUEST_ID_REUSED");
    }
    assert_eq!(count(&mock, EventType::WorkflowExecutionUpdateAdmitted), 1);
    assert_eq!(count(&mock, ACCEPTED), 2);
}

#[tokio::test]
async fn an_update_to_a_run_that_ends_meanwhile_reaches_the_next_run_or_is_refused() {
    let (mock, provider) = server().await;
    let id = put(&mock, "moving", Scene::NoMetadata);
    mock.before("UpdateWorkflowExecution", |world| {
        world.continue_as_new("moving");
    });
    let set = signal(&id, "update:set", "u1", "1");
    provider.signal(&call(), set).await.unwrap();
    assert_eq!(count(&mock, ACCEPTED), 1);
    mock.before("UpdateWorkflowExecution", |world| {
        let kind = "WORKFLOW_EXECUTION_COMPLETED";
        world.runs[1].close(Status::Completed, kind, &json!({}));
    });
    let late = signal(&id, "update:set", "u2", "1");
    let late = provider.signal(&call(), late).await.unwrap_err();
    assert_eq!(late.reason(), "ALREADY_FINISHED");
}

#[tokio::test]
async fn an_update_is_asked_for_until_it_answers() {
    let (mock, provider) = server().await;
    let id = put(&mock, "slow", Scene::NoMetadata);
    mock.change(|world| world.admits_only = 1);
    let set = signal(&id, "update:set", "u1", "1");
    let seen = provider.signal(&call(), set).await.unwrap();
    let notes = seen.notes.join("\n");
    assert!(notes.contains("answer to u1"), "{notes}");
    mock.change(|world| world.admits_only = u32::MAX);
    let set = signal(&id, "update:set", "u2", "1");
    let short = Call::within(Duration::from_secs(2));
    let seen = provider.signal(&short, set).await.unwrap();
    let notes = seen.notes.join("\n");
    assert!(notes.contains("no worker has accepted it"), "{notes}");
}

fn retry_from_start(id: &ExecutionId) -> RetryFromRequest {
    RetryFromRequest {
        id: id.clone(),
        step: String::new(),
        input: None,
        feedback: String::new(),
        from_start: true,
        request_id: "again".parse().unwrap(),
        execution_id: None,
    }
}

#[tokio::test]
async fn the_first_workflow_task_is_found_after_signals() {
    let (mock, provider) = server().await;
    let id = put(&mock, "delayed", Scene::NoMetadata);
    mock.change(|world| {
        let run = &mut world.runs[0];
        run.events.truncate(1);
        for _ in 0..300 {
            run.record("WORKFLOW_EXECUTION_SIGNALED", &json!({"signalName": "go"}));
        }
    });
    let refused = provider.retry_from(&call(), retry_from_start(&id)).await;
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("has not begun"), "{refused}");
    mock.change(|world| {
        for kind in ["SCHEDULED", "STARTED", "COMPLETED"] {
            world.runs[0].record(&format!("WORKFLOW_TASK_{kind}"), &json!({}));
        }
    });
    let from_start = retry_from_start(&id);
    provider.retry_from(&call(), from_start).await.unwrap();
    let copied = mock.change(|world| {
        let events = &world.runs[1].events;
        let is_reset = |kind| kind == EventType::WorkflowTaskFailed;
        events.iter().position(|event| is_reset(event.event_type()))
    });
    assert_eq!(copied, Some(303));
}

#[tokio::test]
async fn a_retry_from_an_event_goes_back_to_its_workflow_task() {
    let (mock, provider) = server().await;
    let id = put(&mock, "chosen", Scene::NoMetadata);
    let tasks = ["SCHEDULED", "STARTED", "COMPLETED"].map(|it| format!("WORKFLOW_TASK_{it}"));
    let signaled = mock.change(|world| {
        let run = &mut world.runs[0];
        let go = json!({"signalName": "go"});
        run.record("WORKFLOW_EXECUTION_SIGNALED", &go);
        let signaled = run.events.len();
        for kind in &tasks {
            run.record(kind, &json!({}));
        }
        run.record("WORKFLOW_EXECUTION_SIGNALED", &go);
        signaled
    });
    let from = |event: &str| RetryFromRequest {
        step: format!("event:{event}"),
        from_start: false,
        request_id: format!("from-{event}").parse().unwrap(),
        ..retry_from_start(&id)
    };
    let (task, last) = (signaled + 3, signaled + 4);
    for (event, reason, parts) in [
        (
            "x".to_owned(),
            "INVALID_ARGUMENT",
            ["`x`".to_owned(), "event:7".to_owned()],
        ),
        (
            "999".to_owned(),
            "STEP_NOT_FOUND",
            [format!("1 to {last}"), "history".to_owned()],
        ),
        (
            last.to_string(),
            "ILLEGAL_TRANSITION",
            [
                format!("no workflow task follows event {last}"),
                format!("choose is {task}"),
            ],
        ),
    ] {
        let refused = provider
            .retry_from(&call(), from(&event))
            .await
            .unwrap_err();
        assert_eq!(refused.reason(), reason, "{refused}");
        let words = format!("{refused} {}", refused.hint);
        for part in parts {
            assert!(words.contains(&part), "{part}: {words}");
        }
    }
    let chosen = from(&signaled.to_string());
    provider.retry_from(&call(), chosen.clone()).await.unwrap();
    provider.retry_from(&call(), chosen).await.unwrap();
    // Numbers of the history name the runs before the current one too.
    let before = from(&(signaled - 1).to_string());
    provider.retry_from(&call(), before).await.unwrap();
    let resets = mock.change(|world| {
        let is_reset = |kind| kind == EventType::WorkflowTaskFailed;
        let runs = world.runs[1..].iter();
        let resets = runs.map(|run| {
            let mut kinds = run.events.iter().map(|event| event.event_type());
            kinds.position(is_reset).unwrap() + 1
        });
        resets.collect::<Vec<_>>()
    });
    assert_eq!(resets, [task, 4]);
}

#[tokio::test]
async fn a_retry_from_that_is_repeated_in_a_later_run_resets_once() {
    let (mock, provider) = server().await;
    let id = put(&mock, "again", Scene::NoMetadata);
    let whole = retry_from_start(&id);
    provider.retry_from(&call(), whole.clone()).await.unwrap();
    let second = mock.change(|world| world.runs[1].run_id());
    let by_run = RetryFromRequest {
        id: ExecutionId::new(format!("again~run:{second}")).unwrap(),
        request_id: "by-run".parse().unwrap(),
        ..whole.clone()
    };
    // Its first workflow task was started again.
    mock.change(|world| {
        world.runs[1].record("WORKFLOW_TASK_STARTED", &json!({}));
        world.runs[1].record("WORKFLOW_TASK_COMPLETED", &json!({}));
    });
    provider.retry_from(&call(), by_run.clone()).await.unwrap();
    let requests = [whole, by_run];
    let resets = || count(&mock, EventType::WorkflowTaskFailed);
    let before = resets();
    for request in &requests {
        provider.retry_from(&call(), request.clone()).await.unwrap();
    }
    mock.change(|world| world.continue_as_new("again"));
    for request in requests {
        gateway(&mock).retry_from(&call(), request).await.unwrap();
    }
    assert_eq!(resets(), before);
}

fn page(id: &ExecutionId, order: EventOrder, cursor: Option<String>, size: u32) -> HistoryRequest {
    HistoryRequest {
        id: id.clone(),
        page_size: size,
        cursor,
        view: View::Basic,
        order,
    }
}

async fn whole(
    provider: &TemporalProvider,
    id: &ExecutionId,
    order: EventOrder,
    from: Option<HistoryPage>,
) -> Vec<Event> {
    let (mut events, mut cursor) = match from {
        Some(page) => (page.events, Some(page.next.expect("more events"))),
        None => (Vec::new(), None),
    };
    loop {
        let request = page(id, order, cursor, 3);
        let page = provider.history(&call(), request).await.unwrap();
        events.extend(page.events);
        cursor = page.next;
        if cursor.is_none() {
            return events;
        }
    }
}

/// Three runs of 5, 5 and 4 events, after an earlier execution of the same id.
fn chain(mock: &Mock) -> ExecutionId {
    let id = put(mock, "chain", Scene::NoMetadata);
    mock.change(|world| {
        let mut earlier = world.runs[0].clone();
        let info = earlier.info();
        let earlier_id = "0ee1e1af-0fa0-788e-9075-000000000000";
        earlier_id.clone_into(&mut info.execution.as_mut().unwrap().run_id);
        earlier_id.clone_into(&mut info.first_run_id);
        info.start_time.as_mut().unwrap().seconds -= 100;
        earlier.close(
            Status::Completed,
            "WORKFLOW_EXECUTION_COMPLETED",
            &json!({}),
        );
        world.runs.insert(0, earlier);
        world.continue_as_new("chain");
        world.continue_as_new("chain");
    });
    id
}

fn delete_first_run(world: &mut World) {
    world.runs.remove(1);
}

fn words(events: &[Event]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event.native_type.as_str())
        .collect()
}

#[tokio::test]
async fn a_history_past_retention_shows_what_remains_and_says_so() {
    let (mock, provider) = server().await;
    let id = chain(&mock);
    let all = whole(&provider, &id, EventOrder::OldestFirst, None).await;
    assert_eq!(all.len(), 14, "{:?}", words(&all));
    assert!(!all[0].summary.contains("deleted"), "{}", all[0].summary);
    mock.change(delete_first_run);
    for order in [EventOrder::OldestFirst, EventOrder::NewestFirst] {
        let mut left = whole(&provider, &id, order, None).await;
        left.sort_by_key(|event| event.sequence);
        assert_eq!(words(&left), words(&all[5..]), "{order:?}");
        let summary = &left[0].summary;
        assert!(
            summary.contains("which the server has deleted"),
            "{summary}"
        );
    }
    mock.change(delete_first_run);
    let left = whole(&provider, &id, EventOrder::OldestFirst, None).await;
    assert_eq!(words(&left), words(&all[10..]));
}

#[tokio::test]
async fn a_history_continues_when_its_run_is_deleted_between_two_pages() {
    let (mock, provider) = server().await;
    let id = chain(&mock);
    let request = page(&id, EventOrder::OldestFirst, None, 2);
    let first = provider.history(&call(), request).await.unwrap();
    mock.change(delete_first_run);
    let events = whole(&provider, &id, EventOrder::OldestFirst, Some(first)).await;
    assert_eq!(events.len(), 2 + 9, "{:?}", words(&events));
}

#[tokio::test]
async fn a_run_that_is_deleted_after_it_was_listed_is_left_out() {
    let (mock, provider) = server().await;
    let id = chain(&mock);
    mock.before("GetWorkflowExecutionHistory", delete_first_run);
    let request = page(&id, EventOrder::OldestFirst, None, 100);
    let events = provider.history(&call(), request).await.unwrap().events;
    assert_eq!(events.len(), 9, "{:?}", words(&events));
}

#[tokio::test]
async fn a_run_that_lists_still_show_as_open_has_its_events() {
    let (mock, provider) = server().await;
    let id = chain(&mock);
    mock.change(|world| world.lags = true);
    let events = whole(&provider, &id, EventOrder::OldestFirst, None).await;
    assert_eq!(events.len(), 14, "{:?}", words(&events));
    let ascends = events
        .windows(2)
        .all(|pair| pair[0].sequence < pair[1].sequence);
    assert!(ascends);
}

#[tokio::test]
async fn runs_that_lists_do_not_show_yet_have_their_events() {
    let (mock, provider) = server().await;
    let id = chain(&mock);
    mock.change(|world| {
        let late = world.runs[2..].iter().map(mock::Run::run_id);
        world.unlisted = late.collect();
    });
    let events = whole(&provider, &id, EventOrder::OldestFirst, None).await;
    assert_eq!(events.len(), 14, "{:?}", words(&events));
}

#[tokio::test]
async fn a_history_follows_a_workflow_that_continues_as_new_between_two_pages() {
    let (mock, provider) = server().await;
    let id = put(&mock, "moving", Scene::NoMetadata);
    let request = page(&id, EventOrder::OldestFirst, None, 2);
    let first = provider.history(&call(), request).await.unwrap();
    mock.change(|world| {
        world.continue_as_new("moving");
        for _ in 0..10 {
            let attributes = json!({"signalName": "tick"});
            world.runs[1].record("WORKFLOW_EXECUTION_SIGNALED", &attributes);
        }
    });
    let events = whole(&provider, &id, EventOrder::OldestFirst, Some(first)).await;
    // The first run ends where it ended when the first page was read.
    assert_eq!(events.len(), 4 + 14, "{:?}", words(&events));
}

#[tokio::test]
async fn a_signal_to_a_chain_reads_each_ended_run_once() {
    let (mock, provider) = server().await;
    let id = put(&mock, "chain", Scene::NoMetadata);
    for _ in 0..5 {
        mock.change(|world| world.continue_as_new("chain"));
    }
    let request = signal(&id, "go", "s1", "1");
    provider.signal(&call(), request).await.unwrap();
    let began = Instant::now();
    let next = signal(&id, "go", "s2", "1");
    provider.signal(&call(), next).await.unwrap();
    let reads = mock
        .calls_since(began)
        .remove("GetWorkflowExecutionHistoryReverse");
    assert!(reads <= Some(2), "{reads:?}");
}
