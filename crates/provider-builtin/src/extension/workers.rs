//! Workers: both directions of a session over the engine's own channels.
//!
//! JSON of payloads is parsed and serialised here, on the task of the connection; the keeper's thread
//! still serialises events and checks sizes and schemas.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use stateway_engine::{
    Answers, Offer, Outcome, Scheduled, Survey, TaskToken, WorkerMessage as Told,
    WorkerSession as Connected, WorkerTask as Task,
};
use stateway_machine::{Data, Failure};
use stateway_model::{ErrorCategory, ExecutionId, Payload, Progress, Usage};
use stateway_provider_api::{
    Call, HeldTask, QueuedExecutions, QueuedTasks, Result, ScheduledStart, TaskFailure,
    TaskOutcome, Verb, WorkQueue, WorkerConnection, WorkerMessage, WorkerOffer, WorkerSession,
    WorkerStatus, WorkerTask, Workers,
};

use super::portable_definitions::disabled;
use crate::BuiltinProvider;
use crate::request::is_json;
use stateway_hosted::id_of;

/// The most refusals of the adapter that may wait for a worker to read them.
const MOST_UNREAD: usize = 256;

#[async_trait]
impl Workers for BuiltinProvider {
    async fn connect(&self, call: &Call, offer: WorkerOffer) -> Result<WorkerConnection> {
        let connected = async { self.engine.connect(engine_offer(offer)) };
        let connected = self.line.carry(call, Verb::Work, connected).await?;
        Ok(WorkerConnection {
            session: Box::new(Session {
                answers: connected.answers(),
                connected,
                own: VecDeque::new(),
            }),
            lease: self.engine.lease(),
        })
    }

    async fn queue(&self, call: &Call) -> Result<WorkQueue> {
        let survey = self.line.carry(call, Verb::Queue, self.engine.survey());
        Ok(queue(survey.await?))
    }
}

/// One connected worker.
struct Session {
    connected: Connected,
    answers: Answers,
    /// What the adapter itself refuses.
    own: VecDeque<WorkerMessage>,
}

impl WorkerSession for Session {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // A worker that does not read refusals is not listened to meanwhile. No waker is needed: the
        // next message is ready.
        if self.own.len() >= MOST_UNREAD {
            return Poll::Pending;
        }
        self.answers.poll_ready(context)
    }

    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Option<WorkerMessage>> {
        if let Some(own) = self.own.pop_front() {
            return Poll::Ready(Some(own));
        }
        self.connected
            .messages
            .poll_recv(context)
            .map(|told| told.map(message))
    }

    fn settle(&mut self, task_token: String, outcome: TaskOutcome, usage: Option<Usage>) {
        let token: TaskToken = match task_token.parse() {
            Ok(token) => token,
            Err(error) => return self.refuse_token(task_token, error),
        };
        match engine_outcome(outcome) {
            Ok(outcome) => self.answers.settle(token, outcome, usage),
            // A worker that answers has ended its attempt: an output that cannot be read fails it.
            Err(message) => {
                let failure = Failure::reported(ErrorCategory::AgentError, message.as_str());
                self.answers.settle(token, Outcome::Failed(failure), usage);
                self.own.push_back(WorkerMessage::Refused {
                    task_token,
                    reason: "INVALID_OUTPUT",
                    message,
                });
            }
        }
    }

    fn heartbeat(&mut self, task_token: Option<String>, progress: Option<Progress>) {
        let Some(task_token) = task_token else {
            return self.answers.heartbeat(None, None);
        };
        match task_token.parse() {
            Ok(token) => self.answers.heartbeat(Some(token), progress),
            Err(error) => self.refuse_token(task_token, error),
        }
    }

    fn offer(&mut self, offer: WorkerOffer) {
        self.answers.offer(engine_offer(offer));
    }
}

impl Session {
    fn refuse_token(&mut self, task_token: String, error: stateway_engine::EngineError) {
        self.own.push_back(WorkerMessage::Refused {
            task_token,
            reason: error.reason,
            message: error.message,
        });
    }
}

fn engine_offer(offer: WorkerOffer) -> Offer {
    Offer {
        worker: offer.worker,
        roles: offer.roles,
        skills: offer.skills,
        capacity: offer.capacity,
        tenant: offer.tenant,
        identity: offer.identity,
    }
}

/// The outcome in the engine's terms, or why an output cannot be read.
fn engine_outcome(outcome: TaskOutcome) -> std::result::Result<Outcome, String> {
    Ok(match outcome {
        TaskOutcome::Completed { output } => Outcome::Completed {
            output: output_data(output)?,
        },
        TaskOutcome::Failed(failure) => Outcome::Failed(engine_failure(failure)),
        TaskOutcome::Released { begun } => Outcome::Released { begun },
    })
}

fn output_data(output: Option<Payload>) -> std::result::Result<Data, String> {
    let Some(output) = output else {
        return Ok(Data::default());
    };
    let read = if is_json(&output.content_type) {
        stateway_engine::parse_payload(&output.data)
    } else {
        Err(format!("its content type is {}", output.content_type))
    };
    read.map(Arc::new)
        .map_err(|why| format!("the output is not JSON: {why}"))
}

fn engine_failure(from: TaskFailure) -> Failure {
    let mut failure = Failure::reported(from.category, from.message);
    failure.code = from.code.into();
    failure.retry_after = from.retry_after;
    failure.no_retry = from.no_retry;
    failure.effects_unknown = from.effects_unknown;
    failure
}

fn message(from: Told) -> WorkerMessage {
    match from {
        Told::Task(task) => WorkerMessage::Task(Box::new(worker_task(*task))),
        Told::Cancel { token } => WorkerMessage::Cancelled {
            task_token: token.to_string(),
        },
        Told::Withdrawn { token, reason } => WorkerMessage::Withdrawn {
            task_token: token.to_string(),
            reason,
        },
        Told::Refused {
            token,
            reason,
            message,
        } => WorkerMessage::Refused {
            task_token: token.to_string(),
            reason,
            message,
        },
        Told::Accepted { token } => WorkerMessage::Accepted {
            task_token: token.to_string(),
        },
        Told::Closed { reason } => WorkerMessage::Closed { reason },
    }
}

fn worker_task(from: Task) -> WorkerTask {
    let execution = ExecutionId::new(&*from.execution);
    WorkerTask {
        task_token: from.token.to_string(),
        execution: execution.expect("the engine gives and takes only good ids"),
        step: from.task.step,
        attempt: from.task.attempt,
        compensation: from.task.undo,
        outcome_unknown: from.unknown,
        action: from.action,
        input: Payload {
            data: serde_json::to_vec(&*from.input).unwrap_or_default().into(),
            // Without a content type: JSON.
            content_type: String::new(),
        },
        feedback: from.feedback,
        deadline: from.due,
        heartbeat_timeout: from.heartbeat_timeout,
        role: from.role,
        model_policy: from.model_policy,
    }
}

fn queue(from: Survey) -> WorkQueue {
    WorkQueue {
        workers: from.workers.into_iter().map(worker).collect(),
        tasks: from
            .tasks
            .into_iter()
            .map(|line| QueuedTasks {
                by_engine: line.by_engine,
                role: line.role,
                skill: line.skill,
                tenant: line.tenant,
                count: line.waiting,
                oldest_time: line.oldest,
            })
            .collect(),
        executions: from
            .queued
            .into_iter()
            .map(|line| QueuedExecutions {
                tenant: line.tenant,
                count: line.waiting,
                oldest_time: line.oldest,
            })
            .collect(),
        scheduled: from.scheduled.iter().map(scheduled).collect(),
        active: from.active,
        max_active: from.max_active,
        memory_bytes: from.memory_bytes,
        max_memory_bytes: from.max_memory_bytes,
        memory_full: from.memory_full,
    }
}

fn scheduled(from: &Scheduled) -> ScheduledStart {
    ScheduledStart {
        definition: from.definition.to_string(),
        next_time: from.next,
        disabled: from.disabled.as_ref().map(disabled),
    }
}

fn worker(from: stateway_engine::WorkerStatus) -> WorkerStatus {
    let tasks = from.tasks.into_iter().filter_map(|held| {
        Some(HeldTask {
            execution: id_of(&held.execution)?,
            step: held.task.step.to_string(),
            attempt: held.task.attempt,
            compensation: held.task.undo,
        })
    });
    WorkerStatus {
        tasks: tasks.collect(),
        offer: WorkerOffer {
            worker: from.offer.worker,
            roles: from.offer.roles,
            skills: from.offer.skills,
            capacity: from.offer.capacity,
            tenant: from.offer.tenant,
            identity: from.offer.identity,
        },
        connected: from.connected,
        held: from.held,
        connect_time: from.since,
        seen_time: from.seen,
        lease_time: from.lease_until,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(data: &'static [u8], content_type: &str) -> Payload {
        Payload {
            data: data.into(),
            content_type: content_type.into(),
        }
    }

    #[test]
    fn an_output_is_json_or_cannot_be_read() {
        let output = output_data(Some(payload(b"{\"a\":1}", ""))).unwrap();
        assert_eq!(*output, serde_json::json!({"a": 1}));
        assert!(output_data(None).is_ok());
        for wrong in [
            payload(b"{", ""),
            payload(b"1", "text/plain"),
            payload(b"", ""),
        ] {
            let why = output_data(Some(wrong)).unwrap_err();
            assert!(why.starts_with("the output is not JSON: "), "{why}");
        }
    }
}
