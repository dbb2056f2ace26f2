//! Distributed Maps: what their Map Runs count, and what that costs.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use jiff::Timestamp;
use mock::HERE;
use mock::bench::{Bench, call, counted};
use mock::script::{begun, entered, push};
use serde_json::{Value, json};
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Provider, classify};
use stateway_provider_step_functions::Api;

fn run() -> String {
    format!("{HERE}:mapRun:m/items:0001")
}

fn counts(succeeded: u64) -> Value {
    json!({
        "total": 10, "pending": 6 - succeeded, "running": 2, "succeeded": succeeded, "failed": 1,
        "timedOut": 1, "aborted": 0, "resultsWritten": 0, "pendingRedrive": 0
    })
}

fn put(bench: &Bench) -> ExecutionId {
    let mut events = begun();
    let id = push(&mut events, 0, "MapStateEntered", entered("M"));
    let length = ("mapStateStarted", json!({"length": 10}));
    let id = push(&mut events, id, "MapStateStarted", length);
    let detail = ("mapRunStarted", json!({"mapRunArn": run()}));
    push(&mut events, id, "MapRunStarted", detail);
    let mode = json!({"Mode": "DISTRIBUTED"});
    let processor = json!({"ProcessorConfig": mode, "States": {"T": {"Type": "Task"}}});
    let definition = json!({"States": {"M": {"Type": "Map", "ItemProcessor": processor}}});
    bench.service.world().map_runs.insert(run(), counts(3));
    bench.put("m", "a", (events, definition))
}

#[tokio::test]
async fn the_items_are_counted_and_are_evidence() {
    let bench = Bench::new(|_| {}).await;
    let id = put(&bench);
    let seen = bench.get(&id).await;
    let table = compiled_in("step-functions").expect("a table");
    let verdict = classify(&table, &seen, Timestamp::now());
    assert_eq!(verdict.execution.sub_state, SubState::Running);
    let explained = verdict.explain(&seen, Timestamp::now());
    for line in [
        "native state `MapRunStarted`",
        "qualifier items_total = `10`",
        "qualifier items_running = `2`",
        "qualifier items_succeeded = `3`",
        "qualifier items_failed = `1`",
    ] {
        let evidence = &explained.steps[0].evidence;
        assert!(evidence.iter().any(|told| told == line), "{evidence:#?}");
    }
    let progress = seen.steps[0].progress.clone().expect("progress");
    assert!((progress.fraction.get() - 0.5).abs() < 1e-9);
    let told = progress.detail;
    assert!(
        told.contains("3 of 10 items succeeded, 2 failed, 2 running"),
        "{told}"
    );
    assert!(
        told.contains("not reported"),
        "what is inside the items is unknown"
    );
    let calls = [
        ("DescribeExecution", 1),
        ("DescribeMapRun", 1),
        ("DescribeStateMachineForExecution", 1),
        ("GetExecutionHistory", 1),
    ];
    assert_eq!(bench.calls(), counted(&calls));
}

#[tokio::test]
async fn only_an_open_distributed_map_is_asked_for_its_items() {
    let bench = Bench::new(|_| {}).await;
    let id = put(&bench);
    {
        let events = &mut bench.service.world().executions[0].events;
        let last = events.len();
        push(events, last, "MapRunSucceeded", mock::script::NOTHING);
    }
    let seen = bench.get(&id).await;
    assert_eq!(seen.steps[0].progress, None);
    assert!(bench.calls().iter().all(|(api, _)| api != "DescribeMapRun"));
}

#[tokio::test]
async fn without_a_turn_the_last_counts_are_shown_and_nothing_waits() {
    let bench = Bench::new(|config| {
        let quota = Quota {
            burst: 1,
            per_second: 0,
        };
        config.quotas.insert(Api::DescribeMapRun, quota);
    })
    .await;
    let id = put(&bench);
    let first = bench.get(&id).await;
    assert!(first.steps[0].progress.is_some());
    bench.service.world().map_runs.insert(run(), counts(5));
    let second = bench.get(&id).await;
    assert_eq!(second.steps[0].progress, first.steps[0].progress);
    let watched = bench
        .provider
        .observe(&call(), std::slice::from_ref(&id))
        .await;
    let watched = watched[0].as_ref().expect("an answer");
    assert_eq!(watched.steps[0].progress, first.steps[0].progress);
    let asked = bench.calls();
    let asked = asked.iter().find(|(api, _)| api == "DescribeMapRun");
    assert_eq!(asked.map(|(_, times)| *times), Some(1));
}

#[tokio::test]
async fn a_map_run_that_cannot_be_read_is_no_failure() {
    let bench = Bench::new(|_| {}).await;
    let id = put(&bench);
    bench.service.world().map_runs.clear();
    let seen = bench.get(&id).await;
    assert_eq!(seen.steps[0].native.state, "MapRunStarted");
    assert_eq!(seen.steps[0].progress, None);
}
