//! The full view of events: what was recorded, and which event, request or person caused it.

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::ExecutionView;
use stateway_provider_api::{Capabilities, Verb};

use crate::support::{BuiltInRig, Puppet, TestGateway, TestWorker, by, clock, json_of, reason_of};

const CHAIN: &str = "\
name: chain
steps:
  - {name: a, agent: x, timeout: 5m}
  - {name: b, agent: x, timeout: 5m, dependsOn: [a]}
";

async fn worker(rig: &BuiltInRig) -> TestWorker {
    let offer = v1::Offer {
        worker_id: "w1".into(),
        roles: vec!["x".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

fn request(id: &str, view: ExecutionView) -> v1::ListEventsRequest {
    v1::ListEventsRequest {
        parent: format!("providers/b/executions/{id}"),
        view: view.into(),
        ..v1::ListEventsRequest::default()
    }
}

fn branch(id: &str, branch: &str) -> String {
    format!("providers/b/executions/{id}/branches/{branch}")
}

async fn events(rig: &BuiltInRig, request: v1::ListEventsRequest) -> Vec<v1::Event> {
    let mut client = rig.gateway.executions().await;
    let listed = client.list_events(request).await.expect("a page");
    listed.into_inner().events
}

fn find<'e>(events: &'e [v1::Event], native_type: &str, step: &str) -> &'e v1::Event {
    let found = events
        .iter()
        .find(|event| event.native_type == native_type && event.step == step);
    found.unwrap_or_else(|| panic!("no {native_type} of {step} in {events:#?}"))
}

#[tokio::test]
async fn an_event_tells_its_payload_its_cause_its_request_and_who_acted() {
    let rig = BuiltInRig::start().await;
    rig.apply(CHAIN).await;
    let mut worker = worker(&rig).await;
    let start = v1::StartExecutionRequest {
        definition: "definitions/chain".into(),
        execution_id: "c1".into(),
        request_id: "start-1".into(),
        ..v1::StartExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.start_execution(by("ada", "", start)).await.unwrap();
    let a = worker.task().await;
    worker.complete(&a, &json!({"n": 1}));
    worker.task().await;
    let told = events(&rig, request("c1", ExecutionView::Full)).await;
    let created = find(&told, "ExecutionCreated", "");
    assert_eq!(
        (&*created.request_id, created.cause_sequence),
        ("start-1", 0)
    );
    assert_eq!((&*created.actor, &*created.correlation_id), ("ada", "c1"));
    let completed = find(&told, "StepCompleted", "a");
    assert_eq!(
        json_of(completed.payload.as_ref()),
        json!({"StepCompleted": {"step": "a", "attempt": 1, "output": {"n": 1}}})
    );
    assert_eq!(completed.actor, "w1");
    // The next step was started because the one before it completed.
    let started = find(&told, "StepStarted", "b");
    assert_eq!(started.cause_sequence, completed.sequence);
    // The basic view tells none of it.
    for event in events(&rig, request("c1", ExecutionView::Unspecified)).await {
        assert_eq!(event.payload, None);
        assert!(event.request_id.is_empty() && event.actor.is_empty());
        assert_eq!(event.cause_sequence, 0);
    }
}

#[tokio::test]
async fn a_cause_on_another_branch_is_named_by_the_number_it_has_in_the_answer() {
    let rig = BuiltInRig::start().await;
    rig.apply(CHAIN).await;
    let mut worker = worker(&rig).await;
    rig.begin("chain", "c1", "ada", json!(null)).await;
    let a = worker.task().await;
    worker.complete(&a, &json!(1));
    let b = worker.task().await;
    worker.fail(&b, v1::ErrorCategory::AgentError);
    rig.until("c1", |view| view.native_state == "failed").await;
    rig.retry_from("c1", "b", "olga").await;
    let b = worker.task().await;
    worker.complete(&b, &json!(2));
    rig.until("c1", |view| view.native_state == "completed")
        .await;
    let whole = events(&rig, request("c1", ExecutionView::Full)).await;
    let numbers: Vec<_> = whole.iter().map(|event| event.sequence).collect();
    assert_eq!(
        numbers,
        (1..=i64::try_from(whole.len()).unwrap()).collect::<Vec<_>>()
    );
    let opened = find(&whole, "BranchOpened", "");
    assert_eq!((&*opened.actor, opened.cause_sequence), ("olga", 0));
    let mut caused = whole.iter().filter(|event| event.cause_sequence > 0);
    assert!(caused.all(|event| event.cause_sequence < event.sequence));
    let again = whole
        .iter()
        .rfind(|event| event.native_type == "StepCompleted");
    let again = again.expect("b completed");
    let cause = &whole[usize::try_from(again.cause_sequence).unwrap() - 1];
    assert_eq!((&*cause.native_type, &*cause.step), ("TaskAssigned", "b"));
    assert!(cause.sequence > opened.sequence);
    // Along one branch the numbers are the log's own.
    let along = v1::ListEventsRequest {
        branch: branch("c1", "current"),
        ..request("c1", ExecutionView::Full)
    };
    let along = events(&rig, along).await;
    let again = along
        .iter()
        .rfind(|event| event.native_type == "StepCompleted");
    let again = again.expect("b completed");
    let cause = along
        .iter()
        .find(|event| event.sequence == again.cause_sequence);
    assert_eq!(cause.expect("it is there").native_type, "TaskAssigned");
}

#[tokio::test]
async fn a_child_has_the_correlation_of_its_parent() {
    let rig = BuiltInRig::start().await;
    rig.apply("{name: import, steps: [{name: load, agent: x, timeout: 5m}]}")
        .await;
    rig.apply("{name: nightly, steps: [{name: shop, workflow: import, timeout: 5m}]}")
        .await;
    let mut worker = worker(&rig).await;
    rig.begin("nightly", "n1", "ada", json!(null)).await;
    worker.task().await;
    let told = events(&rig, request("n1~shop~1", ExecutionView::Full)).await;
    assert!(told.iter().all(|event| event.correlation_id == "n1"));
}

#[tokio::test]
async fn a_long_payload_is_cut_and_a_page_holds_a_bounded_number_of_bytes() {
    let rig = BuiltInRig::start().await;
    rig.apply("{name: one, steps: [{name: a, agent: x, timeout: 5m}]}")
        .await;
    let long = json!({"text": "x".repeat(20_000)});
    rig.begin("one", "l1", "ada", long).await;
    let told = events(&rig, request("l1", ExecutionView::Full)).await;
    let created = find(&told, "ExecutionCreated", "");
    assert!(created.payload_truncated);
    let payload = created.payload.as_ref().expect("a payload");
    assert_eq!(payload.data.len(), 16 * 1024);
    assert_eq!(payload.content_type, "text/plain; charset=utf-8");
    // 80 signals and the events that complete their steps, 16 KiB each, do not fit on one page.
    let mut client = rig.gateway.executions().await;
    let steps: Vec<_> = (0..80)
        .map(|n| json!({"name": format!("s{n}"), "signal": "go", "timeout": "5m"}))
        .collect();
    rig.apply(&json!({"name": "wait", "steps": steps}).to_string())
        .await;
    rig.begin("wait", "l2", "ada", json!(null)).await;
    for _ in 0..80 {
        let signal = v1::SignalExecutionRequest {
            name: "providers/b/executions/l2".into(),
            signal: "go".into(),
            payload: Some(v1::Payload {
                data: json!("x".repeat(20_000)).to_string().into(),
                content_type: String::new(),
            }),
            ..v1::SignalExecutionRequest::default()
        };
        client.signal_execution(signal).await.expect("it is taken");
    }
    for branch in [String::new(), branch("l2", "current")] {
        let (mut seen, mut pages, mut token) = (0, 0, String::new());
        loop {
            let page = v1::ListEventsRequest {
                page_size: 1_000,
                page_token: token,
                branch: branch.clone(),
                ..request("l2", ExecutionView::Full)
            };
            let page = client.list_events(page).await.expect("a page").into_inner();
            let bytes = page
                .events
                .iter()
                .filter_map(|event| event.payload.as_ref());
            let bytes: usize = bytes.map(|payload| payload.data.len()).sum();
            assert!(bytes <= 2 * 1024 * 1024, "{bytes}");
            seen += page
                .events
                .iter()
                .filter(|event| event.native_type == "SignalReceived")
                .count();
            pages += 1;
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!((seen, pages), (80, 2));
    }
}

#[tokio::test]
async fn an_engine_that_records_no_more_leaves_it_empty() {
    let clock = clock();
    let gateway = TestGateway::new().with_memory("m", &clock).start().await;
    let mut client = gateway.executions().await;
    let start = v1::StartExecutionRequest {
        definition: "providers/m/definitions/hello".into(),
        ..v1::StartExecutionRequest::default()
    };
    let started = client.start_execution(start).await.unwrap().into_inner();
    let full = v1::ListEventsRequest {
        parent: started.name,
        view: ExecutionView::Full.into(),
        ..v1::ListEventsRequest::default()
    };
    let page = client.list_events(full).await.unwrap().into_inner();
    assert!(!page.events.is_empty());
    for event in page.events {
        assert!(event.payload.is_none() && event.correlation_id.is_empty());
    }
}

/// Every page of a list of events, checked against its size.
async fn pages_of(rig: &BuiltInRig, mut request: v1::ListEventsRequest) -> Vec<v1::Event> {
    let (mut found, mut client) = (Vec::new(), rig.gateway.executions().await);
    loop {
        let page = client.list_events(request.clone()).await.expect("a page");
        let page = page.into_inner();
        assert!(page.events.len() <= request.page_size as usize);
        found.extend(page.events);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return found;
        }
    }
}

/// An execution whose step failed many times, then was run again on a second branch.
async fn long_and_branched() -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(
        "name: long\nsteps:\n  - {name: first, sleep: 1ms}\n  - name: pay\n    agent: w\n    \
         timeout: 1m\n    dependsOn: [first]\n    onFailure: pause\n    retryPolicy: \
         {maxRetries: 150, backoff: constant, initialDelay: 1ms, maxDelay: 1ms}\n",
    )
    .await;
    let offer = v1::Offer {
        worker_id: "w-1".into(),
        roles: vec!["w".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    rig.begin("long", "n1", "ada", json!({})).await;
    for _ in 0..=150 {
        let task = worker.task().await;
        worker.fail(&task, v1::ErrorCategory::Transient);
    }
    rig.until("n1", |view| view.native_state == "paused").await;
    let again = v1::RetryFromRequest {
        name: "providers/b/executions/n1".into(),
        origin: Some(v1::retry_from_request::Origin::Step("pay".into())),
        ..v1::RetryFromRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.retry_from(by("ops", "", again)).await.unwrap();
    let task = worker.task().await;
    worker.complete(&task, &json!({}));
    rig.until("n1", |view| view.native_state == "completed")
        .await;
    rig
}

#[tokio::test]
async fn a_long_history_with_branches_is_the_same_from_both_ends() {
    let rig = long_and_branched().await;
    for number in ["", "current", "-", "0", "1"] {
        let branch = if number.is_empty() {
            String::new()
        } else {
            branch("n1", number)
        };
        for view in [ExecutionView::Basic, ExecutionView::Full] {
            let request = |order_by: &str, page_size| v1::ListEventsRequest {
                order_by: order_by.into(),
                page_size,
                branch: branch.clone(),
                ..request("n1", view)
            };
            let mut oldest = pages_of(&rig, request("", 1_000)).await;
            let is_long = oldest.len() > 300;
            assert_eq!(is_long, ["", "-", "0"].contains(&number), "{branch}");
            oldest.reverse();
            for page_size in [1_000, 7] {
                let newest = pages_of(&rig, request("sequence desc", page_size)).await;
                assert_eq!(newest, oldest, "{branch} {view:?} in pages of {page_size}");
            }
        }
    }
}

#[tokio::test]
async fn a_page_token_continues_in_its_own_order_only() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: nap\nsteps: [{name: rest, sleep: 1ms}]\n")
        .await;
    rig.begin("nap", "n1", "ada", json!({})).await;
    rig.until("n1", |view| view.native_state == "completed")
        .await;
    let mut client = rig.gateway.executions().await;
    for (order, other) in [("", "sequence desc"), ("sequence desc", "sequence")] {
        let mut list = v1::ListEventsRequest {
            order_by: order.into(),
            page_size: 1,
            ..request("n1", ExecutionView::Basic)
        };
        let page = client.list_events(list.clone()).await.unwrap();
        list.page_token = page.into_inner().next_page_token;
        list.order_by = other.into();
        let status = client.list_events(list).await.unwrap_err();
        assert_eq!(reason_of(&status), "INVALID_PAGE_TOKEN");
    }
}

#[tokio::test]
async fn the_newest_events_are_read_from_the_end_where_the_provider_can() {
    let without = Capabilities {
        history_newest_first: false,
        ..Capabilities::ALL
    };
    let (able, unable) = (Puppet::new(), Puppet::with_capabilities(without));
    let gateway = TestGateway::new()
        .with_puppet("able", &able)
        .with_puppet("unable", &unable)
        .start()
        .await;
    let mut client = gateway.executions().await;
    let list = |provider: &str| v1::ListEventsRequest {
        parent: format!("providers/{provider}/executions/e"),
        order_by: "sequence desc".into(),
        page_size: 3,
        ..v1::ListEventsRequest::default()
    };
    for puppet in [&able, &unable] {
        puppet.show("e", "RUNNING");
        puppet.have_events(5_000);
    }
    for (provider, puppet, calls) in [("able", &able, 1), ("unable", &unable, 5)] {
        let page = client.list_events(list(provider)).await.unwrap();
        let page = page.into_inner();
        let numbers: Vec<_> = page.events.iter().map(|event| event.sequence).collect();
        assert_eq!(numbers, [5_000, 4_999, 4_998], "{provider}");
        assert_eq!(puppet.asked(Verb::History), calls, "{provider}");
    }
    able.have_events(200_000);
    unable.have_events(200_000);
    let page = client.list_events(list("able")).await.unwrap().into_inner();
    assert_eq!(page.events[0].sequence, 200_000);
    let status = client.list_events(list("unable")).await.unwrap_err();
    assert_eq!(reason_of(&status), "HISTORY_TOO_LONG");
}

#[tokio::test]
async fn events_are_listed_newest_first_when_asked_for() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: nap\nsteps: [{name: rest, sleep: 1ms}]\n")
        .await;
    rig.begin("nap", "n1", "ada", json!({})).await;
    rig.until("n1", |view| view.native_state == "completed")
        .await;
    let oldest = events(&rig, request("n1", ExecutionView::Basic)).await;
    for branch in [String::new(), branch("n1", "current"), branch("n1", "-")] {
        let mut newest = v1::ListEventsRequest {
            order_by: "sequence desc".into(),
            page_size: 2,
            branch: branch.clone(),
            ..request("n1", ExecutionView::Basic)
        };
        let (mut found, mut client) = (Vec::new(), rig.gateway.executions().await);
        loop {
            let page = client.list_events(newest.clone()).await.expect("a page");
            let page = page.into_inner();
            found.extend(page.events);
            newest.page_token = page.next_page_token;
            if newest.page_token.is_empty() {
                break;
            }
        }
        found.reverse();
        let numbers = |events: &[v1::Event]| -> Vec<i64> {
            events.iter().map(|event| event.sequence).collect()
        };
        assert_eq!(numbers(&found), numbers(&oldest), "{branch}");
    }
    let wrong = v1::ListEventsRequest {
        order_by: "occur_time".into(),
        ..request("n1", ExecutionView::Basic)
    };
    let mut client = rig.gateway.executions().await;
    let status = client.list_events(wrong).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
}
