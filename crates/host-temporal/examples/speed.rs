//! A measurement on the real Temporal server: a portable chain of five steps inside Temporal, and a plain chain of
//! five activities on the same server, one after the other. `STATEWAY_TEMPORAL_SERVER` names the program of the server, as
//! for the tests.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used)]

#[path = "../../provider-temporal/tests/lab/mod.rs"]
mod lab;

use std::collections::HashMap;
use std::future::poll_fn;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use lab::{Peers, Server, Settings};
use stateway_host_temporal::Host;
use stateway_hosted::message::{ObjectRequest, VERSION, Work};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    ApplyPortableRequest, Call, PortableDefinitions as _, Provider as _, StartDefinition,
    StartRequest, TaskOutcome, WorkerMessage, WorkerOffer, Workers as _,
};
use stateway_provider_temporal::HostConfig;
use stateway_provider_temporal::api::command::v1 as command;
use stateway_provider_temporal::api::command::v1::command::Attributes;
use stateway_provider_temporal::api::common::v1::ActivityType;
use stateway_provider_temporal::api::enums::v1::CommandType;
use stateway_provider_temporal::api::workflowservice::v1::RespondWorkflowTaskCompletedRequest;
use stateway_provider_temporal::host::{TaskClient, TemporalHostedProvider, hosted_provider};
use tokio::sync::{Semaphore, mpsc};

const CHAIN: &str = "\
name: chain
steps:
  - {name: a, agent: w, timeout: 1m}
  - {name: b, agent: w, timeout: 1m, dependsOn: [a]}
  - {name: c, agent: w, timeout: 1m, dependsOn: [b]}
  - {name: d, agent: w, timeout: 1m, dependsOn: [c]}
  - {name: e, agent: w, timeout: 1m, dependsOn: [d]}
";
const STEPS: usize = 5;
const CALL: Duration = Duration::from_secs(30);
const POLLERS: usize = 16;

fn main() -> ExitCode {
    let peers = match Peers::named() {
        Ok(peers) => peers,
        Err(missing) => {
            println!("{missing}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&peers.server, folder.path(), &[], Settings::Tests);
        for (in_flight, count) in [(1, 30), (64, 300)] {
            hosted(&server, in_flight, count).await;
            plain(&server, in_flight, count).await;
        }
    });
    ExitCode::SUCCESS
}

fn report(what: &str, in_flight: usize, mut took: Vec<Duration>, whole: Duration) {
    took.sort();
    let at = |part: usize| took[(took.len() - 1) * part / 100].as_millis();
    let rate = took.len() as f64 / whole.as_secs_f64();
    println!(
        "{what}, {in_flight} in flight: {rate:.1} workflows a second, p50 {} ms, p99 {} ms ({} workflows)",
        at(50),
        at(99),
        took.len()
    );
}

/// Starts `count` chains, `in_flight` at a time; `ended` reports each end.
async fn drive(
    what: &str,
    (in_flight, count): (usize, usize),
    start: impl AsyncFn(String),
    mut ended: mpsc::UnboundedReceiver<String>,
) {
    let began = Instant::now();
    let mut starts = HashMap::new();
    let mut took = Vec::new();
    let mut next = 0;
    while took.len() < count {
        while next < count && starts.len() < in_flight {
            let id = format!("{in_flight}-{next}");
            starts.insert(id.clone(), Instant::now());
            start(id).await;
            next += 1;
        }
        let id = tokio::time::timeout(CALL, ended.recv())
            .await
            .unwrap()
            .unwrap();
        if let Some(start) = starts.remove(&id) {
            took.push(start.elapsed());
        }
    }
    report(what, in_flight, took, began.elapsed());
}

async fn hosted(server: &Server, in_flight: usize, count: usize) {
    let config = HostConfig::at(server.address());
    let host = Host::new(&config).unwrap();
    let hosting = tokio::spawn(host.serve(std::future::pending()));
    let provider = hosted_provider(&config, compiled_in("builtin").unwrap()).unwrap();
    let provider: Arc<TemporalHostedProvider> = Arc::new(provider);
    let apply = ApplyPortableRequest {
        source: CHAIN.to_owned(),
        source_name: "chain.yaml".to_owned(),
        request_id: "apply".parse().unwrap(),
    };
    let call = Call::within(CALL);
    provider.apply_portable(&call, apply).await.unwrap();
    let (tell, ended) = mpsc::unbounded_channel();
    let working = tokio::spawn(work(Arc::clone(&provider), tell));
    let starts = Arc::new(Semaphore::new(in_flight));
    drive(
        "portable chain inside Temporal",
        (in_flight, count),
        async |id| {
            let (provider, starts) = (Arc::clone(&provider), Arc::clone(&starts));
            tokio::spawn(async move {
                let _turn = starts.acquire().await.unwrap();
                let definition = StartDefinition::Portable {
                    id: "chain".to_owned(),
                    source: None,
                };
                let request = StartRequest {
                    execution_id: Some(ExecutionId::new(&id).unwrap()),
                    ..StartRequest::new(definition, id.parse().unwrap())
                };
                provider.start(&Call::within(CALL), request).await.unwrap();
            });
        },
        ended,
    )
    .await;
    working.abort();
    hosting.abort();
}

/// Answers every task immediately. The last result of a chain that is accepted is its end.
async fn work(provider: Arc<TemporalHostedProvider>, ended: mpsc::UnboundedSender<String>) {
    let offer = WorkerOffer {
        worker: "w".into(),
        roles: vec!["w".into()],
        capacity: 64,
        ..WorkerOffer::default()
    };
    let connected = provider.connect(&Call::within(CALL), offer).await.unwrap();
    let mut session = connected.session;
    let mut last = HashMap::new();
    loop {
        let message = poll_fn(|context| session.poll_message(context));
        let Ok(message) = tokio::time::timeout(Duration::from_secs(5), message).await else {
            session.heartbeat(None, None);
            continue;
        };
        match message {
            Some(WorkerMessage::Task(task)) => {
                if &*task.step == "e" {
                    last.insert(task.task_token.clone(), task.execution.to_string());
                }
                let outcome = TaskOutcome::Completed {
                    output: Some(Payload::json("1")),
                };
                session.settle(task.task_token, outcome, None);
            }
            Some(WorkerMessage::Accepted { task_token }) => {
                if let Some(id) = last.remove(&task_token) {
                    let _ = ended.send(id);
                }
            }
            Some(_) => {}
            None => return,
        }
    }
}

/// A worker as every SDK has it: after each activity the next one is scheduled, with executions in memory.
async fn plain(server: &Server, in_flight: usize, count: usize) {
    let mut config = HostConfig::at(server.address());
    config.host.task_queue = format!("plain-{in_flight}");
    let client = Arc::new(TaskClient::new(&config, "plain").unwrap());
    let (tell, ended) = mpsc::unbounded_channel();
    let done: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let mut pollers = Vec::new();
    for number in 0..POLLERS {
        let delivering = Arc::clone(&client);
        let (client, tell, done) = (Arc::clone(&client), tell.clone(), Arc::clone(&done));
        pollers.push(tokio::spawn(async move {
            loop {
                let Ok(Some(task)) = client.poll(number % 2 == 1).await else {
                    continue;
                };
                let workflow = task.workflow_execution.unwrap();
                let steps = {
                    let mut done = done.lock().unwrap();
                    let steps = done.entry(workflow.run_id.clone()).or_default();
                    *steps += 1;
                    *steps
                };
                let is_last = steps > STEPS;
                let next = if is_last {
                    complete()
                } else {
                    activity(steps, &client)
                };
                let answer = RespondWorkflowTaskCompletedRequest {
                    task_token: task.task_token,
                    commands: vec![next],
                    ..Default::default()
                };
                client.complete(answer, !is_last).await.unwrap();
                if is_last {
                    let id = workflow.workflow_id.rsplit('/').next().unwrap();
                    let _ = tell.send(id.trim_start_matches("plain-").to_owned());
                }
            }
        }));
        pollers.push(tokio::spawn(async move {
            loop {
                if let Ok(Some(task)) = delivering.poll_delivery().await {
                    delivering.delivered(task.task_token, Ok(())).await.unwrap();
                }
            }
        }));
    }
    drive(
        "plain chain of activities",
        (in_flight, count),
        async |id| {
            let client = Arc::clone(&client);
            tokio::spawn(async move {
                let start = ObjectRequest {
                    v: VERSION,
                    id: "start".into(),
                    at: Timestamp::now(),
                    body: None,
                    work: Work::EndChild { kill: false },
                    claim: None,
                };
                let workflow = format!("plain-{id}");
                client.deliver(&workflow, &start, &workflow).await.unwrap();
            });
        },
        ended,
    )
    .await;
    pollers.iter().for_each(tokio::task::JoinHandle::abort);
}

fn activity(number: usize, client: &TaskClient) -> command::Command {
    let attributes = command::ScheduleActivityTaskCommandAttributes {
        activity_id: number.to_string(),
        activity_type: Some(ActivityType {
            name: "step".to_owned(),
        }),
        task_queue: Some(client.queue()),
        start_to_close_timeout: prost_types::Duration::try_from(Duration::from_secs(30)).ok(),
        ..Default::default()
    };
    command::Command {
        command_type: CommandType::ScheduleActivityTask as i32,
        attributes: Some(Attributes::ScheduleActivityTaskCommandAttributes(
            attributes,
        )),
    }
}

fn complete() -> command::Command {
    let attributes = command::CompleteWorkflowExecutionCommandAttributes { result: None };
    command::Command {
        command_type: CommandType::CompleteWorkflowExecution as i32,
        attributes: Some(Attributes::CompleteWorkflowExecutionCommandAttributes(
            attributes,
        )),
    }
}
