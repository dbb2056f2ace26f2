//! The worker of a scenario.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use stateway_model::Payload;
use stateway_provider_api::{
    Call, Provider, TaskFailure, TaskOutcome, WorkerMessage, WorkerOffer, WorkerSession, WorkerTask,
};

use crate::{Answer, Scenario};

/// How many tasks the worker has at a time: more than any scenario opens.
const CAPACITY: u32 = 16;

/// How often the worker shows that it is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// Does the tasks of a scenario until the future is dropped.
pub(crate) async fn work(provider: &dyn Provider, scenario: &Scenario) {
    let workers = provider.workers().unwrap();
    let offer = WorkerOffer {
        worker: format!("worker-{}", scenario.name).into(),
        roles: vec![Arc::from(scenario.name)],
        capacity: CAPACITY,
        ..WorkerOffer::default()
    };
    let call = Call::within(Duration::from_secs(30));
    let connected = workers.connect(&call, offer).await.unwrap();
    let mut session = connected.session;
    loop {
        let message = poll_fn(|context| session.poll_message(context));
        let message = match tokio::time::timeout(ALIVE, message).await {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(_) => {
                session.heartbeat(None, None);
                continue;
            }
        };
        match message {
            WorkerMessage::Task(task) => answer(session.as_mut(), scenario, *task),
            WorkerMessage::Closed { .. } => return,
            // A worker that is asked to stop gives the task back.
            WorkerMessage::Cancelled { task_token } => {
                let outcome = TaskOutcome::Released { begun: false };
                session.settle(task_token, outcome, None);
            }
            WorkerMessage::Accepted { .. }
            | WorkerMessage::Refused { .. }
            | WorkerMessage::Withdrawn { .. } => {}
        }
    }
}

fn answer(session: &mut dyn WorkerSession, scenario: &Scenario, task: WorkerTask) {
    let undo = if task.compensation { "undo." } else { "" };
    let key = format!("{}.{undo}{}", task.step, task.attempt);
    let found = scenario.answers.iter().find(|(it, _)| *it == key);
    let answer = found.map_or(Answer::Complete("null"), |(_, answer)| *answer);
    let failed = |category, no_retry| {
        TaskOutcome::Failed(TaskFailure {
            category,
            message: format!("{key} fails"),
            code: String::new(),
            no_retry,
            effects_unknown: false,
            retry_after: None,
        })
    };
    let outcome = match answer {
        Answer::Complete(output) => TaskOutcome::Completed {
            output: Some(Payload::json(output)),
        },
        Answer::Fail(category) => failed(category, false),
        Answer::FailForGood(category) => failed(category, true),
        Answer::Hang => return,
    };
    session.settle(task.task_token, outcome, None);
}
