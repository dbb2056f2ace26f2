//! Converts the messages of a worker's stream to the types of the engine and back. The JSON of payloads is
//! parsed and serialised here; the keeper's thread still serialises events and checks sizes and schemas.

use std::sync::Arc;

use stateway_definition::limits::MAX_DURATION;
use stateway_engine::{Outcome, TaskToken, WorkerMessage, WorkerTask};
use stateway_machine::{Data, Failure};
use stateway_model::{
    ErrorCategory, ExecutionId, ExecutionName, Payload, Progress, ProviderId, Usage,
};
use stateway_proto::v1;
use stateway_proto::v1::work_response::Message;

use crate::convert;

/// The longest message of a failure that is kept; what is longer is cut.
const LONGEST_MESSAGE: usize = 4_096;
/// The longest code of a failure that is kept.
const LONGEST_CODE: usize = 256;
/// The longest part of an unknown word that a note repeats.
const LONGEST_WORD: usize = 64;

/// What goes to the worker.
pub(super) fn told(provider: &ProviderId, from: WorkerMessage) -> Message {
    match from {
        WorkerMessage::Task(task) => Message::Task(task_of(provider, &task)),
        WorkerMessage::Cancel { token } => Message::Cancelled(v1::TaskCancelled {
            task_token: token.to_string(),
        }),
        WorkerMessage::Withdrawn { token, reason } => Message::Withdrawn(v1::TaskWithdrawn {
            task_token: token.to_string(),
            reason: reason.to_owned(),
        }),
        WorkerMessage::Refused {
            token,
            reason,
            message,
        } => refused(token.to_string(), reason, message),
        WorkerMessage::Accepted { token } => Message::Accepted(v1::TaskAccepted {
            task_token: token.to_string(),
        }),
        WorkerMessage::Closed { reason } => closed(reason),
    }
}

pub(super) fn refused(task_token: String, reason: &str, message: impl Into<String>) -> Message {
    Message::Refused(v1::TaskRefused {
        task_token,
        reason: reason.to_owned(),
        message: message.into(),
    })
}

pub(super) fn closed(reason: &str) -> Message {
    Message::Closed(v1::SessionClosed {
        reason: reason.to_owned(),
    })
}

fn task_of(provider: &ProviderId, from: &WorkerTask) -> v1::Task {
    v1::Task {
        task_token: from.token.to_string(),
        execution: execution_name(provider, &from.execution),
        step: from.task.step.to_string(),
        attempt: from.task.attempt,
        action: from.action.to_string(),
        input: Some(json(&from.input)),
        feedback: from.feedback.as_deref().unwrap_or_default().to_owned(),
        deadline: from.due.map(convert::timestamp),
        heartbeat_timeout: from.heartbeat_timeout.map(convert::duration),
        compensation: from.task.undo,
        role: from.role.to_string(),
        model_policy: from.model_policy.to_string(),
        outcome_unknown: from.unknown,
    }
}

fn execution_name(provider: &ProviderId, id: &str) -> String {
    ExecutionId::new(id)
        .map(|id| ExecutionName::new(provider.clone(), id).to_string())
        .unwrap_or_default()
}

/// Data as it travels; without a content type, which means JSON.
pub(in crate::service) fn json(data: &Data) -> v1::Payload {
    v1::Payload {
        data: serde_json::to_vec(&**data).unwrap_or_default().into(),
        content_type: String::new(),
    }
}

/// Why what a worker sent is no answer.
pub(super) struct Unusable {
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// What becomes of the task all the same.
    pub(super) outcome: Option<Outcome>,
}

/// What a completed task gave.
pub(super) fn completed(output: Option<v1::Payload>) -> Result<Outcome, Unusable> {
    let Some(output) = output else {
        return Ok(Outcome::Completed {
            output: Data::default(),
        });
    };
    let is_json = output.content_type.is_empty() || output.content_type == Payload::JSON;
    let read = if is_json {
        stateway_engine::parse_payload(&output.data)
    } else {
        Err(format!("its content type is {}", output.content_type))
    };
    match read {
        Ok(value) => Ok(Outcome::Completed {
            output: Arc::new(value),
        }),
        Err(why) => {
            let message = format!("the output is not JSON: {why}");
            let failure = Failure::reported(ErrorCategory::AgentError, message.as_str());
            Err(Unusable {
                reason: "INVALID_OUTPUT",
                message,
                outcome: Some(Outcome::Failed(failure)),
            })
        }
    }
}

/// How a task failed. A worker that reports a failure has ended its attempt, so a part of the report
/// that is wrong never leaves the task open: the message gets a note instead.
pub(super) fn failed(from: &v1::TaskFailed) -> Outcome {
    let mut notes = Vec::new();
    let category = match from.category.as_str() {
        "" => ErrorCategory::AgentError,
        word => word.parse().unwrap_or_else(|_| {
            let word = cut(word, LONGEST_WORD);
            notes.push(format!("unknown failure category `{word}`"));
            ErrorCategory::AgentError
        }),
    };
    let retry_after = from.retry_after.and_then(|pause| {
        let pause = convert::duration_from(pause).filter(|pause| *pause <= MAX_DURATION);
        if pause.is_none() {
            notes.push("`retry_after` is ignored: it must be at most ten years".to_owned());
        }
        pause
    });
    let mut failure = Failure::reported(category, noted(&from.message, &notes));
    failure.code = cut(&from.code, LONGEST_CODE).into();
    failure.retry_after = retry_after;
    failure.no_retry = from.no_retry;
    failure.effects_unknown = from.effects_unknown;
    Outcome::Failed(failure)
}

/// The worker's message with notes behind it; the notes are never cut off.
fn noted(message: &str, notes: &[String]) -> String {
    if notes.is_empty() {
        return cut(message, LONGEST_MESSAGE).to_owned();
    }
    let notes = notes.join("; ");
    let message = cut(message, LONGEST_MESSAGE.saturating_sub(notes.len() + 3)).trim_end();
    if message.is_empty() {
        notes
    } else {
        format!("{message} ({notes})")
    }
}

fn cut(text: &str, longest: usize) -> &str {
    let mut end = text.len().min(longest);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// What an attempt cost.
pub(super) const fn usage(from: v1::Usage) -> Usage {
    Usage {
        input_tokens: from.input_tokens,
        output_tokens: from.output_tokens,
        cost_micros: from.cost_micros,
    }
}

/// How far an attempt is; nothing when the worker says nothing of it.
pub(super) fn progress(beat: &v1::TaskHeartbeat) -> Option<Progress> {
    if beat.progress == 0.0 && beat.detail.is_empty() {
        return None;
    }
    Progress::new(beat.progress, &beat.detail)
}

/// The token of an answer.
pub(super) fn token(text: &str) -> Result<TaskToken, Unusable> {
    text.parse()
        .map_err(|error: stateway_engine::EngineError| Unusable {
            reason: error.reason,
            message: error.message,
            outcome: None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(data: &'static [u8], content_type: &str) -> v1::Payload {
        v1::Payload {
            data: data.into(),
            content_type: content_type.into(),
        }
    }

    #[test]
    fn an_output_is_json_or_the_task_has_failed() {
        let Ok(Outcome::Completed { output }) = completed(Some(payload(b"{\"a\":1}", ""))) else {
            panic!("not taken");
        };
        assert_eq!(*output, serde_json::json!({"a": 1}));
        assert!(matches!(completed(None), Ok(Outcome::Completed { .. })));
        for wrong in [
            payload(b"{", ""),
            payload(b"1", "text/plain"),
            payload(b"", ""),
        ] {
            let Err(refused) = completed(Some(wrong)) else {
                panic!("taken");
            };
            assert_eq!(refused.reason, "INVALID_OUTPUT");
            let Some(Outcome::Failed(failure)) = refused.outcome else {
                panic!("the task goes on");
            };
            assert_eq!(failure.category, ErrorCategory::AgentError);
        }
    }

    fn failure(from: &v1::TaskFailed) -> Failure {
        let Outcome::Failed(failure) = failed(from) else {
            panic!("the task has not failed");
        };
        failure
    }

    #[test]
    fn a_failure_has_the_category_that_the_worker_reports() {
        let transient = failure(&v1::TaskFailed {
            category: "transient".into(),
            message: "ä".repeat(LONGEST_MESSAGE),
            ..v1::TaskFailed::default()
        });
        assert_eq!(transient.category, ErrorCategory::Transient);
        assert!(transient.message.len() <= LONGEST_MESSAGE);
    }

    #[test]
    fn an_unknown_category_counts_as_agent_error_with_the_workers_message_and_a_note() {
        let of = |message: &str| {
            let failure = failure(&v1::TaskFailed {
                category: "bad luck".into(),
                message: message.into(),
                ..v1::TaskFailed::default()
            });
            assert_eq!(failure.category, ErrorCategory::AgentError);
            failure.message.to_string()
        };
        let note = "unknown failure category `bad luck`";
        assert_eq!(of(""), note);
        assert_eq!(
            of("the card is blocked\n"),
            format!("the card is blocked ({note})")
        );
        let long = of(&"x".repeat(2 * LONGEST_MESSAGE));
        assert!(long.len() == LONGEST_MESSAGE && long.ends_with(&format!("x ({note})")));
    }

    #[test]
    fn an_impossible_pause_is_ignored_and_noted() {
        let failure = failure(&v1::TaskFailed {
            category: "transient".into(),
            message: "busy".into(),
            retry_after: Some(prost_types::Duration {
                seconds: -1,
                nanos: 0,
            }),
            ..v1::TaskFailed::default()
        });
        assert_eq!(failure.retry_after, None);
        let expected = "busy (`retry_after` is ignored: it must be at most ten years)";
        assert_eq!(&*failure.message, expected);
    }

    #[test]
    fn a_worker_rules_out_another_attempt() {
        for no_retry in [false, true] {
            let failure = failure(&v1::TaskFailed {
                category: "transient".into(),
                no_retry,
                ..v1::TaskFailed::default()
            });
            assert_eq!(failure.no_retry, no_retry);
        }
    }
}
