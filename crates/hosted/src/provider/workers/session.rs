//! One connected worker: both directions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use stateway_driver::parse_payload;
use stateway_machine::{Data, Failure, Task, Verb as Command};
use stateway_model::{ErrorCategory, Payload, Progress, Usage};
use stateway_provider_api::{
    Error, TaskFailure, TaskOutcome, WorkerMessage, WorkerOffer, WorkerSession,
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::{HostPort, Shared, run};
use crate::message::{HandOut, Work};
use crate::provider::request::is_json;
use crate::provider::token::Token;

/// The most results of a worker that may be on their way to objects.
const MOST_IN_FLIGHT: usize = 256;
/// The most refusals that wait for a worker to read them.
const MOST_UNREAD: usize = 256;

/// One connected worker.
pub(super) struct Session<P: HostPort> {
    shared: Arc<Shared<P>>,
    worker: Arc<str>,
    session: u64,
    messages: UnboundedReceiver<WorkerMessage>,
    /// What is refused without asking an object.
    own: VecDeque<WorkerMessage>,
    flight: Arc<Flight>,
}

/// The results that are on their way.
#[derive(Default)]
struct Flight {
    count: AtomicUsize,
    waker: AtomicWaker,
}

/// One result on its way; the next one may follow when this is dropped.
struct Underway(Arc<Flight>);

impl Underway {
    fn begin(flight: &Arc<Flight>) -> Self {
        flight.count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(flight))
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Release);
        self.0.waker.wake();
    }
}

impl<P: HostPort> Session<P> {
    pub(super) fn new(
        shared: Arc<Shared<P>>,
        (worker, session): (Arc<str>, u64),
        messages: UnboundedReceiver<WorkerMessage>,
    ) -> Self {
        Self {
            shared,
            worker,
            session,
            messages,
            own: VecDeque::new(),
            flight: Arc::default(),
        }
    }

    fn alive(&self) {
        let now = (Instant::now(), self.shared.host.now());
        self.shared.book().alive(&self.worker, self.session, now);
    }

    fn refuse(&mut self, task_token: String, reason: &'static str, message: impl Into<String>) {
        self.own.push_back(WorkerMessage::Refused {
            task_token,
            reason,
            message: message.into(),
        });
    }
}

impl<P: HostPort> WorkerSession for Session<P> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // A worker that does not read refusals is not listened to meanwhile. No waker is needed: the
        // next message is ready.
        if self.own.len() >= MOST_UNREAD {
            return Poll::Pending;
        }
        let is_full = |flight: &Flight| flight.count.load(Ordering::Acquire) >= MOST_IN_FLIGHT;
        if !is_full(&self.flight) {
            return Poll::Ready(());
        }
        self.flight.waker.register(context.waker());
        if is_full(&self.flight) {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Option<WorkerMessage>> {
        if let Some(own) = self.own.pop_front() {
            return Poll::Ready(Some(own));
        }
        self.messages.poll_recv(context)
    }

    fn settle(&mut self, task_token: String, outcome: TaskOutcome, usage: Option<Usage>) {
        self.alive();
        let Some(token) = Token::parse(&task_token) else {
            return self.refuse(
                task_token,
                "INVALID_TOKEN",
                "the token does not belong to this provider",
            );
        };
        let verb = match verb_of(token.t.clone(), outcome, usage) {
            Ok(verb) => verb,
            // A worker that answers has ended its attempt: an output that cannot be read fails it.
            Err(message) => {
                self.refuse(task_token.clone(), "INVALID_OUTPUT", message.as_str());
                Command::FailTask {
                    task: token.t.clone(),
                    failure: Failure::reported(ErrorCategory::AgentError, message),
                    usage,
                }
            }
        };
        let underway = Underway::begin(&self.flight);
        let shared = Arc::clone(&self.shared);
        let (worker, session) = (Arc::clone(&self.worker), self.session);
        tokio::spawn(async move {
            settle(&shared, (&worker, session), (&token, task_token), verb).await;
            drop(underway);
        });
    }

    fn heartbeat(&mut self, task_token: Option<String>, progress: Option<Progress>) {
        self.alive();
        let Some(task_token) = task_token else {
            return;
        };
        let Some(token) = Token::parse(&task_token) else {
            return self.refuse(
                task_token,
                "INVALID_TOKEN",
                "the token does not belong to this provider",
            );
        };
        let has_progress = progress.is_some();
        let now = Instant::now();
        if !self
            .shared
            .book()
            .beat(&self.worker, &token, has_progress, now)
        {
            return;
        }
        let verb = Command::RecordHeartbeat {
            step: Arc::clone(&token.t.step),
            attempt: token.t.attempt,
            progress,
        };
        let work = Work::Settle {
            hand_out: hand_out(&token, &self.worker),
            verb: Box::new(verb),
        };
        let shared = Arc::clone(&self.shared);
        let underway = Underway::begin(&self.flight);
        tokio::spawn(async move {
            // A withdrawal that was sent before the heartbeat arrived tells the worker that it was too late.
            if let Ok(done) = shared.send(&token.e, ("heartbeat", work), None).await {
                shared.learn(&done);
            }
            drop(underway);
        });
    }

    fn offer(&mut self, offer: WorkerOffer) {
        self.alive();
        self.shared.book().offer(&self.worker, self.session, offer);
        self.shared.wake.notify_one();
    }
}

impl<P: HostPort> Drop for Session<P> {
    fn drop(&mut self) {
        let now = Instant::now();
        self.shared
            .book()
            .disconnect(&self.worker, self.session, now);
        self.shared.wake.notify_one();
    }
}

fn hand_out(token: &Token, worker: &Arc<str>) -> HandOut {
    HandOut {
        branch: token.b,
        task: token.t.clone(),
        number: token.h,
        worker: Arc::clone(worker),
    }
}

/// Brings a result to its object, with a claim for the room that it leaves, and tells the worker.
async fn settle<P: HostPort>(
    shared: &Arc<Shared<P>>,
    (worker, session): (&Arc<str>, u64),
    (token, task_token): (&Token, String),
    verb: Command,
) {
    let (hand_out, claim) = shared.book().settle(worker, token);
    let work = Work::Settle {
        hand_out: hand_out.clone(),
        verb: Box::new(verb),
    };
    let answer = shared
        .send_surely(&token.e, ("worker", &work), claim.as_ref(), || {
            shared.book().is_connected(worker, session)
        })
        .await;
    let most = claim.map_or(0, |claim| claim.most);
    match answer {
        Ok(done) => {
            // In one step, so that the room of the claim is not given away before its tasks are there.
            let mut book = shared.book();
            book.unreserve(worker, most);
            book.remove(worker, token);
            book.tell(worker, WorkerMessage::Accepted { task_token });
            book.learn(&done, Instant::now());
        }
        // Nothing is known of it: the worker keeps the result and sends it when it connects again.
        Err(error) if error.kind.is_retryable() => {
            let mut book = shared.book();
            book.unreserve(worker, most);
            book.unsettle(worker, token);
        }
        Err(error) => {
            shared.book().unreserve(worker, most);
            shared.book().remove(worker, token);
            let reason = reason(&error);
            let message = error.message.clone();
            shared.book().tell(
                worker,
                WorkerMessage::Refused {
                    task_token,
                    reason,
                    message,
                },
            );
            if reason != STALE {
                // The attempt is still open: another worker gets it.
                let execution = token.e.as_str().into();
                run::release(Arc::clone(shared), execution, hand_out).await;
            }
        }
    }
    shared.wake.notify_one();
}

const STALE: &str = "STALE_TASK";

/// The reason of a refusal, as a stable word.
fn reason(error: &Error) -> &'static str {
    match error.reason() {
        STALE => STALE,
        "EXECUTION_NOT_FOUND" | "ALREADY_FINISHED" => STALE,
        "EXECUTION_TOO_LARGE" => "EXECUTION_TOO_LARGE",
        "WRONG_STATE" => "WRONG_STATE",
        _ => "REFUSED",
    }
}

/// The command that an outcome is, or why an output cannot be read.
fn verb_of(task: Task, outcome: TaskOutcome, usage: Option<Usage>) -> Result<Command, String> {
    Ok(match outcome {
        TaskOutcome::Completed { output } => Command::CompleteTask {
            task,
            output: output_data(output)?,
            usage,
        },
        TaskOutcome::Failed(failure) => Command::FailTask {
            task,
            failure: machine_failure(failure),
            usage,
        },
        TaskOutcome::Released { begun } => Command::ReleaseTask { task, lost: begun },
    })
}

fn output_data(output: Option<Payload>) -> Result<Data, String> {
    let Some(output) = output else {
        return Ok(Data::default());
    };
    let read = if is_json(&output.content_type) {
        parse_payload(&output.data)
    } else {
        Err(format!("its content type is {}", output.content_type))
    };
    read.map(Arc::new)
        .map_err(|why| format!("the output is not JSON: {why}"))
}

fn machine_failure(from: TaskFailure) -> Failure {
    let mut failure = Failure::reported(from.category, from.message);
    failure.code = from.code.into();
    failure.retry_after = from.retry_after;
    failure.no_retry = from.no_retry;
    failure.effects_unknown = from.effects_unknown;
    failure
}
