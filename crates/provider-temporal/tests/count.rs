//! Counts: each workflow counts once, by its sub-state. A count that is not complete is marked `at_least`.

#![allow(clippy::unwrap_used)]

use crate::mock;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use stateway_model::ExecutionId;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Provider, classify,
};
use stateway_provider_temporal::TemporalProvider;

use mock::Mock;

const COUNT: &str = "CountWorkflowExecutions";
const DESCRIBE: &str = "DescribeWorkflowExecution";
const LIST: &str = "ListWorkflowExecutions";

/// Puts a run that began so many seconds ago, in this status.
fn put(mock: &Mock, workflow: &str, status: &str, seconds: i64) {
    let began = Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    let began = began.to_string();
    let run = format!("0cc1e1af-0fa0-788e-9075-{seconds:012x}");
    let mut description = json!({"workflowExecutionInfo": {
        "execution": {"workflowId": workflow, "runId": run}, "type": {"name": "Script"},
        "status": format!("WORKFLOW_EXECUTION_STATUS_{status}"), "startTime": began,
        "executionTime": began, "taskQueue": "lab", "historyLength": "2", "stateTransitionCount": "2",
    }});
    if !["RUNNING", "PAUSED"].contains(&status) {
        description["workflowExecutionInfo"]["closeTime"] = began.clone().into();
    }
    let history = json!({"events": [
        {"eventId": "1", "eventTime": began, "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED",
         "workflowExecutionStartedEventAttributes": {"workflowType": {"name": "Script"}, "attempt": 1}},
    ]});
    mock.put(&description, &history);
}

fn provider(mock: &Mock) -> TemporalProvider {
    let table = compiled_in("temporal").unwrap();
    TemporalProvider::new("test".parse().unwrap(), &mock.config(), table).unwrap()
}

async fn counted(provider: &TemporalProvider) -> BTreeMap<&'static str, String> {
    let call = Call::within(Duration::from_secs(20));
    let counts = provider.count(&call).await.unwrap();
    let description = provider.describe();
    let shown = counts.into_iter().map(|count| {
        let more = if count.at_least { "+" } else { "" };
        let shown = classify(&description.table, &count.example, Timestamp::now());
        let sub_state = shown.execution.sub_state.as_str();
        (sub_state, format!("{}{more}", count.count))
    });
    shown.collect()
}

#[tokio::test]
async fn a_workflow_with_several_runs_counts_once() {
    let mock = Mock::start().await;
    put(&mock, "cron", "COMPLETED", 90);
    put(&mock, "cron", "FAILED", 80);
    put(&mock, "cron", "RUNNING", 70);
    put(&mock, "again", "FAILED", 60);
    put(&mock, "again", "COMPLETED", 50);
    put(&mock, "chain", "CONTINUED_AS_NEW", 40);
    put(&mock, "chain", "TERMINATED", 30);
    put(&mock, "paused", "PAUSED", 20);
    let counts = counted(&provider(&mock)).await;
    let expected = [("failed", "1"), ("succeeded", "1"), ("waiting", "2")];
    assert_eq!(
        counts,
        expected
            .map(|(word, count)| (word, count.to_owned()))
            .into()
    );
}

#[tokio::test]
async fn what_was_not_described_is_counted_as_a_list_shows_it_and_the_others_may_be_more() {
    let mock = Mock::start().await;
    for number in 0..4 {
        put(&mock, &format!("open-{number}"), "RUNNING", 10 + number);
    }
    mock.exhaust(DESCRIBE, "RpsLimit");
    let counts = counted(&provider(&mock)).await;
    let expected = [
        ("backing-off", "0+"),
        ("error", "0+"),
        ("running", "4"),
        ("waiting", "0+"),
    ];
    assert_eq!(
        counts,
        expected
            .map(|(word, count)| (word, count.to_owned()))
            .into()
    );
}

#[tokio::test]
async fn more_runs_than_are_listed_are_counted_by_the_server() {
    let mock = Mock::start().await;
    // The oldest are not listed; the mock lists the newest start first.
    for number in 0..700 {
        put(
            &mock,
            &format!("old-{number}"),
            "COMPLETED",
            20_000 - number,
        );
    }
    for number in 0..5_100 {
        put(&mock, &format!("open-{number}"), "RUNNING", 6_000 - number);
    }
    mock.exhaust(DESCRIBE, "RpsLimit");
    let provider = provider(&mock);
    let since = Instant::now();
    let counts = counted(&provider).await;
    assert_eq!(counts["running"], "5100");
    assert_eq!(counts["succeeded"], "0+");
    assert!(!counts.contains_key("failed"), "{counts:?}");
    assert_eq!(mock.calls_since(since).get(LIST), Some(&5));
    assert_eq!(mock.calls_since(since).get(COUNT), Some(&1));
    // What took so many calls is remembered for a while.
    let since = Instant::now();
    assert_eq!(counted(&provider).await, counts);
    assert_eq!(mock.calls_since(since), BTreeMap::new());
    provider.clock().skip(Duration::from_secs(10));
    counted(&provider).await;
    assert!(!mock.calls_since(since).is_empty());
}

/// Puts more runs than a page has: the newest are open.
fn put_two_pages(mock: &Mock) {
    for number in 0..600 {
        put(mock, &format!("old-{number}"), "COMPLETED", 9_000 - number);
    }
    for number in 0..600 {
        put(mock, &format!("open-{number}"), "PAUSED", 2_000 - number);
    }
    mock.exhaust(DESCRIBE, "RpsLimit");
}

#[tokio::test]
async fn a_count_without_its_later_pages_is_incomplete_and_not_remembered() {
    let mock = Mock::start().await;
    put_two_pages(&mock);
    mock.refuse_nth(LIST, 2);
    let provider = provider(&mock);
    let counts = counted(&provider).await;
    assert_eq!(counts["waiting"], "600");
    assert_eq!(counts["succeeded"], "400+");
    let counts = counted(&provider).await;
    assert_eq!(counts["succeeded"], "600");
}

#[tokio::test]
async fn without_later_pages_and_the_servers_counts_every_number_may_be_more() {
    let mock = Mock::start().await;
    put_two_pages(&mock);
    mock.refuse_nth(LIST, 2);
    mock.refuse(COUNT);
    let counts = counted(&provider(&mock)).await;
    assert_eq!(counts["waiting"], "600+");
    assert_eq!(counts["succeeded"], "400+");
    assert_eq!(counts["failed"], "0+");
}

#[tokio::test]
async fn a_count_during_a_change_is_not_remembered() {
    let mock = Mock::start().await;
    put_two_pages(&mock);
    mock.allow(DESCRIBE);
    let provider = provider(&mock);
    let call = Call::within(Duration::from_secs(20));
    let mut count = provider.count(&call);
    assert!(futures::poll!(&mut count).is_pending());
    let request = CancelRequest {
        id: ExecutionId::new("open-7").unwrap(),
        mode: CancelMode::Kill,
        compensation: CompensationChoice::default(),
        comment: String::new(),
        request_id: "kill-7".parse().unwrap(),
    };
    provider.cancel(&call, request).await.unwrap();
    count.await.unwrap();
    let since = Instant::now();
    counted(&provider).await;
    assert!(mock.calls_since(since).contains_key(LIST));
}
