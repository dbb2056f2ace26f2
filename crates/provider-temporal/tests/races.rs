//! What other clients and the network do between two calls of the adapter, on the mock.

#![allow(clippy::unwrap_used)]

use crate::front;
use crate::mock;

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;
use stateway_contract_kit::Scene;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Observation, Provider, PurgeRequest, RetryFromRequest, SignalRequest, WatchScope, WatchStream,
    Watched,
};
use stateway_provider_temporal::api::enums::v1::WorkflowExecutionStatus as Status;

use front::{call, put, server};
use mock::{Run, World};

const LIST: &str = "ListWorkflowExecutions";

/// The same run under another id, begun so many seconds after it.
fn copy(run: &Run, number: u32, seconds: i64) -> Run {
    let mut copy = run.clone();
    let info = copy.info();
    info.execution.as_mut().unwrap().run_id = format!("0dd1e1af-0fa0-788e-9075-{number:012x}");
    info.start_time.as_mut().unwrap().seconds += seconds;
    copy
}

/// An idle execution of this name that begins now.
fn begin(world: &mut World, name: &str) {
    let mut run = copy(&world.runs[0], 7, 0);
    let info = run.info();
    info.execution.as_mut().unwrap().workflow_id = name.to_owned();
    let now = jiff::Timestamp::now();
    info.start_time = Some(prost_types::Timestamp {
        seconds: now.as_second(),
        nanos: now.subsec_nanosecond(),
    });
    info.execution_time = info.start_time;
    world.put(run);
}

fn purge(id: &ExecutionId) -> PurgeRequest {
    PurgeRequest {
        id: id.clone(),
        request_id: "purge".parse().unwrap(),
    }
}

async fn within(
    patience: Duration,
    stream: &mut WatchStream,
    wanted: impl Fn(&Watched) -> bool,
) -> bool {
    let found = async {
        while let Some(item) = stream.next().await {
            if wanted(&item.unwrap()) {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(patience, found).await.unwrap_or(false)
}

fn shows(id: &str, wanted: impl Fn(&Observation) -> bool) -> impl Fn(&Watched) -> bool {
    move |item| matches!(item, Watched::Seen(seen) if seen.id.as_str() == id && wanted(seen))
}

fn is_in_sync(item: &Watched) -> bool {
    matches!(item, Watched::InSync)
}

#[tokio::test]
async fn a_purge_never_deletes_a_run_that_is_open() {
    let (mock, provider) = server().await;
    let id = put(&mock, "ended", Scene::Succeeded);
    mock.before(LIST, |world| {
        let mut open = copy(&world.runs[0], 2, 10);
        open.info().status = Status::Running.into();
        open.info().close_time = None;
        world.put(open);
    });
    let refused = provider.purge(&call(), purge(&id)).await.unwrap_err();
    assert_eq!(refused.reason(), "NOT_FINISHED");
    assert_eq!(mock.change(|world| world.runs.len()), 2);
}

#[tokio::test]
async fn a_purge_refuses_a_run_that_began_and_ended_meanwhile() {
    let (mock, provider) = server().await;
    let id = put(&mock, "ended", Scene::Succeeded);
    mock.before(LIST, |world| {
        let newer = copy(&world.runs[0], 2, 10);
        world.put(newer);
    });
    let refused = provider.purge(&call(), purge(&id)).await.unwrap_err();
    assert_eq!(refused.reason(), "RUN_STARTED");
    provider.purge(&call(), purge(&id)).await.unwrap();
    assert_eq!(mock.change(|world| world.runs.len()), 0);
}

#[tokio::test]
async fn a_purge_follows_the_pages_of_a_long_chain() {
    let (mock, provider) = server().await;
    let id = put(&mock, "chain", Scene::Succeeded);
    mock.change(|world| {
        let current = world.runs.remove(0);
        for number in 1..=1_001 {
            let mut older = copy(&current, number, -100_000 + i64::from(number));
            older.info().status = Status::ContinuedAsNew.into();
            world.put(older);
        }
        world.put(current);
    });
    provider.purge(&call(), purge(&id)).await.unwrap();
    assert_eq!(mock.change(|world| world.runs.len()), 0);
}

#[tokio::test]
async fn a_watch_of_all_sees_what_began_while_lists_failed() {
    let (mock, provider) = server().await;
    put(&mock, "known", Scene::NoMetadata);
    mock.change(|world| begin(world, "newest"));
    let mut stream = provider.watch(&call(), WatchScope::All).await.unwrap();
    assert!(within(Duration::from_secs(5), &mut stream, is_in_sync).await);
    mock.refuse(LIST);
    let began = Instant::now();
    let gap = async {
        while !mock.calls_since(began).contains_key(LIST) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        mock.change(|world| begin(world, "missed"));
        provider.clock().skip(Duration::from_secs(15));
        mock.allow(LIST);
    };
    let seen = within(
        Duration::from_secs(5),
        &mut stream,
        shows("missed", |_| true),
    );
    let ((), seen) = tokio::join!(gap, seen);
    assert!(seen, "a start during the gap is not reported");
}

#[tokio::test]
async fn a_watch_of_all_sees_what_began_during_a_slow_first_read() {
    let (mock, provider) = server().await;
    put(&mock, "known", Scene::NoMetadata);
    mock.change(|world| {
        for number in 0..1_000 {
            begin(world, &format!("old-{number}"));
        }
    });
    let mut stream = provider.watch(&call(), WatchScope::All).await.unwrap();
    mock.change(|world| begin(world, "missed"));
    provider.clock().skip(Duration::from_secs(15));
    let seen = within(
        Duration::from_secs(10),
        &mut stream,
        shows("missed", |_| true),
    );
    assert!(seen.await, "a start during the first read is not reported");
}

#[tokio::test]
async fn one_failed_description_does_not_hide_the_other_starts() {
    let (mock, provider) = server().await;
    put(&mock, "known", Scene::NoMetadata);
    let mut stream = provider.watch(&call(), WatchScope::All).await.unwrap();
    assert!(within(Duration::from_secs(5), &mut stream, is_in_sync).await);
    mock.refuse("DescribeWorkflowExecution");
    let began = Instant::now();
    let gap = async {
        mock.change(|world| begin(world, "new"));
        while mock.calls_since(began).get("DescribeWorkflowExecution") < Some(&2) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        provider.clock().skip(Duration::from_secs(15));
        mock.allow("DescribeWorkflowExecution");
    };
    let is_described = |seen: &Observation| !seen.is_partial;
    let wanted = shows("new", is_described);
    let seen = within(Duration::from_secs(8), &mut stream, wanted);
    let ((), seen) = tokio::join!(gap, seen);
    assert!(seen, "a start whose description failed is not reported");
}

#[tokio::test]
async fn a_failed_page_of_the_present_set_is_read_again() {
    let (mock, provider) = server().await;
    put(&mock, "known", Scene::NoMetadata);
    mock.change(|world| {
        for number in 0..2_500 {
            begin(world, &format!("old-{number}"));
        }
    });
    let mut stream = provider.watch(&call(), WatchScope::All).await.unwrap();
    mock.refuse(LIST);
    let began = Instant::now();
    let outage = async {
        while mock.calls_since(began).get(LIST) < Some(&2) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            provider.clock().skip(Duration::from_secs(1));
        }
        mock.allow(LIST);
        provider.clock().skip(Duration::from_secs(5));
    };
    let present = async {
        let mut seen = std::collections::BTreeSet::new();
        while let Some(item) = stream.next().await {
            match item.unwrap() {
                Watched::Seen(one) => {
                    seen.insert(one.id.as_str().to_owned());
                }
                Watched::Gone(id) => panic!("{id} is reported as gone"),
                Watched::InSync => break,
            }
        }
        seen.len()
    };
    let present = tokio::time::timeout(Duration::from_secs(20), present);
    let ((), present) = tokio::join!(outage, present);
    assert_eq!(present, Ok(2_501));
}

#[tokio::test]
async fn an_execution_that_cannot_be_described_does_not_slow_the_others() {
    let (mock, provider) = server().await;
    put(&mock, "known", Scene::NoMetadata);
    put(&mock, "broken", Scene::NoMetadata);
    let mut stream = provider.watch(&call(), WatchScope::All).await.unwrap();
    assert!(within(Duration::from_secs(5), &mut stream, is_in_sync).await);
    mock.break_workflow("broken");
    // One list a second, also while descriptions of that execution fail.
    let began = Instant::now();
    within(Duration::from_secs(6), &mut stream, |_| false).await;
    let lists = mock.calls_since(began)[LIST];
    assert!(lists >= 5, "{lists} lists in six seconds");
}

#[tokio::test]
async fn a_watch_of_all_that_missed_news_ends() {
    let (mock, provider) = server().await;
    let id = put(&mock, "known", Scene::NoMetadata);
    let mut stream = provider.watch(&call(), WatchScope::All).await.unwrap();
    assert!(within(Duration::from_secs(5), &mut stream, is_in_sync).await);
    for number in 0..1_100 {
        let signal = SignalRequest {
            id: id.clone(),
            signal: "go".to_owned(),
            payload: None,
            request_id: format!("s{number}").parse().unwrap(),
        };
        provider.signal(&call(), signal).await.unwrap();
    }
    let ended = async { while stream.next().await.is_some() {} };
    let ended = tokio::time::timeout(Duration::from_secs(5), ended).await;
    assert!(ended.is_ok(), "the watch goes on without what it missed");
}

fn signal_event(world: &mut World, index: usize) {
    let attributes = json!({"signalName": "go", "requestId": "other"});
    world.runs[index].record("WORKFLOW_EXECUTION_SIGNALED", &attributes);
    world.runs[index].record(
        "TIMER_STARTED",
        &json!({"timerId": "new", "startToFireTimeout": "600s"}),
    );
}

fn has_timer(seen: &Observation) -> bool {
    seen.steps.iter().any(|step| step.name.contains("new"))
}

#[tokio::test]
async fn a_watch_of_one_sees_what_happens_before_its_first_long_poll() {
    let (mock, provider) = server().await;
    let id = put(&mock, "idle", Scene::NoMetadata);
    let scope = WatchScope::One(id.clone());
    let mut stream = provider.watch(&call(), scope).await.unwrap();
    mock.change(|world| signal_event(world, 0));
    let seen = within(
        Duration::from_secs(1),
        &mut stream,
        shows("idle", has_timer),
    );
    assert!(seen.await, "not seen within a second");
}

#[tokio::test]
async fn a_watch_of_one_with_a_long_history_is_read_every_few_seconds() {
    let (mock, provider) = server().await;
    let id = put(&mock, "long", Scene::NoMetadata);
    mock.change(|world| {
        for _ in 0..1_100 {
            world.runs[0].record("WORKFLOW_EXECUTION_SIGNALED", &json!({"signalName": "go"}));
        }
    });
    let scope = WatchScope::One(id.clone());
    let mut stream = provider.watch(&call(), scope).await.unwrap();
    assert!(within(Duration::from_secs(5), &mut stream, is_in_sync).await);
    let later = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        mock.change(|world| signal_event(world, 0));
    };
    let seen = within(
        Duration::from_secs(12),
        &mut stream,
        shows("long", has_timer),
    );
    let ((), seen) = tokio::join!(later, seen);
    assert!(seen, "not seen within 12 seconds");
}

#[tokio::test]
async fn a_repeated_signal_is_answered_after_the_end() {
    let (mock, provider) = server().await;
    let id = put(&mock, "signalled", Scene::NoMetadata);
    let signal = |name: &str, request_id: &str| SignalRequest {
        id: id.clone(),
        signal: name.to_owned(),
        payload: None,
        request_id: request_id.parse().unwrap(),
    };
    provider.signal(&call(), signal("go", "s1")).await.unwrap();
    mock.change(|world| {
        let run = &mut world.runs[0];
        run.close(
            Status::Completed,
            "WORKFLOW_EXECUTION_COMPLETED",
            &json!({}),
        );
    });
    let again = provider.signal(&call(), signal("go", "s1")).await.unwrap();
    assert_eq!(again.native.state, "COMPLETED");
    let other = provider.signal(&call(), signal("stop", "s1")).await;
    assert_eq!(other.unwrap_err().reason(), "REQUEST_ID_REUSED");
    let late = provider.signal(&call(), signal("go", "s2")).await;
    assert_eq!(late.unwrap_err().reason(), "ALREADY_FINISHED");
}

#[tokio::test]
async fn a_repeated_retry_from_resets_once() {
    let (mock, provider) = server().await;
    let id = put(&mock, "failed", Scene::Failed);
    let request = RetryFromRequest {
        id,
        step: String::new(),
        input: None,
        feedback: String::new(),
        from_start: false,
        request_id: "again".parse().unwrap(),
        execution_id: None,
    };
    let began = Instant::now();
    let first = provider.retry_from(&call(), request.clone()).await.unwrap();
    let repeated = provider.retry_from(&call(), request).await.unwrap();
    assert_eq!(repeated.notes.first(), first.notes.first());
    let resets = mock.calls_since(began).remove("ResetWorkflowExecution");
    assert_eq!(resets, Some(1));
    assert_eq!(mock.change(|world| world.runs.len()), 2);
}
