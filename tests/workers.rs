//! Workers take tasks over one stream and answer them; what is answered is on disk.

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::stream_tasks_request::Message as Said;
use stateway_client::v1::stream_tasks_response::Message as Told;
use tonic::Code;

use crate::support::{BuiltInRig, json_of, reason_of, time_of};

const ONE: &str = "\
name: one
steps:
  - name: greet
    agent: greeter
    action: hello
    timeout: 5m
    modelPolicy: small
    input: {to: '${input.name}'}
    retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 1ms, maxDelay: 1ms}
output: ${steps.greet.output}
";

fn greeter(id: &str, capacity: i32) -> v1::Offer {
    v1::Offer {
        worker_id: id.into(),
        roles: vec!["greeter".into()],
        capacity,
        ..v1::Offer::default()
    }
}

async fn rig() -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(ONE).await;
    rig
}

fn done(view: &v1::Execution) -> bool {
    view.native_state == "completed"
}

#[tokio::test]
async fn a_worker_is_welcomed_gets_its_task_and_hears_that_its_answer_counts() {
    let rig = rig().await;
    let mut worker = rig.work(greeter("", 1)).await.unwrap();
    let Some(Told::Welcome(welcome)) = worker.next().await else {
        panic!("no welcome");
    };
    assert!(welcome.worker_id.starts_with("worker-"), "{welcome:?}");
    assert_eq!(welcome.provider, "providers/b");
    assert_eq!(welcome.lease_duration.unwrap().seconds, 30);
    rig.begin("one", "w1", "ada", json!({"name": "Eve"})).await;
    let task = worker.task().await;
    assert_eq!(task.execution, "providers/b/executions/w1");
    assert_eq!(
        (&*task.step, task.attempt, &*task.action),
        ("greet", 1, "hello")
    );
    assert_eq!((&*task.role, &*task.model_policy), ("greeter", "small"));
    assert_eq!(json_of(task.input.as_ref()), json!({"to": "Eve"}));
    assert!(task.expire_time.is_some() && !task.compensation);
    worker.complete(&task, &json!({"said": "hello Eve"}));
    let Some(Told::Accepted(accepted)) = worker.next().await else {
        panic!("not accepted");
    };
    assert_eq!(accepted.task_token, task.task_token);
    let view = rig.until("w1", done).await;
    assert_eq!(json_of(view.output.as_ref()), json!({"said": "hello Eve"}));
    worker.complete(&task, &json!(2));
    let Some(Told::Refused(refused)) = worker.next().await else {
        panic!("taken twice");
    };
    assert_eq!(refused.reason, "STALE_TASK");
}

#[tokio::test]
async fn progress_and_usage_reach_the_execution() {
    let rig = rig().await;
    let mut worker = rig.work(greeter("w", 1)).await.unwrap();
    rig.begin("one", "u1", "ada", json!({"name": "Eve"})).await;
    let task = worker.task().await;
    worker.say(Said::Heartbeat(v1::TaskHeartbeat::default()));
    worker.say(Said::Heartbeat(v1::TaskHeartbeat {
        task_token: task.task_token.clone(),
        progress: 0.5,
        detail: "thinking".into(),
    }));
    let told = |view: &v1::Execution| view.steps[0].progress.is_some();
    let view = rig.until("u1", told).await;
    let progress = view.steps[0].progress.clone().unwrap();
    assert_eq!((progress.fraction, &*progress.detail), (0.5, "thinking"));
    worker.say(Said::Completed(v1::TaskCompleted {
        task_token: task.task_token,
        output: None,
        usage: Some(v1::Usage {
            input_token_count: 7,
            output_token_count: 5,
            cost_micros: 3,
        }),
    }));
    let view = rig.until("u1", done).await;
    let usage = view.usage.expect("it was reported");
    assert_eq!((usage.input_token_count, usage.cost_micros), (7, 3));
    assert_eq!(view.output, None);
}

#[tokio::test]
async fn a_list_shows_the_versions_the_answers_and_the_last_failure_of_a_worker() {
    let rig = rig().await;
    let offer = v1::Offer {
        version: "1.4".into(),
        sdk: "acme-sdk/2".into(),
        ..greeter("w", 1)
    };
    let mut worker = rig.work(offer).await.unwrap();
    let listed = async || {
        let request = v1::ListWorkersRequest {
            parent: "providers/b".into(),
            ..v1::ListWorkersRequest::default()
        };
        let answer = rig.workers().await.list_workers(request).await.unwrap();
        answer.into_inner().workers.remove(0)
    };
    let fresh = listed().await;
    assert_eq!((&*fresh.version, &*fresh.sdk), ("1.4", "acme-sdk/2"));
    assert_eq!(fresh.last_failure, None);
    rig.begin("one", "r1", "ada", json!({"name": "Eve"})).await;
    let first = worker.task().await;
    worker.say(Said::Failed(v1::TaskFailed {
        task_token: first.task_token.clone(),
        category: v1::ErrorCategory::Transient.into(),
        message: "Traceback\n  at line 1\nthe printer is on fire".into(),
        ..v1::TaskFailed::default()
    }));
    let second = worker.task().await;
    worker.complete(&second, &json!({}));
    rig.until("r1", done).await;
    worker.complete(&first, &json!({}));
    while !matches!(worker.next().await, Some(Told::Refused(_))) {}
    // An offer without versions keeps them.
    worker.say(Said::Offer(greeter("", 2)));
    let seen = listed().await;
    let recent = seen.recent_tasks.unwrap();
    let counts = (
        recent.completed_count,
        recent.failed_count,
        recent.refused_count,
    );
    assert_eq!(counts, (2, 1, 1));
    assert!(recent.window_duration.unwrap().seconds < 290);
    assert_eq!(&*seen.version, "1.4");
    let failure = seen.last_failure.unwrap();
    assert_eq!(failure.message, "the printer is on fire");
    assert_eq!(failure.category(), v1::ErrorCategory::Transient);
    assert!(failure.occur_time.is_some());
    // A worker that reconnects continues its counts.
    drop(worker);
    let mut again = rig.work(greeter("w", 1)).await.unwrap();
    again.next().await;
    let recent = listed().await.recent_tasks.unwrap();
    assert_eq!((recent.completed_count, recent.failed_count), (2, 1));
}

#[tokio::test]
async fn the_first_message_must_be_a_good_offer() {
    let rig = rig().await;
    let mut client = rig.workers().await;
    let beat = v1::StreamTasksRequest {
        message: Some(Said::Heartbeat(v1::TaskHeartbeat::default())),
    };
    for first in [beat, v1::StreamTasksRequest::default()] {
        let status = client
            .stream_tasks(tokio_stream::once(first))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(reason_of(&status), "OFFER_REQUIRED");
    }
    let status = client
        .stream_tasks(tokio_stream::empty())
        .await
        .unwrap_err();
    assert_eq!(reason_of(&status), "OFFER_REQUIRED");
    for (wrong, code) in [
        (greeter("a b", 1), Code::InvalidArgument),
        (greeter("a", 1_000_000), Code::InvalidArgument),
        (
            v1::Offer {
                provider: "providers/nobody".into(),
                ..greeter("a", 1)
            },
            Code::NotFound,
        ),
        (
            v1::Offer {
                provider: "b".into(),
                ..greeter("a", 1)
            },
            Code::InvalidArgument,
        ),
    ] {
        let status = rig.work(wrong).await.err().expect("refused");
        assert_eq!(status.code(), code);
    }
}

#[tokio::test]
async fn an_output_that_is_not_json_fails_the_attempt() {
    let rig = rig().await;
    let mut worker = rig.work(greeter("w", 1)).await.unwrap();
    rig.begin("one", "j1", "ada", json!({"name": "Eve"})).await;
    let task = worker.task().await;
    worker.say(Said::Completed(v1::TaskCompleted {
        task_token: task.task_token.clone(),
        output: Some(v1::Payload {
            data: "{broken".into(),
            content_type: String::new(),
        }),
        usage: None,
    }));
    let Some(Told::Refused(refused)) = worker.next().await else {
        panic!("taken");
    };
    assert_eq!(refused.reason, "INVALID_OUTPUT");
    assert!(refused.message.contains("not JSON"), "{}", refused.message);
    let again = worker.task().await;
    assert_eq!(again.attempt, 2);
    let view = rig.until("j1", |view| view.last_error.is_some()).await;
    let error = view.last_error.unwrap();
    assert_eq!(error.category(), v1::ErrorCategory::AgentError);
    worker.complete(&again, &json!("fine"));
    rig.until("j1", done).await;
}

#[tokio::test]
async fn a_wrong_answer_is_refused_and_the_stream_goes_on() {
    let rig = rig().await;
    let mut worker = rig.work(greeter("w", 1)).await.unwrap();
    rig.begin("one", "x1", "ada", json!({"name": "Eve"})).await;
    let task = worker.task().await;
    let failed = |token: &str, category: v1::ErrorCategory| {
        Said::Failed(v1::TaskFailed {
            task_token: token.into(),
            category: category.into(),
            ..v1::TaskFailed::default()
        })
    };
    worker.say(failed("nonsense", v1::ErrorCategory::Transient));
    let Some(Told::Refused(refused)) = worker.next().await else {
        panic!("taken");
    };
    assert_eq!(refused.reason, "INVALID_TASK_TOKEN");
    worker.complete(&task, &json!("fine"));
    rig.until("x1", done).await;
}

#[tokio::test]
async fn a_failure_of_an_unknown_category_ends_the_attempt_as_an_agent_error() {
    let rig = rig().await;
    let mut worker = rig.work(greeter("w", 1)).await.unwrap();
    rig.begin("one", "u1", "ada", json!({"name": "Eve"})).await;
    let task = worker.task().await;
    worker.say(Said::Failed(v1::TaskFailed {
        task_token: task.task_token.clone(),
        category: 99,
        message: "the card is blocked".into(),
        ..v1::TaskFailed::default()
    }));
    let Some(Told::Accepted(accepted)) = worker.next().await else {
        panic!("not accepted");
    };
    assert_eq!(accepted.task_token, task.task_token);
    let view = rig.until("u1", |view| view.last_error.is_some()).await;
    let error = view.last_error.unwrap();
    assert_eq!(error.category(), v1::ErrorCategory::AgentError);
    assert_eq!(
        error.message,
        "the card is blocked (unknown failure category 99)"
    );
    let again = worker.task().await;
    assert_eq!(again.attempt, 2);
    worker.complete(&again, &json!("fine"));
    rig.until("u1", done).await;
}

#[tokio::test]
async fn a_stack_trace_is_shown_by_the_line_that_names_the_error_and_stays_readable() {
    let rig = rig().await;
    let trace =
        "Traceback (most recent call last):\n  File \"pay.py\", line 3\nKeyError: 'items'\n";
    let mut worker = rig.work(greeter("w", 1)).await.unwrap();
    rig.begin("one", "t1", "ada", json!({"name": "Eve"})).await;
    let task = worker.task().await;
    worker.say(Said::Failed(v1::TaskFailed {
        task_token: task.task_token.clone(),
        message: trace.into(),
        ..v1::TaskFailed::default()
    }));
    let again = worker.task().await;
    let name = "providers/b/executions/t1".to_owned();
    let mut client = rig.gateway.executions().await;
    let get = v1::GetExecutionRequest {
        name: name.clone(),
        view: v1::ExecutionView::Full.into(),
    };
    let shown = client.get_execution(get).await.unwrap().into_inner();
    let error = shown.last_error.expect("an error");
    assert_eq!(error.message, "KeyError: 'items'");
    assert_eq!(error.detail, trace);
    let of_step = shown.steps[0].last_error.as_ref().expect("an error");
    assert_eq!(of_step.message, "KeyError: 'items'");
    let list = v1::ListEventsRequest {
        parent: name,
        ..v1::ListEventsRequest::default()
    };
    let events = client.list_events(list).await.unwrap().into_inner().events;
    let failed = events
        .iter()
        .find(|event| event.native_type == "AttemptFailed");
    assert_eq!(
        failed.expect("an event").summary,
        "agent_error: KeyError: 'items'"
    );
    assert!(events.iter().all(|event| !event.summary.contains('\n')));
    worker.complete(&again, &json!("fine"));
    rig.until("t1", done).await;
}

#[tokio::test]
async fn a_task_given_back_goes_to_someone_else() {
    let rig = rig().await;
    let mut first = rig.work(greeter("first", 1)).await.unwrap();
    rig.begin("one", "g1", "ada", json!({"name": "Eve"})).await;
    let task = first.task().await;
    first.say(Said::Offer(greeter("first", 0)));
    let mut second = rig.work(greeter("second", 1)).await.unwrap();
    first.say(Said::Released(v1::TaskReleased {
        begun: false,
        task_token: task.task_token.clone(),
    }));
    let same = second.task().await;
    assert_eq!((&same.step, same.attempt), (&task.step, task.attempt));
    second.complete(&same, &json!("fine"));
    rig.until("g1", done).await;
}

#[tokio::test]
async fn who_comes_with_the_same_id_takes_the_place() {
    let rig = rig().await;
    let mut first = rig.work(greeter("same", 1)).await.unwrap();
    first.next().await.expect("a welcome");
    let mut second = rig.work(greeter("same", 1)).await.unwrap();
    second.next().await.expect("a welcome");
    let Some(Told::Closed(closed)) = first.next().await else {
        panic!("still open");
    };
    assert!(!closed.reason.is_empty());
    assert!(first.next().await.is_none(), "nothing follows");
}

#[tokio::test]
async fn operators_see_who_works_and_what_waits() {
    let rig = rig().await;
    for id in ["q1", "q2"] {
        rig.begin("one", id, "ada", json!({"name": "Eve"})).await;
    }
    let mut client = rig.workers().await;
    let lines = |queue: &v1::Queue| -> Vec<(String, i32, i32)> {
        let tasks = queue.tasks.iter();
        tasks
            .map(|line| (line.role.clone(), line.task_count, line.worker_count))
            .collect()
    };
    let queue = client.get_queue(queue_of("providers/-/queue")).await;
    let queue = queue.unwrap().into_inner();
    assert_eq!(lines(&queue), [("greeter".to_owned(), 2, 0)]);
    assert!(queue.tasks[0].oldest_time.is_some());
    assert_eq!(queue.name, "providers/b/queue");

    let offer = v1::Offer {
        skills: vec!["polite".into()],
        prefetch: 0,
        ..greeter("busy", 1)
    };
    let mut worker = rig.work(offer).await.unwrap();
    let task = worker.task().await;
    let request = v1::ListWorkersRequest {
        parent: "providers/b".into(),
        ..v1::ListWorkersRequest::default()
    };
    let listed = client.list_workers(request).await.unwrap().into_inner();
    let [row] = listed.workers.as_slice() else {
        panic!("{listed:#?}");
    };
    assert_eq!(
        (row.worker_id.as_str(), row.task_count, row.capacity),
        ("busy", 1, 1)
    );
    assert_eq!(
        (&row.roles[..], &row.skills[..]),
        (&["greeter".to_owned()][..], &["polite".to_owned()][..])
    );
    assert!(row.connected && row.connect_time.is_some() && row.heartbeat_time.is_some());
    let held = v1::HeldTask {
        execution: task.execution,
        step: "greet".into(),
        attempt: 1,
        compensation: false,
    };
    assert_eq!(row.tasks, [held]);
    assert!(time_of(row.lease_expire_time.as_ref()) > time_of(row.heartbeat_time.as_ref()));
    let queue = client.get_queue(queue_of("providers/-/queue")).await;
    assert_eq!(
        lines(&queue.unwrap().into_inner()),
        [("greeter".to_owned(), 1, 1)]
    );
}

#[tokio::test]
async fn a_gateway_that_stops_says_so_to_its_workers() {
    let mut rig = rig().await;
    let mut worker = rig.work(greeter("w", 1)).await.unwrap();
    worker.next().await.expect("a welcome");
    rig.gateway.stop();
    let Some(Told::Closed(closed)) = worker.next().await else {
        panic!("no word");
    };
    assert_eq!(closed.reason, "SHUTTING_DOWN");
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_the_stream_with_its_reason() {
    let rig = rig().await;
    let mut worker = rig.work(greeter("w", 1)).await.unwrap();
    worker.say(Said::Completed(v1::TaskCompleted {
        task_token: "x".into(),
        output: Some(v1::Payload {
            data: vec![b' '; 5 * 1024 * 1024].into(),
            content_type: String::new(),
        }),
        usage: None,
    }));
    let status = worker.error().await;
    assert_eq!(status.code(), Code::OutOfRange);
    assert_eq!(reason_of(&status), "MESSAGE_TOO_LARGE");
}

#[tokio::test]
async fn a_second_identity_on_one_stream_ends_it() {
    let rig = rig().await;
    let mut worker = rig.work(greeter("w", 1)).await.unwrap();
    worker.say(Said::Offer(greeter("other", 1)));
    let status = worker.error().await;
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn workers_are_listed_by_name_in_pages() {
    let rig = rig().await;
    let mut connected = Vec::new();
    for id in ["b", "a/1", "c"] {
        connected.push(rig.work(greeter(id, 1)).await.unwrap());
    }
    let mut client = rig.workers().await;
    let mut request = v1::ListWorkersRequest {
        parent: "providers/-".into(),
        page_size: 2,
        ..v1::ListWorkersRequest::default()
    };
    let mut pages = Vec::new();
    loop {
        let page = client.list_workers(request.clone()).await.unwrap();
        let page = page.into_inner();
        let names = page.workers.into_iter().map(|worker| worker.name);
        pages.push(names.collect::<Vec<_>>());
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    let name = |id: &str| format!("providers/b/workers/{id}");
    assert_eq!(pages, [vec![name("a%2F1"), name("b")], vec![name("c")]]);
    request.page_token = "forged".into();
    let status = client.list_workers(request).await.unwrap_err();
    assert_eq!(reason_of(&status), "INVALID_PAGE_TOKEN");
}

fn queue_of(name: &str) -> v1::GetQueueRequest {
    v1::GetQueueRequest { name: name.into() }
}

#[tokio::test]
async fn a_worker_that_sends_without_pause_keeps_no_client_from_its_answer() {
    const HEARTBEATS: usize = 50_000;
    let rig = BuiltInRig::with(|config| config.max_backlog = 8).await;
    rig.apply(ONE).await;
    let chatty = rig.work(greeter("chatty", 0)).await.unwrap();
    for _ in 0..HEARTBEATS {
        chatty.say(Said::Heartbeat(v1::TaskHeartbeat::default()));
    }
    // Far more messages than the backlog of clients; `begin` fails if the engine refuses.
    for number in 0..40 {
        let id = format!("e{number}");
        rig.begin("one", &id, "ada", json!({"name": "Eve"})).await;
    }
    let mut worker = rig.work(greeter("busy", 1)).await.unwrap();
    let task = worker.task().await;
    worker.complete(&task, &json!("hello"));
    rig.until("e0", done).await;
}
