//! The provider over objects in memory, with a worker.

#![allow(clippy::unwrap_used)]

use crate::lab;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use lab::Lab;
use stateway_hosted::provider::HostedProvider;
use stateway_model::{ExecutionId, Payload, Progress, SubState, Usage};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    ApplyPortableRequest, Call, ErrorKind, EventOrder, HistoryRequest, ListRequest, Mapper,
    Observation, PortableDefinitions as _, Provider, StartDefinition, StartRequest, TaskFailure,
    TaskOutcome, View, WorkerMessage, WorkerOffer, WorkerSession, WorkerTask, Workers as _,
};

pub(crate) fn provider(lab: &Lab) -> HostedProvider<Lab> {
    let clock = lab.clone();
    HostedProvider::with_clock(
        lab.clone(),
        compiled_in("builtin").unwrap(),
        Arc::new(move || clock.now()),
    )
}

pub(crate) fn call() -> Call {
    Call::within(Duration::from_secs(10))
}

pub(crate) async fn apply(provider: &HostedProvider<Lab>, source: &str) {
    let request = ApplyPortableRequest {
        source: source.to_owned(),
        source_name: "test.yaml".to_owned(),
        request_id: "apply".parse().unwrap(),
    };
    provider.apply_portable(&call(), request).await.unwrap();
}

pub(crate) async fn start(provider: &HostedProvider<Lab>, request: &str) -> Observation {
    let definition = StartDefinition::Portable {
        id: "test".to_owned(),
        source: None,
    };
    let mut start = StartRequest::new(definition, request.parse().unwrap());
    start.input = Some(Payload::json(r#"{"n":1}"#));
    provider.start(&call(), start).await.unwrap()
}

pub(crate) async fn get(provider: &HostedProvider<Lab>, id: &ExecutionId) -> Observation {
    provider.get(&call(), id, View::Full).await.unwrap()
}

pub(crate) struct Worker(Box<dyn WorkerSession>);

impl Worker {
    pub(crate) async fn connect(provider: &HostedProvider<Lab>, id: &str, capacity: u32) -> Self {
        let offer = WorkerOffer {
            worker: id.into(),
            roles: vec!["packer".into()],
            capacity,
            ..WorkerOffer::default()
        };
        Self(provider.connect(&call(), offer).await.unwrap().session)
    }

    pub(crate) async fn message(&mut self) -> WorkerMessage {
        let next = poll_fn(|context| self.0.poll_message(context));
        let next = tokio::time::timeout(Duration::from_secs(10), next).await;
        next.expect("a message").expect("the session is open")
    }

    pub(crate) async fn task(&mut self) -> WorkerTask {
        match self.message().await {
            WorkerMessage::Task(task) => *task,
            other => panic!("{other:?}"),
        }
    }

    /// Answers a task and waits until the answer is accepted. Returns a task that came before that.
    pub(crate) async fn answer(
        &mut self,
        task: &WorkerTask,
        outcome: TaskOutcome,
    ) -> Option<WorkerTask> {
        self.0.settle(task.task_token.clone(), outcome, None);
        let mut next = None;
        loop {
            match self.message().await {
                WorkerMessage::Accepted { task_token } => {
                    assert_eq!(task_token, task.task_token);
                    return next;
                }
                WorkerMessage::Task(task) => next = Some(*task),
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn completed(output: &'static str) -> TaskOutcome {
    TaskOutcome::Completed {
        output: Some(Payload::json(output)),
    }
}

const CHAIN: &str = "name: test\nsteps:\n  - {name: a, agent: packer, timeout: 1m}\n  - {name: b, agent: packer, timeout: 1m, dependsOn: [a]}";

#[tokio::test]
async fn a_worker_does_the_steps_of_a_hosted_execution() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, CHAIN).await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let started = start(&provider, "r1").await;
    let first = worker.task().await;
    assert_eq!((&*first.step, first.attempt), ("a", 1));
    let second = worker.answer(&first, completed("1")).await;
    let second = match second {
        Some(second) => second,
        None => worker.task().await,
    };
    assert_eq!(&*second.step, "b");
    worker.answer(&second, completed("2")).await;
    let seen = get(&provider, &started.id).await;
    assert_eq!(seen.reported, Some((SubState::Succeeded, None)));
    assert_eq!(seen.output, Some(Payload::json(r#"{"b":2}"#)));
    assert_eq!(seen.input, Some(Payload::json(r#"{"n":1}"#)));
    let history = HistoryRequest {
        id: started.id,
        page_size: 3,
        cursor: None,
        view: View::Basic,
        order: EventOrder::OldestFirst,
    };
    let (mut events, mut cursor) = (Vec::new(), None);
    loop {
        let request = HistoryRequest {
            cursor,
            ..history.clone()
        };
        let page = provider.history(&call(), request).await.unwrap();
        events.extend(page.events.into_iter().map(|event| event.native_type));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let ends = events.iter().filter(|it| *it == "StepCompleted").count();
    assert_eq!(ends, 2, "{events:?}");
    assert_eq!(events.last().unwrap(), "ExecutionCompleted");
}

#[tokio::test]
async fn tasks_that_an_alarm_opened_are_found_by_the_scan() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(
        &provider,
        "name: test\nsteps:\n  - {name: nap, sleep: 5s}\n  - {name: a, agent: packer, timeout: 1m, dependsOn: [nap]}",
    )
    .await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    start(&provider, "r1").await;
    lab.pass(SignedDuration::from_secs(6));
    assert_eq!(&*worker.task().await.step, "a");
}

#[tokio::test]
async fn a_gateway_that_starts_finds_the_tasks_of_before() {
    let lab = Lab::default();
    let before = provider(&lab);
    apply(&before, CHAIN).await;
    let mut worker = Worker::connect(&before, "w1", 1).await;
    let held = start(&before, "r1").await;
    let task = worker.task().await;
    start(&before, "r2").await;
    drop((worker, before));
    let after = provider(&lab);
    // The same worker gets its task again, under the same token; another worker gets what waits.
    let mut worker = Worker::connect(&after, "w1", 1).await;
    let again = worker.task().await;
    assert_eq!(again.task_token, task.task_token);
    let mut other = Worker::connect(&after, "w2", 1).await;
    assert_ne!(other.task().await.execution, held.id);
    worker.answer(&again, completed("1")).await;
}

#[tokio::test]
async fn a_cancelled_execution_takes_its_task_from_the_worker() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, CHAIN).await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let started = start(&provider, "r1").await;
    let task = worker.task().await;
    let kill = stateway_provider_api::CancelRequest {
        id: started.id,
        mode: stateway_provider_api::CancelMode::Kill,
        compensation: Default::default(),
        comment: String::new(),
        request_id: "k1".parse().unwrap(),
    };
    provider.cancel(&call(), kill).await.unwrap();
    let WorkerMessage::Withdrawn { task_token, .. } = worker.message().await else {
        panic!("the task was not withdrawn");
    };
    assert_eq!(task_token, task.task_token);
    worker.0.settle(task_token, completed("1"), None);
    let WorkerMessage::Refused { reason, .. } = worker.message().await else {
        panic!("the result was not refused");
    };
    assert_eq!(reason, "STALE_TASK");
}

#[tokio::test]
async fn a_failed_attempt_shows_as_backing_off_with_its_next_attempt() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(
        &provider,
        "name: test\nsteps:\n  - name: a\n    agent: packer\n    timeout: 1m\n    retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 10s}",
    )
    .await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let started = start(&provider, "r1").await;
    let task = worker.task().await;
    let failure = TaskFailure {
        category: stateway_model::ErrorCategory::Transient,
        message: "no paper".to_owned(),
        code: String::new(),
        no_retry: false,
        effects_unknown: false,
        retry_after: None,
    };
    worker.answer(&task, TaskOutcome::Failed(failure)).await;
    let seen = get(&provider, &started.id).await;
    let (shown, _) = seen.reported.unwrap();
    assert_eq!(shown, SubState::BackingOff);
    let retry = seen.steps[0].retry.as_ref().unwrap();
    assert_eq!(
        retry.next_attempt_time,
        Some(lab.now() + SignedDuration::from_secs(10))
    );
}

#[tokio::test]
async fn starts_are_idempotent_and_lists_show_the_newest_first() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, CHAIN).await;
    let first = start(&provider, "r1").await;
    assert_eq!(start(&provider, "r1").await.id, first.id);
    lab.pass(SignedDuration::from_secs(1));
    let second = start(&provider, "r2").await;
    let mut ids = Vec::new();
    let mut cursor = None;
    loop {
        let request = ListRequest {
            hints: Hints::none(),
            page_size: 1,
            cursor,
        };
        let page = provider.list(&call(), request).await.unwrap();
        ids.extend(page.observations.into_iter().map(|seen| seen.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(ids, [second.id, first.id]);
    let unknown = ExecutionId::new("nobody").unwrap();
    let error = provider
        .get(&call(), &unknown, View::Basic)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn progress_and_usage_of_a_worker_are_shown() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, CHAIN).await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let started = start(&provider, "r1").await;
    let task = worker.task().await;
    // Progress is recorded once a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let half = Progress::new(0.5, "half of the boxes");
    worker
        .0
        .heartbeat(Some(task.task_token.clone()), half.clone());
    until("progress", async || {
        get(&provider, &started.id).await.steps[0].progress == half
    })
    .await;
    let usage = Usage {
        input_tokens: 1_000,
        output_tokens: 200,
        cost_micros: 30,
    };
    let settled = (completed("1"), Some(usage));
    worker.0.settle(task.task_token, settled.0, settled.1);
    until("usage", async || {
        get(&provider, &started.id).await.usage == Some(usage)
    })
    .await;
    let seen = get(&provider, &started.id).await;
    let usages: Vec<_> = seen.steps.iter().map(|step| step.usage).collect();
    assert_eq!(usages, [Some(usage), None]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_sends_no_heartbeats_loses_its_task() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let source =
        "name: test\nsteps: [{name: a, agent: packer, timeout: 10m, heartbeatTimeout: 10s}]";
    apply(&provider, source).await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let started = start(&provider, "r1").await;
    let task = worker.task().await;
    let hands = async || {
        let history = HistoryRequest {
            id: started.id.clone(),
            page_size: 100,
            cursor: None,
            view: View::Basic,
            order: EventOrder::OldestFirst,
        };
        let page = provider.history(&call(), history).await.unwrap();
        let events = page.events.into_iter().map(|event| event.native_type);
        events.collect::<Vec<_>>()
    };
    // 16 s with a heartbeat in between.
    lab.pass(SignedDuration::from_secs(8));
    tokio::time::sleep(Duration::from_secs(2)).await;
    worker.0.heartbeat(Some(task.task_token.clone()), None);
    tokio::time::sleep(Duration::from_millis(100)).await;
    lab.pass(SignedDuration::from_secs(8));
    let kept = hands().await;
    assert_eq!(kept.last().unwrap(), "HeartbeatRecorded", "{kept:?}");
    // 11 s without one.
    lab.pass(SignedDuration::from_secs(11));
    let lost = hands().await;
    assert!(lost.len() > kept.len(), "{lost:?}");
    let WorkerMessage::Withdrawn { task_token, .. } = worker.message().await else {
        panic!("the task was not withdrawn");
    };
    assert_eq!(task_token, task.task_token);
}

#[tokio::test]
async fn an_execution_is_explained_by_the_attempts_of_its_step() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let source = "name: test\nsteps:\n  - name: a\n    agent: packer\n    timeout: 1m\n    retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 10s}";
    apply(&provider, source).await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let started = start(&provider, "r1").await;
    let task = worker.task().await;
    let failure = TaskFailure {
        category: stateway_model::ErrorCategory::Transient,
        message: "no paper".to_owned(),
        code: String::new(),
        no_retry: false,
        effects_unknown: false,
        retry_after: None,
    };
    worker.answer(&task, TaskOutcome::Failed(failure)).await;
    let seen = get(&provider, &started.id).await;
    let mapper = Mapper::new("flows".parse().unwrap());
    let table = compiled_in("builtin").unwrap();
    let explained = mapper.explain(&table, &seen, lab.now());
    assert_eq!(explained.sub_state, SubState::BackingOff);
    assert_eq!(
        explained.summary,
        "backing-off: step `a` is backing-off, and no other open step is running. The engine reports `running`."
    );
    assert_eq!(
        explained.steps[0].evidence,
        [
            "native state `backing_off`",
            "attempt 1 of 3 failed, a retry is scheduled; next attempt at 2027-01-15T08:00:10Z, in 10 s; \
             last error: no paper (REPORTED)"
        ]
    );
}

/// Waits, with a clock that does not stand still, until something is true.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not within 30 s: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_is_not_made_again_at_once() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, CHAIN).await;
    start(&provider, "r1").await;
    lab.fail(true);
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let failed = lab.fail(false);
    // 100 ms, 200 ms and so on up to 5 s; a claim without a pause would fail thousands of times.
    assert!((5..20).contains(&failed), "{failed} claims");
    assert_eq!(&*worker.task().await.step, "a");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_workers_remembers_no_tasks_and_shows_those_that_wait() {
    let lab = Lab::default();
    let (starter, other) = (provider(&lab), provider(&lab));
    apply(&starter, CHAIN).await;
    for request in ["r1", "r2", "r3"] {
        start(&starter, request).await;
    }
    let waiting = async |provider: &HostedProvider<Lab>| {
        let queue = provider.queue(&call()).await.unwrap();
        queue.tasks.iter().map(|line| line.count).sum::<usize>()
    };
    assert_eq!(waiting(&starter).await, 3);
    // The workers are at another gateway.
    let mut worker = Worker::connect(&other, "w1", 3).await;
    for _ in 0..3 {
        worker.task().await;
    }
    assert_eq!(waiting(&starter).await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_waits_longest_is_handed_out_first() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, CHAIN).await;
    let mut started = Vec::new();
    for request in ["z", "m", "a"] {
        started.push(start(&provider, request).await.id);
        lab.pass(SignedDuration::from_secs(1));
    }
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let first = worker.task().await;
    assert_eq!(first.execution, started[0]);
}

#[tokio::test]
async fn a_view_that_cannot_be_read_does_not_hide_the_others() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, CHAIN).await;
    let broken = start(&provider, "r1").await.id;
    lab.pass(SignedDuration::from_secs(1));
    let good = start(&provider, "r2").await.id;
    let value = br#"{"n":1800000000000,"o":1,"of":"a later version"}"#;
    lab.replace(broken.as_str(), "v", value.to_vec());
    let request = ListRequest {
        hints: Hints::none(),
        page_size: 10,
        cursor: None,
    };
    let page = provider.list(&call(), request).await.unwrap();
    let shown: Vec<_> = page
        .observations
        .iter()
        .map(|seen| (seen.id.clone(), seen.reported.map(|it| it.0)))
        .collect();
    assert_eq!(shown[0].0, good);
    assert_eq!(shown[1], (broken, Some(SubState::Error)));
    // Its task cannot be handed out; the task of the other one is.
    let mut worker = Worker::connect(&provider, "w1", 2).await;
    assert_eq!(worker.task().await.execution, good);
}

#[tokio::test]
async fn refusals_that_a_worker_does_not_read_are_bounded() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let mut taken = 0;
    while poll_fn(|context| std::task::Poll::Ready(worker.0.poll_ready(context).is_ready())).await {
        worker.0.settle("no token".to_owned(), completed("1"), None);
        taken += 1;
        assert!(taken <= 1_000, "refusals pile up");
    }
    // The worker reads, and is listened to again.
    worker.message().await;
    until("ready", async || {
        poll_fn(|context| std::task::Poll::Ready(worker.0.poll_ready(context).is_ready())).await
    })
    .await;
}
