//! What watches cost: 1,000 open executions, 100 of them between two attempts, on a server that counts calls. The
//! quotas of a self-hosted server are kept, and changes are seen soon.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

mod mock;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Mapper, Observation, Provider, WatchScope, WatchStream, Watched,
};
use stateway_provider_temporal::TemporalProvider;
use stateway_provider_temporal::api::enums::v1::WorkflowExecutionStatus;
use tokio::sync::mpsc;

use mock::Mock;

/// All executions, and those of them that back off.
const ALL: usize = 1_000;
const RESTING: usize = 100;
/// The defaults of a self-hosted server, for each namespace.
const VISIBILITY_PER_SECOND: usize = 10;
const CALLS_PER_SECOND: usize = 2_400;
const LONG_POLLS: usize = 1_200;
/// How long the calls are counted.
const COUNTED: Duration = Duration::from_secs(8);
/// How long a change may take to be seen.
const PATIENCE: Duration = Duration::from_secs(30);

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

async fn server() -> (Mock, Arc<TemporalProvider>) {
    let mock = Mock::start().await;
    for number in 0..ALL {
        let (description, history) = execution(number);
        mock.put(&description, &history);
    }
    let table = compiled_in("temporal").unwrap();
    let provider = TemporalProvider::new("cost".parse().unwrap(), &mock.config(), table);
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
}

fn assert_within_quotas(mock: &Mock, since: Instant) {
    let lists = mock.busiest_second(since, &VISIBILITY);
    assert!(
        lists <= VISIBILITY_PER_SECOND,
        "{lists} lists in one second"
    );
    let all: Vec<&str> = VISIBILITY.iter().chain(&READS).copied().collect();
    let calls = mock.busiest_second(since, &all);
    assert!(calls <= CALLS_PER_SECOND, "{calls} calls in one second");
    let polls = mock.polls().most;
    assert!(polls <= LONG_POLLS, "{polls} long polls");
    println!("summary: temporal: in the busiest second {lists} lists, {calls} calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_all_keeps_the_quotas() {
    let (mock, provider) = server().await;
    let began = Instant::now();
    let call = Call::within(Duration::from_secs(30));
    let stream = provider.watch(&call, WatchScope::All).await.unwrap();
    let (into, mut seen) = mpsc::unbounded_channel();
    follow(stream, into);
    measure("one watch", &mock, &mut seen).await;
    assert_within_quotas(&mock, began);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watches_of_one_keep_the_quotas() {
    let (mock, provider) = server().await;
    let began = Instant::now();
    let (into, mut seen) = mpsc::unbounded_channel();
    for number in 0..ALL {
        let call = Call::within(Duration::from_secs(30));
        let scope = WatchScope::One(ExecutionId::new(id(number)).unwrap());
        follow(provider.watch(&call, scope).await.unwrap(), into.clone());
    }
    measure("a watch for each", &mock, &mut seen).await;
    assert_within_quotas(&mock, began);
}
