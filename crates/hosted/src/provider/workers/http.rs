//! HTTP steps of hosted executions, done by the gateway.
//!
//! To the objects the caller is a worker like any other: it claims attempts, renews their leases and reports
//! results. An attempt that was claimed before its gateway died goes to another one when its lease ends, and
//! is sent again with the same idempotency key.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use stateway_machine::{Data, Failure, HttpRequest};
use stateway_model::{ErrorCategory, Payload};
use stateway_provider_api::{
    TaskFailure, TaskOutcome, WorkerMessage, WorkerOffer, WorkerSession as _,
};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::session::Session;
use super::{HostPort, LEASE, Shared, run};
use crate::message::ClaimedTask;

/// The beginning of the caller's name in the log.
pub(super) const WORKER: &str = "engine/http";
/// The pause before a new session after one has ended.
const CONNECT_AGAIN: Duration = Duration::from_millis(200);
/// How much longer than its time limit an attempt is waited for: the timer of the execution is to end it.
const GRACE: Duration = Duration::from_secs(2);

/// One call of an HTTP step.
#[derive(Debug, Clone)]
pub struct HttpAttempt {
    /// What is sent. Its body is the input.
    pub request: HttpRequest,
    /// The input.
    pub input: Data,
    /// Names the attempt: the same when it is sent again.
    pub key: String,
    /// How long it may take; none: as long as the caller allows.
    pub limit: Option<Duration>,
}

/// Makes one call: the output of the step, or why the attempt failed.
pub type HttpCall =
    Arc<dyn Fn(HttpAttempt) -> BoxFuture<'static, Result<Data, Failure>> + Send + Sync>;

/// Makes the calls of HTTP steps.
#[derive(Clone)]
pub struct HttpSteps {
    /// The most concurrent calls.
    pub capacity: u32,
    /// Makes one call.
    pub call: HttpCall,
}

/// Connects, works until the session ends, and connects again.
pub(super) async fn serve<P: HostPort>(shared: Arc<Shared<P>>, steps: HttpSteps) {
    // Each process has a name of its own: two gateways must not take each other's attempts for theirs.
    let began = shared.host.now().as_millisecond();
    let worker: Arc<str> = format!("{WORKER}/{}-{began}", std::process::id()).into();
    loop {
        let offer = WorkerOffer {
            worker: Arc::clone(&worker),
            capacity: steps.capacity,
            ..WorkerOffer::default()
        };
        let (tell, messages) = mpsc::unbounded_channel();
        let (calls, tasks) = mpsc::unbounded_channel();
        let now = (Instant::now(), shared.host.now());
        let session = shared.book().connect_http(offer, tell, calls, now);
        tokio::spawn(run::recover(Arc::clone(&shared), Arc::clone(&worker)));
        let session = Session::new(
            Arc::clone(&shared),
            (Arc::clone(&worker), session),
            messages,
        );
        work(&shared, &steps, session, tasks).await;
        tokio::time::sleep(CONNECT_AGAIN).await;
    }
}

async fn work<P: HostPort>(
    shared: &Shared<P>,
    steps: &HttpSteps,
    mut session: Session<P>,
    mut tasks: mpsc::UnboundedReceiver<(String, ClaimedTask)>,
) {
    let mut calls: JoinSet<(String, TaskOutcome)> = JoinSet::new();
    let mut under_way: HashMap<String, AbortHandle> = HashMap::new();
    let mut alive = tokio::time::interval(LEASE / 3);
    loop {
        tokio::select! {
            task = tasks.recv() => match task {
                Some((token, task)) if !under_way.contains_key(&token) => {
                    let attempt = attempt(&token, &task, shared.host.now());
                    let (steps, name) = (steps.clone(), token.clone());
                    let call = calls.spawn(async move { (name, outcome(&steps, attempt).await) });
                    under_way.insert(token, call);
                }
                Some(_) => {}
                None => return,
            },
            message = poll_fn(|context| session.poll_message(context)) => match message {
                Some(WorkerMessage::Withdrawn { task_token, .. }) => {
                    if let Some(call) = under_way.remove(&task_token) {
                        call.abort();
                    }
                }
                Some(
                    WorkerMessage::Accepted { task_token }
                    | WorkerMessage::Refused { task_token, .. },
                ) => drop(under_way.remove(&task_token)),
                // A call that has left cannot be taken back; its answer says what became of it.
                Some(WorkerMessage::Cancelled { .. } | WorkerMessage::Task(_)) => {}
                Some(WorkerMessage::Closed { .. }) | None => return,
            },
            Some(done) = calls.join_next() => {
                // A call that was aborted is not wanted any more.
                if let Ok((token, outcome)) = done {
                    session.settle(token, outcome, None);
                }
            }
            _ = alive.tick() => session.heartbeat(None, None),
        }
    }
}

/// What is to be called; none for a step that calls no address.
fn attempt(token: &str, task: &ClaimedTask, now: Timestamp) -> Option<HttpAttempt> {
    let execution = super::super::token::Token::parse(token)?.e;
    let open = &task.open;
    let limit = task.due.map(|due| {
        let left = Duration::try_from(due.duration_since(now));
        left.unwrap_or_default() + GRACE
    });
    Some(HttpAttempt {
        request: task.http.clone()?,
        input: Arc::clone(&task.input),
        key: format!(
            "{execution}/{}/{}/{}",
            open.branch, open.task.step, open.task.attempt
        ),
        limit,
    })
}

async fn outcome(steps: &HttpSteps, attempt: Option<HttpAttempt>) -> TaskOutcome {
    let called = match attempt {
        Some(attempt) => (steps.call)(attempt).await,
        None => Err(Failure::reported(
            ErrorCategory::Validation,
            "the step calls no address",
        )),
    };
    match called {
        Ok(output) => TaskOutcome::Completed {
            output: Some(Payload::json(output.to_string())),
        },
        Err(failure) => TaskOutcome::Failed(TaskFailure {
            category: failure.category,
            message: failure.message.to_string(),
            code: failure.code.to_string(),
            no_retry: failure.no_retry,
            effects_unknown: failure.effects_unknown,
            retry_after: failure.retry_after,
        }),
    }
}
