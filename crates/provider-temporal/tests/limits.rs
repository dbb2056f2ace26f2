//! What the adapter does when the server asks to slow down: the calls that are meant wait, the others do not.

#![allow(clippy::unwrap_used)]

mod mock;
mod scenes;
mod support;

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;
use stateway_contract_kit::Scene;
use stateway_model::ExecutionId;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, ErrorKind, ListPage, ListRequest, Observation, Provider, Result, View, WatchScope,
    WatchStream, Watched,
};
use stateway_provider_temporal::TemporalProvider;

use mock::{Fault, Mock};

const LIST: &str = "ListWorkflowExecutions";
const DESCRIBE: &str = "DescribeWorkflowExecution";
const POLL: &str = "PollWorkflowExecutionHistory";

async fn server() -> (Mock, TemporalProvider) {
    let mock = Mock::start().await;
    let table = compiled_in("temporal").unwrap();
    let provider = TemporalProvider::new("test".parse().unwrap(), &mock.config(), table);
    (mock, provider.unwrap())
}

fn call() -> Call {
    Call::within(Duration::from_secs(20))
}

fn put(mock: &Mock, name: &str, scene: Scene) -> ExecutionId {
    let workflow = scenes::staged(name, scene).unwrap();
    for run in &workflow.runs {
        mock.put(&run.description, &run.history);
    }
    ExecutionId::new(workflow.execution_id).unwrap()
}

async fn list(provider: &TemporalProvider, patience: Duration) -> Result<ListPage> {
    let request = ListRequest {
        hints: Hints::none(),
        page_size: 10,
        cursor: None,
    };
    provider.list(&Call::within(patience), request).await
}

async fn seen_within(
    patience: Duration,
    stream: &mut WatchStream,
    wanted: impl Fn(&Observation) -> bool,
) -> bool {
    let found = async {
        while let Some(item) = stream.next().await {
            if matches!(item.unwrap(), Watched::Seen(seen) if wanted(&seen)) {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(patience, found).await.unwrap_or(false)
}

#[tokio::test]
async fn a_refused_long_poll_does_not_pause_descriptions_and_is_made_again() {
    let (mock, provider) = server().await;
    let id = put(&mock, "idle", Scene::NoMetadata);
    mock.exhaust(POLL, "ConcurrentLimit");
    let mut stream = provider.watch(&call(), WatchScope::One(id)).await.unwrap();
    let refused = async {
        let began = Instant::now();
        while !mock.calls_since(began).contains_key(POLL) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        mock.change(|world| {
            let timer = json!({"timerId": "new", "startToFireTimeout": "600s"});
            world.runs[0].record("TIMER_STARTED", &timer);
        });
    };
    let has_timer = |seen: &Observation| seen.steps.iter().any(|step| step.name.contains("new"));
    let seen = seen_within(Duration::from_secs(4), &mut stream, has_timer);
    let ((), seen) = tokio::join!(refused, seen);
    assert!(seen, "descriptions are paused by a refused long poll");
    mock.allow(POLL);
    provider.clock().skip(Duration::from_secs(60));
    let polled = async {
        while mock.polls().open == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let following = seen_within(Duration::from_secs(15), &mut stream, |_| false);
    tokio::select! {
        () = polled => {}
        _ = following => panic!("the watch does not poll again"),
    }
}

#[tokio::test]
async fn a_refused_list_is_not_repeated_before_the_pause_is_over() {
    let (mock, provider) = server().await;
    put(&mock, "idle", Scene::NoMetadata);
    mock.inject(Fault::Throttle(Duration::from_secs(7)));
    let patience = Duration::from_secs(2);
    let refused = list(&provider, patience).await.unwrap_err();
    assert_eq!(refused.retry_after, Some(Duration::from_secs(7)));
    let since = Instant::now();
    let refused = list(&provider, patience).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Throttled);
    assert!(refused.retry_after > Some(Duration::from_secs(5)));
    assert_eq!(mock.calls_since(since).get(LIST), None);
    provider.clock().skip(Duration::from_secs(7));
    assert_eq!(
        list(&provider, patience).await.unwrap().observations.len(),
        1
    );
}

#[tokio::test]
async fn one_busy_workflow_does_not_pause_reads_of_the_others() {
    let (mock, provider) = server().await;
    let id = put(&mock, "idle", Scene::NoMetadata);
    for (cause, described) in [("BusyWorkflow", true), ("RpsLimit", false)] {
        mock.inject(Fault::Exhausted(cause));
        let refused = provider.get(&call(), &id, View::Basic).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Throttled);
        let since = Instant::now();
        list(&provider, Duration::from_secs(5)).await.unwrap();
        let calls = mock.calls_since(since);
        assert_eq!(
            calls.contains_key(DESCRIBE),
            described,
            "{cause}: {calls:?}"
        );
    }
}
