//! A worker that does what a task's action says.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use stateway_engine::{
    Answers, Engine, Offer, Outcome, TaskToken, WorkerMessage, WorkerSession, WorkerTask,
};
use stateway_machine::Failure;
use stateway_model::ErrorCategory;
use tokio::task::JoinHandle;

/// The role of the tasks it takes.
pub(super) const ROLE: &str = "hand";
/// The role of a worker that takes one task and never answers it.
pub(super) const BUSY_ROLE: &str = "busy";

/// The worker; it ends with this.
pub(super) struct Hand {
    held: Held,
    answers: Answers,
    task: JoinHandle<()>,
    _busy: WorkerSession,
}

/// Tasks that are held until someone says how they went, by execution.
type Held = Arc<Mutex<HashMap<Arc<str>, TaskToken>>>;

impl Drop for Hand {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hand {
    pub(super) fn of(engine: &Engine) -> Self {
        let session = engine.connect(offer(1_000)).unwrap();
        let (held, answers) = (Held::default(), session.answers());
        let task = tokio::spawn(work(session, Arc::clone(&held)));
        let busy = Offer {
            worker: BUSY_ROLE.into(),
            roles: vec![BUSY_ROLE.into()],
            capacity: 1,
            ..Offer::default()
        };
        Self {
            held,
            answers,
            task,
            _busy: engine.connect(busy).unwrap(),
        }
    }

    /// Says how the held task of an execution went.
    pub(super) async fn answer(&self, execution: &Arc<str>, category: ErrorCategory) {
        let begin = Instant::now();
        loop {
            if let Some(token) = self.held.lock().unwrap().remove(execution) {
                return self.answers.settle(token, failed(category), None);
            }
            assert!(begin.elapsed() < super::PATIENCE, "no task is held");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn offer(capacity: u32) -> Offer {
    Offer {
        worker: "hand".into(),
        roles: vec![ROLE.into()],
        capacity,
        ..Offer::default()
    }
}

async fn work(mut session: WorkerSession, held: Held) {
    let answers = session.answers();
    let mut met = HashSet::new();
    while let Some(message) = session.messages.recv().await {
        let WorkerMessage::Task(task) = message else {
            continue;
        };
        let again = !met.insert((Arc::clone(&task.execution), Arc::clone(&task.task.step)));
        match outcome(&task, again) {
            Some(outcome) => {
                if &*task.action == "invalid" {
                    // What is to be corrected is not taken by anyone.
                    answers.offer(offer(0));
                }
                answers.settle(task.token, outcome, None);
            }
            None => {
                held.lock().unwrap().insert(task.execution, task.token);
            }
        }
    }
}

/// How a task goes by its action; nothing when it is held.
fn outcome(task: &WorkerTask, again: bool) -> Option<Outcome> {
    let completed = |output| Outcome::Completed {
        output: Arc::new(output),
    };
    match &*task.action {
        "complete" => Some(completed(json!({}))),
        "invalid" => Some(completed(json!(1))),
        "hold" => None,
        "fail-once" if again => None,
        "fail-once" => Some(failed(ErrorCategory::AgentError)),
        category => Some(failed(category.parse().unwrap())),
    }
}

fn failed(category: ErrorCategory) -> Outcome {
    Outcome::Failed(Failure::reported(category, "as its action says"))
}
