//! What the adapter does when the server asks to slow down: the calls that are meant wait, the others do not.

#![allow(clippy::unwrap_used)]

use crate::front;
use crate::mock;

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;
use stateway_contract_kit::Scene;
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, ErrorKind, ListPage, ListRequest, Observation, Provider, Result, SignalRequest, View,
    WatchScope, WatchStream, Watched,
};
use stateway_provider_temporal::TemporalProvider;
use stateway_provider_temporal::api::enums::v1::WorkflowExecutionStatus as Status;

use front::{call, put, server};
use mock::{Fault, Mock};

const LIST: &str = "ListWorkflowExecutions";
const DESCRIBE: &str = "DescribeWorkflowExecution";
const POLL: &str = "PollWorkflowExecutionHistory";

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

#[tokio::test]
async fn long_polls_leave_room_for_other_calls_on_a_narrow_connection() {
    let mock = Mock::with_streams(Some(100)).await;
    let table = compiled_in("temporal").unwrap();
    let provider = TemporalProvider::new("test".parse().unwrap(), &mock.config(), table).unwrap();
    let id = put(&mock, "idle", Scene::NoMetadata);
    let mut streams = Vec::new();
    for _ in 0..150 {
        let scope = WatchScope::One(id.clone());
        let mut stream = provider.watch(&call(), scope).await.unwrap();
        streams.push(tokio::spawn(async move {
            while stream.next().await.is_some() {}
        }));
    }
    let began = Instant::now();
    while mock.polls().open < 150 {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            mock.polls()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let soon = Call::within(Duration::from_secs(2));
    provider.get(&soon, &id, View::Basic).await.unwrap();
    for stream in streams {
        stream.abort();
    }
}

#[tokio::test]
async fn a_refused_token_of_a_long_poll_does_not_end_the_watch() {
    let (mock, provider) = server().await;
    let id = put(&mock, "idle", Scene::NoMetadata);
    mock.refuse_with(POLL, tonic::Code::InvalidArgument);
    let scope = WatchScope::One(id);
    let mut stream = provider.watch(&call(), scope).await.unwrap();
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
    let seen = seen_within(Duration::from_secs(10), &mut stream, has_timer);
    let ((), seen) = tokio::join!(refused, seen);
    assert!(seen, "the watch is blind after a refused poll");
}

#[tokio::test]
async fn gets_wait_for_their_turn() {
    let mock = Mock::start().await;
    let mut config = mock.config();
    config.quotas.reads = Quota {
        burst: 10,
        per_second: 50,
    };
    let table = compiled_in("temporal").unwrap();
    let provider = TemporalProvider::new("test".parse().unwrap(), &config, table).unwrap();
    let id = put(&mock, "idle", Scene::NoMetadata);
    let since = Instant::now();
    let (provider, id) = (&provider, &id);
    let gets = (0..100).map(|_| async move {
        provider.get(&call(), id, View::Basic).await.unwrap();
    });
    futures::future::join_all(gets).await;
    let busiest = mock.busiest_second(since, &[DESCRIBE]);
    assert!(busiest <= 60, "{busiest} descriptions in one second");
    let hurried = Call::within(Duration::from_millis(1));
    for _ in 0..20 {
        // The last of them would wait too long.
        let _ = provider.get(&hurried, id, View::Basic).await;
    }
    assert!(mock.busiest_second(since, &[DESCRIBE]) <= 70);
}

#[tokio::test]
async fn what_a_write_has_done_is_not_refused_for_lack_of_a_turn() {
    let mock = Mock::start().await;
    let mut config = mock.config();
    config.quotas.reads = Quota {
        burst: 4,
        per_second: 1,
    };
    let table = compiled_in("temporal").unwrap();
    let provider = TemporalProvider::new("test".parse().unwrap(), &config, table).unwrap();
    let id = put(&mock, "idle", Scene::NoMetadata);
    let (provider, id) = (&provider, &id);
    let signals = (0..20).map(|number| async move {
        let request = SignalRequest {
            id: id.clone(),
            signal: "go".to_owned(),
            request_id: format!("request-{number}").parse().unwrap(),
            payload: None,
        };
        let hurried = Call::within(Duration::from_secs(2));
        provider.signal(&hurried, request).await
    });
    for answer in futures::future::join_all(signals).await {
        answer.unwrap();
    }
}

#[tokio::test]
async fn a_list_is_never_older_than_its_own_rows() {
    let (mock, provider) = server().await;
    put(&mock, "idle", Scene::NoMetadata);
    let page = list(&provider, Duration::from_secs(5)).await.unwrap();
    assert_eq!(page.observations[0].native.state, "RUNNING");
    mock.change(|world| {
        let info = world.runs[0].info();
        info.status = Status::Paused.into();
    });
    mock.exhaust(DESCRIBE, "RpsLimit");
    let page = list(&provider, Duration::from_secs(5)).await.unwrap();
    assert_eq!(page.observations[0].native.state, "PAUSED");
}

#[tokio::test]
async fn what_is_known_of_a_queue_is_kept_while_it_cannot_be_asked_about() {
    let (mock, provider) = server().await;
    let id = put(&mock, "idle", Scene::NoMetadata);
    mock.change(|world| {
        world.runs[0].set_pending_task(Some(1));
        world.runs[0].info().task_queue = "nobody".to_owned();
    });
    let (provider, id) = (&provider, &id);
    let has_no_worker = || async move {
        let seen = provider.get(&call(), id, View::Basic).await.unwrap();
        let qualifiers = seen.steps.iter().map(|step| &step.native.qualifiers);
        qualifiers
            .filter_map(|it| it.get("workers"))
            .any(|it| it == "none")
    };
    assert!(has_no_worker().await);
    mock.refuse("DescribeTaskQueue");
    provider.clock().skip(Duration::from_secs(6));
    assert!(has_no_worker().await, "the state alternates");
    mock.allow("DescribeTaskQueue");
    mock.change(|world| {
        world.polled.insert("nobody".to_owned());
    });
    provider.clock().skip(Duration::from_secs(6));
    assert!(!has_no_worker().await);
}
