//! A host and a provider on the real Temporal server. Without the peers, which `cargo xtask test` installs and
//! names, every test is counted as skipped.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

#[path = "../../provider-temporal/tests/lab/mod.rs"]
mod lab;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lab::{Peers, Server, Settings};
use libtest_mimic::{Arguments, Completion, Trial};
use stateway_host_temporal::Host;
use stateway_hosted::message::{ObjectRequest, VERSION, Work};
use stateway_hosted::provider::ObjectKind;
use stateway_model::{ErrorKind, ExecutionId, Payload, SubState};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    ApplyPortableRequest, Call, EventOrder, HistoryRequest, ListRequest, Observation, PauseRequest,
    PortableDefinitions as _, Provider as _, PurgeRequest, ResumeRequest, RetryFromRequest,
    SignalRequest, StartDefinition, StartRequest, SwitchTriggerRequest, Triggers as _, View,
    Workers as _,
};
use stateway_provider_temporal::HostConfig;
use stateway_provider_temporal::api::command::v1::command::Attributes as Ordered;
use stateway_provider_temporal::api::command::v1::{
    Command, ContinueAsNewWorkflowExecutionCommandAttributes,
};
use stateway_provider_temporal::api::common::v1::WorkflowExecution;
use stateway_provider_temporal::api::enums::v1::CommandType;
use stateway_provider_temporal::api::history::v1::history_event::Attributes;
use stateway_provider_temporal::api::workflowservice::v1::RespondWorkflowTaskCompletedRequest;
use stateway_provider_temporal::host::{
    Continued, Keep, Record, TaskClient, TemporalHostedProvider, TemporalPort, hosted_provider,
    payloads, workflow_id,
};
use stateway_trajectory_kit::{Engine, SCENARIOS, conform};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long one call may take.
const CALL: Duration = Duration::from_secs(20);

/// Starts an execution every minute.
const TICKS: &str = "\
name: ticks
trigger: {schedule: '* * * * *'}
steps: [{name: rest, sleep: 10ms}]
";

const WAITING: &str = "\
name: waiting
steps:
  - {name: wait, signal: go, timeout: 10m}
  - {name: again, signal: go, timeout: 10m, dependsOn: [wait]}
";

/// A server with a provider on it.
struct Stage {
    _server: Server,
    _folder: TempDir,
    config: HostConfig,
    provider: TemporalHostedProvider,
}

/// A host in this process.
struct Hosting {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Hosting {
    fn begin(config: &HostConfig) -> Self {
        let host = Host::new(config).unwrap();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(host.serve(async {
            let _ = stopped.await;
        }));
        Self { stop, ended }
    }

    /// Lets it finish what it has begun.
    async fn end(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap();
    }
}

impl Stage {
    fn new(peers: &Peers, settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&peers.server, folder.path(), &[], settings);
        let config = HostConfig::at(server.address());
        let provider = hosted_provider(&config, compiled_in("builtin").unwrap()).unwrap();
        Self {
            _server: server,
            _folder: folder,
            config,
            provider,
        }
    }

    async fn apply(&self, source: &str) {
        apply(&self.provider, source).await;
    }

    /// A provider whose clock is behind.
    fn behind(&self, by: SignedDuration) -> TemporalHostedProvider {
        let port = TemporalPort::new(&self.config).unwrap();
        let clock = Arc::new(move || Timestamp::now() - by);
        TemporalHostedProvider::with_clock(port, compiled_in("builtin").unwrap(), clock)
    }

    async fn switch(&self, enabled: bool) {
        let request = SwitchTriggerRequest {
            definition: "ticks".to_owned(),
            enabled,
            comment: "maintenance".to_owned(),
            request_id: format!("switch-{enabled}").parse().unwrap(),
        };
        self.provider.switch(&call(), request).await.unwrap();
    }

    /// The next time of the only schedule; none while it is disabled.
    async fn next_time(&self) -> Option<Timestamp> {
        let queue = self.provider.queue(&call()).await.unwrap();
        let [scheduled] = &queue.scheduled[..] else {
            panic!("not one schedule: {:?}", queue.scheduled);
        };
        assert_eq!(scheduled.definition, "ticks");
        assert_eq!(scheduled.disabled.is_some(), scheduled.next_time.is_none());
        scheduled.next_time
    }

    fn start_request(&self, id: &str) -> StartRequest {
        let definition = StartDefinition::Portable {
            id: "waiting".to_owned(),
            source: None,
        };
        StartRequest {
            execution_id: Some(ExecutionId::new(id).unwrap()),
            input: Some(Payload::json("{\"n\":1}")),
            ..StartRequest::new(definition, format!("start-{id}").parse().unwrap())
        }
    }

    async fn start(&self, id: &str) -> Observation {
        let request = self.start_request(id);
        self.provider.start(&call(), request).await.unwrap()
    }

    async fn signal(
        &self,
        id: &str,
        request_id: &str,
    ) -> Result<Observation, stateway_provider_api::Error> {
        let request = SignalRequest {
            id: ExecutionId::new(id).unwrap(),
            signal: "go".to_owned(),
            payload: Some(Payload::json("true")),
            request_id: request_id.parse().unwrap(),
        };
        self.provider.signal(&call(), request).await
    }

    async fn get(&self, id: &str) -> Observation {
        let id = ExecutionId::new(id).unwrap();
        self.provider.get(&call(), &id, View::Full).await.unwrap()
    }

    async fn list(&self, page_size: u32) -> Vec<String> {
        let (mut ids, mut cursor) = (Vec::new(), None);
        loop {
            let request = ListRequest {
                page_size,
                cursor: cursor.take(),
                hints: Hints::none(),
            };
            let page = self.provider.list(&call(), request).await.unwrap();
            ids.extend(page.observations.iter().map(|it| it.id.to_string()));
            cursor = page.next;
            if cursor.is_none() {
                return ids;
            }
        }
    }

    async fn counts(&self) -> Vec<(Option<SubState>, u64)> {
        let counts = self.provider.count(&call()).await.unwrap();
        let counts = counts.iter();
        counts
            .map(|it| (sub_state(&it.example), it.count))
            .collect()
    }

    async fn events(&self, id: &str) -> Vec<u64> {
        let request = HistoryRequest {
            id: ExecutionId::new(id).unwrap(),
            page_size: 1_000,
            cursor: None,
            view: View::Basic,
            order: EventOrder::OldestFirst,
        };
        let page = self.provider.history(&call(), request).await.unwrap();
        page.events.iter().map(|event| event.sequence).collect()
    }
}

impl Stage {
    /// Whether the workflow of an execution has several runs.
    async fn is_continued(&self, id: &str) -> bool {
        let client = TaskClient::new(&self.config, "test").unwrap();
        let workflow = WorkflowExecution {
            workflow_id: workflow_id(ObjectKind::Execution, id),
            run_id: String::new(),
        };
        let mut record = Record::keeping(Keep::All);
        let read = client.events(workflow, Vec::new(), |event| {
            record.apply(event);
        });
        read.await.unwrap();
        record.is_continued
    }
}

async fn apply(provider: &TemporalHostedProvider, source: &str) {
    let request = ApplyPortableRequest {
        source: source.to_owned(),
        source_name: "test.yaml".to_owned(),
        request_id: format!("apply-{}", source.len()).parse().unwrap(),
    };
    provider.apply_portable(&call(), request).await.unwrap();
}

fn call() -> Call {
    Call::within(CALL)
}

fn sub_state(seen: &Observation) -> Option<SubState> {
    seen.reported.as_ref().map(|(state, _)| *state)
}

/// Waits until `look` finds something.
async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let until = tokio::time::Instant::now() + Duration::from_secs(40);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < until, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Every golden trajectory of the built-in engine, inside Temporal; what differs is what the portability
/// report says before the start.
async fn golden_trajectories(stage: Stage) {
    let host = Hosting::begin(&stage.config);
    conform(Engine::Temporal, &stage.provider, SCENARIOS.len()).await;
    host.end().await;
}

/// Reads need no host. A start is carried out when a host returns; another write is refused in time.
async fn without_a_host(stage: Stage) {
    let host = Hosting::begin(&stage.config);
    stage.apply(WAITING).await;
    stage.start("one").await;
    host.end().await;
    assert_eq!(sub_state(&stage.get("one").await), Some(SubState::Waiting));
    assert_eq!(stage.list(10).await, ["one"]);
    assert_eq!(stage.counts().await, [(Some(SubState::Waiting), 1)]);
    let short = Call::within(Duration::from_secs(2));
    let request = stage.start_request("two");
    let error = stage.provider.start(&short, request).await.unwrap_err();
    assert!(error.kind.is_retryable(), "{error:?}");
    let host = Hosting::begin(&stage.config);
    eventually("the start is carried out", async || {
        let id = ExecutionId::new("two").unwrap();
        stage.provider.get(&call(), &id, View::Basic).await.ok()
    })
    .await;
    // The repetition gets the answer of the first request.
    stage.start("two").await;
    assert_eq!(stage.list(10).await, ["two", "one"]);
    host.end().await;
}

/// Executions continue in other runs when their histories are long; nothing is lost, and lists stay in order.
async fn long_histories(stage: Stage) {
    let host = Hosting::begin(&stage.config);
    stage.apply(WAITING).await;
    for id in ["a", "b", "c"] {
        stage.start(id).await;
    }
    // Pauses and resumes make a history long.
    let id = ExecutionId::new("b").unwrap();
    for number in 0..70 {
        let pause = PauseRequest {
            id: id.clone(),
            comment: "x".to_owned(),
            request_id: format!("p{number}").parse().unwrap(),
        };
        stage.provider.pause(&call(), pause).await.unwrap();
        let resume = ResumeRequest {
            id: id.clone(),
            request_id: format!("r{number}").parse().unwrap(),
        };
        stage.provider.resume(&call(), resume).await.unwrap();
    }
    assert!(stage.is_continued("b").await, "it has one run");
    assert!(!stage.is_continued("a").await);
    let events = stage.events("b").await;
    let expected: Vec<u64> = (1..=u64::try_from(events.len()).unwrap()).collect();
    assert_eq!(events, expected);
    assert!(events.len() > 140, "{}", events.len());
    assert_eq!(stage.list(1).await, ["c", "b", "a"]);
    assert_eq!(stage.list(2).await, ["c", "b", "a"]);
    stage.signal("b", "s1").await.unwrap();
    let done = stage.signal("b", "s2").await.unwrap();
    assert_eq!(sub_state(&done), Some(SubState::Succeeded));
    // The first request is remembered as long as 256 requests allow, across runs.
    let again = stage.signal("b", "s1").await.unwrap();
    assert_eq!(sub_state(&again), Some(SubState::Succeeded));
    host.end().await;
}

/// Counts, a repeated request, another body under the same id, a fork and a purge.
async fn verbs(stage: Stage) {
    let host = Hosting::begin(&stage.config);
    stage.apply(WAITING).await;
    for number in 0..25 {
        stage.start(&format!("e{number:02}")).await;
    }
    let listed = eventually("all are listed", async || {
        let listed = stage.list(7).await;
        (listed.len() == 25).then_some(listed)
    })
    .await;
    let ids: BTreeSet<_> = listed.iter().collect();
    assert_eq!(ids.len(), 25);
    assert_eq!(stage.list(100).await, listed);
    assert_eq!(stage.counts().await, [(Some(SubState::Waiting), 25)]);
    stage.start("e00").await;
    let other = StartRequest {
        input: Some(Payload::json("2")),
        ..stage.start_request("e00")
    };
    let error = stage.provider.start(&call(), other).await.unwrap_err();
    assert_eq!(error.reason(), "REQUEST_ID_REUSED");
    let error = stage.signal("nobody", "s1").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    stage.signal("e01", "s1").await.unwrap();
    stage.signal("e01", "s2").await.unwrap();
    let fork = RetryFromRequest {
        id: ExecutionId::new("e01").unwrap(),
        step: "again".to_owned(),
        input: None,
        feedback: String::new(),
        from_start: false,
        execution_id: None,
        request_id: "fork-1".parse().unwrap(),
    };
    let forked = stage.provider.retry_from(&call(), fork).await.unwrap();
    assert_ne!(forked.id.as_str(), "e01");
    eventually("the fork is found", async || {
        let seen = stage.get("e01").await;
        (seen.forks == [forked.id.clone()]).then_some(())
    })
    .await;
    let purge = |id: &str| PurgeRequest {
        id: ExecutionId::new(id).unwrap(),
        request_id: "purge".parse().unwrap(),
    };
    let open = stage
        .provider
        .purge(&call(), purge("e02"))
        .await
        .unwrap_err();
    assert_eq!(open.reason(), "NOT_FINISHED");
    stage.provider.purge(&call(), purge("e01")).await.unwrap();
    let id = ExecutionId::new("e01").unwrap();
    let gone = stage
        .provider
        .get(&call(), &id, View::Basic)
        .await
        .unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    // The id can be used again.
    stage.start("e01").await;
    host.end().await;
}

/// Another host takes over while an execution waits, and a host that dies loses nothing.
async fn hosts_change(stage: Stage) {
    let first = Hosting::begin(&stage.config);
    stage.apply(WAITING).await;
    stage.start("one").await;
    let second = Hosting::begin(&stage.config);
    first.end().await;
    stage.signal("one", "s1").await.unwrap();
    // Without a chance to clean up.
    second.ended.abort();
    let third = Hosting::begin(&stage.config);
    let done = stage.signal("one", "s2").await.unwrap();
    assert_eq!(sub_state(&done), Some(SubState::Succeeded));
    let events = stage.events("one").await;
    assert_eq!(
        events,
        (1..=u64::try_from(events.len()).unwrap()).collect::<Vec<_>>()
    );
    third.end().await;
}

/// The id of the execution of a time.
fn tick(time: Timestamp) -> String {
    format!("ticks~{}", time.strftime("%Y%m%dT%H%M00Z"))
}

/// Waits until a time, at most some minutes.
async fn until_time(time: Timestamp) {
    let left = time.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
}

/// A schedule starts the execution of a time also when no host runs at that time; of several times that have
/// passed, the newest. A disabled schedule starts nothing.
async fn schedules(stage: Stage) {
    let host = Hosting::begin(&stage.config);
    // The rest of the minute is longer than what follows, up to the next comment.
    if Timestamp::now().as_second() % 60 > 35 {
        let next = Timestamp::now() + SignedDuration::from_secs(25);
        until_time(next).await;
    }
    let applied = Timestamp::now();
    let behind = stage.behind(SignedDuration::from_secs(200));
    apply(&behind, TICKS).await;
    let first = tick(applied);
    let done = eventually("the newest time has started an execution", async || {
        let id = ExecutionId::new(&first).unwrap();
        let seen = stage.provider.get(&call(), &id, View::Full).await.ok()?;
        (sub_state(&seen) == Some(SubState::Succeeded)).then_some(seen)
    })
    .await;
    let input = done.input.unwrap();
    let input: serde_json::Value = serde_json::from_slice(&input.data).unwrap();
    let minute = applied.as_second() / 60 * 60;
    let minute = Timestamp::from_second(minute).unwrap();
    assert_eq!(input["scheduledTime"], minute.to_string());
    assert_eq!(stage.list(10).await, [first.as_str()]);
    stage.switch(false).await;
    assert_eq!(stage.next_time().await, None);
    stage.switch(true).await;
    let next = stage.next_time().await.unwrap();
    assert_eq!(next, minute + SignedDuration::from_secs(60));
    // The time passes while no host runs.
    host.end().await;
    until_time(next + SignedDuration::from_secs(2)).await;
    assert_eq!(stage.list(10).await, [first.as_str()]);
    let host = Hosting::begin(&stage.config);
    let second = tick(next);
    eventually("the time has started an execution", async || {
        let listed = stage.list(10).await;
        (listed == [second.as_str(), first.as_str()]).then_some(())
    })
    .await;
    host.end().await;
}

/// A definition of steps whose children get the whole input.
const FAMILY: &str = "\
name: family
steps:
  - {name: wait, signal: go, timeout: 10m}
  - {name: a, workflow: waiting, timeout: 10m, dependsOn: [wait], input: \"${input}\"}
  - {name: b, workflow: waiting, timeout: 10m, dependsOn: [wait], input: \"${input}\"}
  - {name: c, workflow: waiting, timeout: 10m, dependsOn: [wait], input: \"${input}\"}
  - {name: d, workflow: waiting, timeout: 10m, dependsOn: [wait], input: \"${input}\"}
";

impl Stage {
    /// Starts an execution whose input has so many bytes.
    async fn start_large(&self, definition: &str, id: &str, bytes: usize) {
        let mut request = self.start_request(id);
        request.definition = StartDefinition::Portable {
            id: definition.to_owned(),
            source: None,
        };
        request.input = Some(Payload::json(format!("\"{}\"", "x".repeat(bytes))));
        self.provider.start(&call(), request).await.unwrap();
    }
}

/// Every request to an execution with a large input writes its whole state. Temporal terminates a workflow whose
/// history has more than 50 MiB.
async fn large_executions(stage: Stage) {
    let host = Hosting::begin(&stage.config);
    stage.apply(WAITING).await;
    stage.start_large("waiting", "large", 700_000).await;
    let id = ExecutionId::new("large").unwrap();
    for number in 0..30 {
        let pause = PauseRequest {
            id: id.clone(),
            comment: "x".to_owned(),
            request_id: format!("p{number}").parse().unwrap(),
        };
        stage.provider.pause(&call(), pause).await.unwrap();
        let resume = ResumeRequest {
            id: id.clone(),
            request_id: format!("r{number}").parse().unwrap(),
        };
        stage.provider.resume(&call(), resume).await.unwrap();
    }
    assert!(stage.is_continued("large").await, "it has one run");
    stage.signal("large", "s1").await.unwrap();
    let done = stage.signal("large", "s2").await.unwrap();
    assert_eq!(sub_state(&done), Some(SubState::Succeeded));
    host.end().await;
}

/// Four children with an input of 600 kB each fit into one answer, four with one of 900 kB do not.
async fn large_families(stage: Stage) {
    let host = Hosting::begin(&stage.config);
    stage.apply(WAITING).await;
    stage.apply(FAMILY).await;
    stage.start_large("family", "small", 400_000).await;
    stage.signal("small", "s1").await.unwrap();
    eventually("all children run", async || {
        (stage.list(10).await.len() == 5).then_some(())
    })
    .await;
    stage.start_large("family", "large", 900_000).await;
    stage.signal("large", "s2").await.unwrap();
    let failed = eventually("a child that does not fit fails", async || {
        let seen = stage.get("large").await;
        (sub_state(&seen) == Some(SubState::Failed)).then_some(seen)
    })
    .await;
    let error = failed.last_error.unwrap();
    assert_eq!(error.native_code, "EXECUTION_TOO_LARGE", "{error:?}");
    host.end().await;
}

/// A run that continues one that does not exist any more fails its tasks, with the reason in its history.
async fn removed_run(stage: Stage) {
    let host = Hosting::begin(&stage.config);
    stage.apply(WAITING).await;
    stage.start("lost").await;
    host.end().await;
    let client = TaskClient::new(&stage.config, "test").unwrap();
    let ask = ObjectRequest {
        v: VERSION,
        id: "m1".into(),
        at: jiff::Timestamp::now(),
        body: None,
        work: Work::EndChild { kill: false },
        claim: None,
    };
    client.deliver("lost", &ask, "m1").await.unwrap();
    let task = eventually("a task", async || client.poll(false).await.unwrap()).await;
    let continued = Continued {
        from: "00000000-0000-4000-8000-000000000000".to_owned(),
        alarm: None,
    };
    let next = ContinueAsNewWorkflowExecutionCommandAttributes {
        workflow_type: task.workflow_type,
        task_queue: Some(client.queue()),
        input: Some(payloads(serde_json::to_vec(&continued).unwrap())),
        ..Default::default()
    };
    let next = Command {
        command_type: CommandType::ContinueAsNewWorkflowExecution as i32,
        attributes: Some(Ordered::ContinueAsNewWorkflowExecutionCommandAttributes(
            next,
        )),
    };
    let answer = RespondWorkflowTaskCompletedRequest {
        task_token: task.task_token,
        commands: vec![next],
        ..Default::default()
    };
    client.complete(answer, false).await.unwrap();
    let host = Hosting::begin(&stage.config);
    client.deliver("lost", &ask, "m2").await.unwrap();
    let why = eventually("a failed task", async || {
        let workflow = WorkflowExecution {
            workflow_id: workflow_id(ObjectKind::Execution, "lost"),
            run_id: String::new(),
        };
        let mut why = None;
        let read = client.events(workflow, Vec::new(), |event| {
            if let Some(Attributes::WorkflowTaskFailedEventAttributes(it)) = &event.attributes {
                why = it.failure.clone().map(|failure| failure.message);
            }
        });
        read.await.unwrap();
        why
    })
    .await;
    assert!(
        why.contains("was removed before its values were copied"),
        "{why}"
    );
    host.end().await;
}

/// A test, by its name and the settings of its server.
type Test = (&'static str, Settings, fn(Stage) -> Testing);
type Testing = std::pin::Pin<Box<dyn Future<Output = ()>>>;

const TESTS: &[Test] = &[
    (
        "portable_executions_show_the_golden_trajectories",
        Settings::Tests,
        |stage| Box::pin(golden_trajectories(stage)),
    ),
    (
        "without_a_host_reads_work_and_starts_wait",
        Settings::Tests,
        |stage| Box::pin(without_a_host(stage)),
    ),
    (
        "a_long_history_continues_in_another_run",
        Settings::ShortHistories,
        |stage| Box::pin(long_histories(stage)),
    ),
    (
        "lists_counts_forks_and_purges_follow_the_contract",
        Settings::Tests,
        |stage| Box::pin(verbs(stage)),
    ),
    (
        "a_schedule_starts_executions_also_when_no_host_runs_at_its_time",
        Settings::Tests,
        |stage| Box::pin(schedules(stage)),
    ),
    (
        "an_execution_with_a_large_state_continues_in_another_run",
        Settings::Tests,
        |stage| Box::pin(large_executions(stage)),
    ),
    (
        "children_that_do_not_fit_fail_and_the_parent_does_not_wait",
        Settings::Tests,
        |stage| Box::pin(large_families(stage)),
    ),
    (
        "a_run_whose_values_were_removed_fails_its_tasks",
        Settings::Tests,
        |stage| Box::pin(removed_run(stage)),
    ),
    (
        "another_host_takes_over_while_an_execution_waits",
        Settings::Tests,
        |stage| Box::pin(hosts_change(stage)),
    ),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test has a server of its own.
    arguments.test_threads = Some(1);
    let trial = |(name, settings, test): &Test| {
        let (settings, test) = (*settings, *test);
        Trial::ignorable_test(*name, move || {
            let peers = match Peers::named() {
                Ok(peers) => peers,
                Err(missing) => return Ok(Completion::ignored_with(missing)),
            };
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async { test(Stage::new(&peers, settings)).await });
            Ok(Completion::Completed)
        })
    };
    let conclusion = libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect());
    conclusion.exit_code()
}
