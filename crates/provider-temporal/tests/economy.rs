//! What watches cost: 1,000 open executions, 100 of them between two attempts, on a server that counts calls. The
//! quotas of a self-hosted server are kept, and changes are seen soon.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

mod mock;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Mapper, Observation, Provider, WatchScope, WatchStream, Watched,
};
use stateway_provider_temporal::api::enums::v1::WorkflowExecutionStatus;
use stateway_provider_temporal::{Config, RequestQuotas, TemporalProvider};
use tokio::sync::mpsc;

use mock::Mock;

/// All executions, and those of them that back off.
const ALL: usize = 1_000;
const RESTING: usize = 100;
/// How long the calls are counted.
const COUNTED: Duration = Duration::from_secs(8);
/// How long a test waits for a change.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the next attempt of a step, and an end, may take to be seen.
const LATEST_ATTEMPT: Duration = Duration::from_secs(12);
const LATEST_END: Duration = Duration::from_secs(3);

const VISIBILITY: [&str; 2] = ["ListWorkflowExecutions", "CountWorkflowExecutions"];
const READS: [&str; 5] = [
    "DescribeWorkflowExecution",
    "GetWorkflowExecutionHistory",
    "GetWorkflowExecutionHistoryReverse",
    "PollWorkflowExecutionHistory",
    "DescribeTaskQueue",
];

fn id(number: usize) -> String {
    format!("order-{number:04}")
}

fn execution(number: usize) -> (Value, Value) {
    let began = (Timestamp::now() - 10.minutes()).to_string();
    let mut description = json!({
        "workflowExecutionInfo": {
            "execution": {"workflowId": id(number), "runId": format!("0cc1e1af-0fa0-788e-9075-{number:012x}")},
            "type": {"name": "Script"}, "status": "WORKFLOW_EXECUTION_STATUS_RUNNING",
            "startTime": began, "executionTime": began, "taskQueue": "lab",
            "historyLength": "5", "stateTransitionCount": "5",
        },
    });
    let mut events = vec![json!({
        "eventId": "1", "eventTime": began, "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED",
        "workflowExecutionStartedEventAttributes": {"workflowType": {"name": "Script"}, "attempt": 1},
    })];
    if number < RESTING {
        let next = Timestamp::now() + 5.minutes();
        description["pendingActivities"] = json!([{
            "activityId": "charge", "activityType": {"name": "pay"}, "attempt": 2,
            "state": "PENDING_ACTIVITY_STATE_SCHEDULED", "nextAttemptScheduleTime": next.to_string(),
            "lastFailure": {"message": "card declined"},
            "activityOptions": {"taskQueue": {"name": "lab"}},
        }]);
    } else {
        events.push(json!({
            "eventId": "2", "eventTime": began, "eventType": "EVENT_TYPE_TIMER_STARTED",
            "timerStartedEventAttributes": {"timerId": "1", "startToFireTimeout": "86400s"},
        }));
    }
    (description, json!({"events": events}))
}

async fn server(
    quotas: &RequestQuotas,
    long_polls: Option<usize>,
) -> (Mock, Arc<TemporalProvider>) {
    server_with(ALL, quotas, long_polls).await
}

async fn server_with(
    count: usize,
    quotas: &RequestQuotas,
    long_polls: Option<usize>,
) -> (Mock, Arc<TemporalProvider>) {
    let mock = Mock::start().await;
    for number in 0..count {
        let (description, history) = execution(number);
        mock.put(&description, &history);
    }
    let table = compiled_in("temporal").unwrap();
    let mut config = mock.config();
    config.quotas = *quotas;
    config.max_long_polls = long_polls.unwrap_or(config.max_long_polls);
    let provider = TemporalProvider::new("cost".parse().unwrap(), &config, table);
    (mock, Arc::new(provider.unwrap()))
}

fn sub_state(seen: Observation) -> (String, SubState, u32) {
    let table = compiled_in("temporal").unwrap();
    let mapper = Mapper::new("cost".parse().unwrap());
    let id = seen.id.as_str().to_owned();
    let shown = mapper.execution(&table, seen, Timestamp::now());
    (id, shown.sub_state, shown.retry.attempt)
}

/// Sends what a stream sees.
fn follow(mut stream: WatchStream, into: mpsc::UnboundedSender<(String, SubState, u32)>) {
    tokio::spawn(async move {
        while let Some(item) = stream.next().await {
            match item {
                Ok(Watched::Seen(seen)) => {
                    if into.send(sub_state(*seen)).is_err() {
                        return;
                    }
                }
                Ok(_) => {}
                Err(error) => panic!("a watch ended: {error}"),
            }
        }
    });
}

/// Waits until an execution is seen like this.
async fn until(
    seen: &mut mpsc::UnboundedReceiver<(String, SubState, u32)>,
    wanted: impl Fn(&(String, SubState, u32)) -> bool,
) -> Duration {
    let began = Instant::now();
    let look = async {
        while let Some(item) = seen.recv().await {
            if wanted(&item) {
                return;
            }
        }
        panic!("every stream ended");
    };
    tokio::time::timeout(PATIENCE, look)
        .await
        .expect("the change is seen");
    began.elapsed()
}

/// The second attempt of an execution that rests failed, and another execution ended.
async fn measure(
    what: &str,
    mock: &Mock,
    seen: &mut mpsc::UnboundedReceiver<(String, SubState, u32)>,
) {
    let since = Instant::now();
    tokio::time::sleep(COUNTED).await;
    let calls = mock.calls_since(since);
    let rate = |names: &[&str]| {
        let count: usize = names.iter().filter_map(|name| calls.get(name)).sum();
        count as f64 / COUNTED.as_secs_f64()
    };
    let (lists, reads) = (rate(&VISIBILITY), rate(&READS));
    while seen.try_recv().is_ok() {}

    let mut delays = Vec::new();
    for number in [7, 42, 99] {
        let resting = id(number);
        mock.change(|world| {
            let run = world
                .runs
                .iter_mut()
                .find(|run| run.id() == resting)
                .unwrap();
            run.described.pending_activities[0].attempt += 1;
            run.moved();
        });
        let wanted = |(id, sub_state, attempt): &(String, SubState, u32)| {
            *id == resting && *sub_state == SubState::BackingOff && *attempt == 2
        };
        delays.push(until(seen, wanted).await);
    }
    let retried = delays.iter().max().copied().unwrap();
    let mut delays = Vec::new();
    for number in [200, 600, 999] {
        let open = id(number);
        mock.change(|world| {
            let run = world.runs.iter_mut().find(|run| run.id() == open).unwrap();
            let status = WorkflowExecutionStatus::Terminated;
            run.close(status, "WORKFLOW_EXECUTION_TERMINATED", &json!({}));
        });
        let wanted = |(id, sub_state, _): &(String, SubState, u32)| {
            *id == open && *sub_state == SubState::Failed
        };
        delays.push(until(seen, wanted).await);
    }
    let ended = delays.iter().max().copied().unwrap();
    println!(
        "summary: temporal: {what} of {ALL} executions, {RESTING} in back-off: {lists:.1} lists/s, \
         {reads:.0} reads/s, {} long polls; the next attempt seen after {retried:.1?}, an end after {ended:.1?}",
        mock.polls().most
    );
    assert!(retried <= LATEST_ATTEMPT, "an attempt after {retried:?}");
    let latest = if what == "one watch" {
        LATEST_END
    } else {
        LATEST_ATTEMPT
    };
    assert!(ended <= latest, "an end after {ended:?}");
    assert!(lists <= 2.0, "{lists} lists a second");
}

/// A bucket allows its burst and what flows into it.
fn allowed(quota: Quota, time: Duration) -> usize {
    let flows = f64::from(quota.per_second) * time.as_secs_f64();
    quota.burst as usize + flows.ceil() as usize
}

/// The calls of watches since this moment, against the configured quotas. People made none.
fn assert_within_quotas(mock: &Mock, quotas: &RequestQuotas, since: Instant) {
    let second = Duration::from_secs(1);
    for (names, quota) in [
        (&VISIBILITY[..], quotas.visibility),
        (&READS[..], quotas.reads),
    ] {
        let busiest = mock.busiest_second(since, names);
        let most = allowed(quota, second);
        assert!(
            busiest <= most,
            "{busiest} calls in one second of {names:?}"
        );
        let calls = mock.calls_since(since);
        let count: usize = names.iter().filter_map(|name| calls.get(name)).sum();
        let most = allowed(quota, since.elapsed());
        assert!(count <= most, "{count} calls of {names:?}, {most} allowed");
        println!("summary: temporal: in the busiest second {busiest} calls of {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_all_keeps_the_quotas() {
    let quotas = RequestQuotas::default();
    let (mock, provider) = server(&quotas, None).await;
    let began = Instant::now();
    let call = Call::within(Duration::from_secs(30));
    let stream = provider.watch(&call, WatchScope::All).await.unwrap();
    let (into, mut seen) = mpsc::unbounded_channel();
    follow(stream, into);
    measure("one watch", &mock, &mut seen).await;
    assert_within_quotas(&mock, &quotas, began);
}

/// Opens a watch for each of the first executions, which people ask for, and waits for these calls to end.
async fn watch_each(
    provider: &TemporalProvider,
    count: usize,
) -> mpsc::UnboundedReceiver<(String, SubState, u32)> {
    let (into, seen) = mpsc::unbounded_channel();
    for number in 0..count {
        let call = Call::within(Duration::from_secs(30));
        let scope = WatchScope::One(ExecutionId::new(id(number)).unwrap());
        follow(provider.watch(&call, scope).await.unwrap(), into.clone());
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watches_of_one_keep_the_quotas() {
    let quotas = RequestQuotas::default();
    let (mock, provider) = server(&quotas, None).await;
    let mut seen = watch_each(&provider, ALL).await;
    let began = Instant::now();
    measure("a watch for each", &mock, &mut seen).await;
    assert_within_quotas(&mock, &quotas, began);
    assert_eq!(mock.polls().most, Config::LONG_POLLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_without_a_long_poll_keep_a_small_quota() {
    let small = Quota {
        burst: 20,
        per_second: 50,
    };
    let quotas = RequestQuotas {
        reads: small,
        ..RequestQuotas::default()
    };
    let (mock, provider) = server(&quotas, Some(0)).await;
    let _seen = watch_each(&provider, RESTING).await;
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_within_quotas(&mock, &quotas, began);
    let calls = mock.calls_since(began);
    assert!(calls.contains_key("DescribeWorkflowExecution"), "{calls:?}");
}

/// The memory of this process, in MiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<usize>().ok())
        .unwrap_or_default()
        / 1_024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_open_executions_stay_within_quota_and_memory() {
    const MANY: usize = 10_000;
    // Each is read twice: its description and its history.
    let reads = Quota {
        burst: 1_000,
        per_second: 1_000,
    };
    let quotas = RequestQuotas {
        reads,
        ..RequestQuotas::default()
    };
    let (mock, provider) = server_with(MANY, &quotas, None).await;
    let (before, began) = (memory(), Instant::now());
    let call = Call::within(Duration::from_secs(30));
    let mut stream = provider.watch(&call, WatchScope::All).await.unwrap();
    let (mut known, mut described, mut synced) = (BTreeSet::new(), BTreeSet::new(), None);
    let reading = async {
        while described.len() < MANY {
            match stream.next().await.unwrap().unwrap() {
                Watched::Seen(seen) => {
                    if !seen.is_partial {
                        described.insert(seen.id.clone());
                    }
                    known.insert(seen.id.clone());
                }
                Watched::Gone(id) => panic!("{id} is reported as gone"),
                Watched::InSync => {
                    assert_eq!(known.len(), MANY);
                    synced = Some(began.elapsed());
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(300), reading)
        .await
        .expect("every execution is described");
    let took = began.elapsed();
    // Nothing is forgotten: what was read once is not read twice again.
    let since = Instant::now();
    let (into, mut seen) = mpsc::unbounded_channel();
    follow(stream, into);
    tokio::time::sleep(COUNTED).await;
    let histories = mock.calls_since(since);
    let histories = histories.get("GetWorkflowExecutionHistoryReverse").copied();
    assert!(
        histories.unwrap_or_default() < 100,
        "{histories:?} histories"
    );
    while seen.try_recv().is_ok() {}
    let open = id(9_000);
    mock.change(|world| {
        let run = world.runs.iter_mut().find(|run| run.id() == open).unwrap();
        let status = WorkflowExecutionStatus::Terminated;
        run.close(status, "WORKFLOW_EXECUTION_TERMINATED", &json!({}));
    });
    let ended = until(&mut seen, |(id, state, _)| {
        *id == open && *state == SubState::Failed
    })
    .await;
    let grown = memory().saturating_sub(before);
    println!(
        "summary: temporal: {MANY} open executions: current set after {:.1?}, all described after \
         {took:.1?}, an end after {ended:.1?}, {grown} MiB more memory",
        synced.unwrap()
    );
    assert!(grown <= 200, "{grown} MiB more memory");
    assert_within_quotas(&mock, &quotas, began);
}
