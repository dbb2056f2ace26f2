//! Between the stream's messages and the engine's words. JSON is read and written here, at the
//! edge, so that the engine's one thread never does it.

use std::sync::Arc;
use std::time::Duration;

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
    let read = match is_json {
        true => serde_json::from_slice(&output.data).map_err(|error| error.to_string()),
        false => Err(format!("its content type is {}", output.content_type)),
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

/// How a task failed.
pub(super) fn failed(from: &v1::TaskFailed) -> Result<Outcome, Unusable> {
    let unusable = |field: &str, rule: &str| Unusable {
        reason: "INVALID_ARGUMENT",
        message: format!("`{field}` must be {rule}"),
        outcome: None,
    };
    let category = match from.category.as_str() {
        "" => ErrorCategory::AgentError,
        word => word.parse().map_err(|_| {
            let words: Vec<_> = ErrorCategory::ALL
                .iter()
                .map(|word| word.as_str())
                .collect();
            unusable("category", &format!("one of {}", words.join(", ")))
        })?,
    };
    let retry_after: Option<Duration> = match from.retry_after {
        None => None,
        Some(pause) => Some(
            convert::duration_from(pause)
                .filter(|pause| *pause <= MAX_DURATION)
                .ok_or_else(|| unusable("retry_after", "a duration of at most ten years"))?,
        ),
    };
    let mut failure = Failure::reported(category, cut(&from.message, LONGEST_MESSAGE));
    failure.code = cut(&from.code, LONGEST_CODE).into();
    failure.retry_after = retry_after;
    failure.no_retry = from.no_retry;
    Ok(Outcome::Failed(failure))
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

    #[test]
    fn a_failure_says_its_category_and_a_wrong_one_is_refused() {
        let of = |category: &str| {
            failed(&v1::TaskFailed {
                category: category.into(),
                message: "ä".repeat(LONGEST_MESSAGE),
                ..v1::TaskFailed::default()
            })
        };
        let Ok(Outcome::Failed(failure)) = of("transient") else {
            panic!("not taken");
        };
        assert_eq!(failure.category, ErrorCategory::Transient);
        assert!(failure.message.len() <= LONGEST_MESSAGE);
        assert!(!failure.no_retry);
        assert_eq!(of("bad luck").err().unwrap().reason, "INVALID_ARGUMENT");
    }

    #[test]
    fn a_worker_rules_out_another_attempt() {
        let told = failed(&v1::TaskFailed {
            category: "transient".into(),
            no_retry: true,
            ..v1::TaskFailed::default()
        });
        assert!(matches!(told, Ok(Outcome::Failed(failure)) if failure.no_retry));
    }
}
