//! The engine's own caller of HTTP steps.
//!
//! To the keeper it is a worker like any other: it is given attempts, it answers them, it shows
//! that it is alive. It is no part of the engine's handle and holds none, so it never keeps an
//! engine from stopping; when the engine stops, so does it.
//!
//! An attempt that the log gave to it before a restart is given to it again, and is sent again
//! with the same idempotency key. An answer that arrives while the store cannot be written is
//! kept and sent to the keeper later.
//!
//! `allow` decides where calls may go, `resolver` and `address` keep names from leading inside a
//! network, `call` makes one call, `answer` is its outcome.

mod address;
mod allow;
mod answer;
mod call;
mod resolver;

pub use allow::{AllowError, AllowList, MOST_ENTRIES, NotAllowed};
pub(crate) use answer::one_line;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Url;
use stateway_machine::{Data, Failure, HttpRequest};
use stateway_model::ErrorCategory;
use thiserror::Error;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::Engine;
use crate::handle::Lines;
use crate::worker::{Answers, Offer, Outcome, TaskToken, WorkerMessage, WorkerSession, WorkerTask};
use allow::shown;
use answer::Trouble;
use call::{Call, Caller};

/// The caller's name in the log.
pub const HTTP_WORKER: &str = "engine/http";
/// How much longer than its time limit an attempt is waited for: the engine's timer is to end it.
const GRACE: Duration = Duration::from_secs(2);
/// The pause before a new session after the engine closed the last one.
const COME_BACK: Duration = Duration::from_millis(200);

/// The settings of HTTP steps.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The addresses that steps may call; none by default.
    pub allow: AllowList,
    /// The most concurrent calls.
    pub capacity: u32,
    /// How long a call may take whose step has no `timeout`.
    pub timeout: Duration,
    /// The timeout of a connection attempt.
    pub connect_timeout: Duration,
    /// The largest response that is accepted.
    pub max_response_bytes: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            allow: AllowList::default(),
            capacity: 64,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            max_response_bytes: 512 * 1024,
        }
    }
}

/// Why HTTP steps cannot run.
#[derive(Debug, Error)]
pub enum HttpError {
    /// No task can be spawned here.
    #[error("HTTP steps need a Tokio runtime")]
    NoRuntime,
    /// The HTTP client cannot be created.
    #[error("the HTTP client cannot be created: {0}")]
    Client(String),
}

/// The caller, at work. It ends when this is dropped or the engine stops.
#[derive(Debug)]
pub struct HttpCaller {
    task: JoinHandle<()>,
}

impl HttpCaller {
    /// Connects a caller to the engine. Without one, HTTP steps wait for it; with an empty
    /// allow-list, they are refused.
    ///
    /// # Errors
    /// There is no Tokio runtime, or no client can be made.
    pub fn spawn(engine: &Engine, settings: &HttpSettings) -> Result<Self, HttpError> {
        let caller = Caller::new(settings).map_err(HttpError::Client)?;
        Self::spawn_with(engine, settings, caller)
    }

    fn spawn_with(
        engine: &Engine,
        settings: &HttpSettings,
        caller: Caller,
    ) -> Result<Self, HttpError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| HttpError::NoRuntime)?;
        let calls = OpenCalls {
            lines: engine.lines(),
            caller: Arc::new(caller),
            settings: settings.clone(),
            stages: HashMap::new(),
            calls: JoinSet::new(),
        };
        Ok(Self {
            task: runtime.spawn(calls.run()),
        })
    }
}

impl Drop for HttpCaller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The calls under way, over any number of sessions.
struct OpenCalls {
    lines: Lines,
    caller: Arc<Caller>,
    settings: HttpSettings,
    stages: HashMap<String, (TaskToken, Stage)>,
    calls: JoinSet<(TaskToken, Outcome)>,
}

/// How far an attempt is.
enum Stage {
    Calling(AbortHandle),
    /// Done, and not acknowledged yet.
    Done(Outcome),
}

impl OpenCalls {
    async fn run(mut self) {
        loop {
            let offer = Offer {
                worker: HTTP_WORKER.into(),
                capacity: self.settings.capacity,
                ..Offer::default()
            };
            match WorkerSession::connect(&self.lines.inbox, offer, true) {
                Ok(session) => self.serve(session).await,
                Err(error) if error.reason == "ENGINE_STOPPED" => return,
                Err(error) => tracing::debug!("the HTTP caller cannot connect: {error}"),
            }
            tokio::time::sleep(COME_BACK).await;
        }
    }

    /// Works until the session ends.
    async fn serve(&mut self, mut session: WorkerSession) {
        let answers = session.answers();
        for (token, stage) in self.stages.values() {
            if let Stage::Done(outcome) = stage {
                answers.settle(token.clone(), outcome.clone(), None);
            }
        }
        let mut alive = tokio::time::interval(self.lines.lease / 3);
        loop {
            tokio::select! {
                message = session.messages.recv() => match message {
                    Some(message) => if !self.take(message) { return },
                    None => return,
                },
                Some(done) = self.calls.join_next() => self.done(done, &answers),
                _ = alive.tick() => answers.heartbeat(None, None),
            }
        }
    }

    /// Takes a message; false when it was the last.
    fn take(&mut self, message: WorkerMessage) -> bool {
        match message {
            WorkerMessage::Task(task) => self.begin(*task),
            // A call that was sent cannot be taken back; its response shows the outcome.
            WorkerMessage::Cancel { .. } => {}
            WorkerMessage::Withdrawn { token, .. }
            | WorkerMessage::Accepted { token }
            | WorkerMessage::Refused { token, .. } => {
                let stage = self.stages.remove(&token.to_string());
                if let Some((_, Stage::Calling(call))) = stage {
                    call.abort();
                }
            }
            WorkerMessage::Closed { reason } => {
                tracing::debug!(reason, "the HTTP caller's session was closed");
                return false;
            }
        }
        true
    }

    fn begin(&mut self, task: WorkerTask) {
        let key = task.token.to_string();
        if self.stages.contains_key(&key) {
            // After a reconnect the keeper sends open tasks again.
            return;
        }
        let token = task.token.clone();
        let caller = Arc::clone(&self.caller);
        let limit = self.limit(&task);
        let call = self.calls.spawn(async move {
            let outcome = attempt(&caller, &task, limit).await;
            (task.token, outcome)
        });
        self.stages.insert(key, (token, Stage::Calling(call)));
    }

    /// How long a call may take.
    fn limit(&self, task: &WorkerTask) -> Duration {
        let Some(due) = task.due else {
            return self.settings.timeout;
        };
        let left = due.duration_since(self.lines.clock.now());
        Duration::try_from(left).unwrap_or_default() + GRACE
    }

    fn done(
        &mut self,
        done: Result<(TaskToken, Outcome), tokio::task::JoinError>,
        answers: &Answers,
    ) {
        let (token, outcome) = match done {
            Ok(done) => done,
            Err(error) => {
                let is_it = |stage: &Stage| matches!(stage, Stage::Calling(call) if call.id() == error.id());
                let found = self.stages.values().find(|(_, stage)| is_it(stage));
                // One that was withdrawn is not there any more.
                let Some((token, _)) = found else { return };
                let failure = Failure::reported(ErrorCategory::AgentError, error.to_string());
                (token.clone(), Outcome::Failed(failure))
            }
        };
        answers.settle(token.clone(), outcome.clone(), None);
        self.stages
            .insert(token.to_string(), (token, Stage::Done(outcome)));
    }
}

/// Makes the calls of HTTP steps for another host of the machine, by the same rules.
#[derive(Debug, Clone)]
pub struct HttpClient {
    caller: Caller,
    capacity: u32,
    timeout: Duration,
}

impl HttpClient {
    /// A client with these settings.
    ///
    /// # Errors
    /// There can be no client.
    pub fn new(settings: &HttpSettings) -> Result<Self, HttpError> {
        Ok(Self {
            caller: Caller::new(settings).map_err(HttpError::Client)?,
            capacity: settings.capacity,
            timeout: settings.timeout,
        })
    }

    /// The most concurrent calls.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Makes a call. `key` names the attempt: the same when it is sent again.
    ///
    /// # Errors
    /// Why the attempt failed.
    pub async fn call(
        &self,
        request: HttpRequest,
        input: Data,
        key: String,
        limit: Option<Duration>,
    ) -> Result<Data, Failure> {
        let limit = limit.unwrap_or(self.timeout);
        let call = Call {
            request,
            input,
            key,
            limit,
        };
        made(&self.caller, &call).await
    }
}

/// One attempt of an HTTP step.
async fn attempt(caller: &Caller, task: &WorkerTask, limit: Duration) -> Outcome {
    let Some(request) = &task.http else {
        let failure = Failure::reported(ErrorCategory::Validation, "the step calls no address");
        return Outcome::Failed(failure);
    };
    let key = format!(
        "{}/{}/{}/{}",
        task.execution, task.token.branch, task.task.step, task.task.attempt
    );
    let call = Call {
        request: request.clone(),
        input: Arc::clone(&task.input),
        key,
        limit,
    };
    match made(caller, &call).await {
        Ok(output) => Outcome::Completed { output },
        Err(failure) => Outcome::Failed(failure),
    }
}

/// Makes a call and counts it.
async fn made(caller: &Caller, call: &Call) -> Result<Data, Failure> {
    let request = &call.request;
    let began = Instant::now();
    let what = match Url::parse(&request.url) {
        Ok(url) => format!("{} {}", request.method, shown(&url)),
        Err(_) => format!("{} (not a URL)", request.method),
    };
    let outcome = caller.call(call).await;
    let word = word(&outcome);
    metrics::counter!("stateway_engine_http_calls_total", "outcome" => word).increment(1);
    metrics::histogram!("stateway_engine_http_call_seconds").record(began.elapsed());
    match outcome {
        Ok(output) => Ok(Arc::new(output)),
        Err(trouble) => Err(trouble.failure(&what)),
    }
}

const fn word(outcome: &Result<serde_json::Value, Trouble>) -> &'static str {
    match outcome {
        Ok(_) => "completed",
        Err(Trouble::Unusable(_)) => "unusable",
        Err(Trouble::NotAllowed(_)) => "not_allowed",
        Err(Trouble::Unreachable(_)) => "unreachable",
        Err(Trouble::TooSlow(_)) => "timeout",
        Err(Trouble::Refused { .. }) => "refused",
        Err(Trouble::Odd { .. }) => "unusable_answer",
    }
}

#[cfg(test)]
mod tests;
