//! Converts the messages of a worker's stream to the types of a provider and back.

use stateway_definition::limits::MAX_DURATION;
use stateway_model::{ErrorCategory, ExecutionName, Progress, ProviderId, Usage};
use stateway_proto::v1;
use stateway_proto::v1::stream_tasks_response::Message;
use stateway_proto::v1::task_withdrawn::Reason as Withdrawal;
use stateway_provider_api::{TaskFailure, WorkerMessage, WorkerTask};

use crate::convert;

/// The longest message of a failure that is kept; what is longer is cut.
const LONGEST_MESSAGE: usize = 4_096;
/// The longest code of a failure that is kept.
const LONGEST_CODE: usize = 256;

/// What goes to the worker.
pub(super) fn told(provider: &ProviderId, from: WorkerMessage) -> Message {
    match from {
        WorkerMessage::Task(task) => Message::Task(task_of(provider, *task)),
        WorkerMessage::Cancelled { task_token } => {
            Message::Cancelled(v1::TaskCancelled { task_token })
        }
        WorkerMessage::Withdrawn { task_token, reason } => Message::Withdrawn(v1::TaskWithdrawn {
            task_token,
            reason: withdrawal(reason).into(),
        }),
        WorkerMessage::Refused {
            task_token,
            reason,
            message,
        } => Message::Refused(v1::TaskRefused {
            task_token,
            reason: reason.to_owned(),
            message,
        }),
        WorkerMessage::Accepted { task_token } => {
            Message::Accepted(v1::TaskAccepted { task_token })
        }
        WorkerMessage::Closed { reason } => closed(reason),
    }
}

/// The provider's word as the wire has it.
fn withdrawal(word: &str) -> Withdrawal {
    Withdrawal::from_str_name(word).unwrap_or(Withdrawal::Unspecified)
}

pub(super) fn closed(reason: &str) -> Message {
    Message::Closed(v1::SessionClosed {
        reason: reason.to_owned(),
    })
}

fn task_of(provider: &ProviderId, from: WorkerTask) -> v1::Task {
    v1::Task {
        task_token: from.task_token,
        execution: ExecutionName::new(provider.clone(), from.execution).to_string(),
        step: from.step.to_string(),
        attempt: convert::int32(from.attempt),
        action: from.action.to_string(),
        input: Some(convert::payload_into(from.input)),
        feedback: from.feedback.as_deref().unwrap_or_default().to_owned(),
        expire_time: from.deadline.map(convert::timestamp),
        heartbeat_timeout: from.heartbeat_timeout.map(convert::duration),
        compensation: from.compensation,
        role: from.role.to_string(),
        model_policy: from.model_policy.to_string(),
        outcome_unknown: from.outcome_unknown,
    }
}

/// How a task failed. A worker that reports a failure has ended its attempt, so a part of the report
/// that is wrong never leaves the task open: the message gets a note instead.
pub(super) fn failed(from: &v1::TaskFailed) -> TaskFailure {
    let mut notes = Vec::new();
    let category = match v1::ErrorCategory::try_from(from.category) {
        Ok(category) => convert::error_category_from(category),
        Err(_) => {
            notes.push(format!("unknown failure category {}", from.category));
            None
        }
    };
    let category = category.unwrap_or(ErrorCategory::AgentError);
    let retry_after = from.retry_after.and_then(|pause| {
        let pause = convert::duration_from(pause).filter(|pause| *pause <= MAX_DURATION);
        if pause.is_none() {
            notes.push("`retry_after` is ignored: it must be at most ten years".to_owned());
        }
        pause
    });
    TaskFailure {
        category,
        message: noted(&from.message, &notes),
        code: cut(&from.code, LONGEST_CODE).to_owned(),
        no_retry: from.no_retry,
        effects_unknown: from.effects_unknown,
        retry_after,
    }
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

/// What an attempt cost; a negative figure counts as 0.
pub(super) fn usage(from: v1::Usage) -> Usage {
    Usage {
        input_tokens: u64::try_from(from.input_token_count).unwrap_or(0),
        output_tokens: u64::try_from(from.output_token_count).unwrap_or(0),
        cost_micros: u64::try_from(from.cost_micros).unwrap_or(0),
    }
}

/// How far an attempt is; nothing when the worker says nothing of it.
pub(super) fn progress(beat: &v1::TaskHeartbeat) -> Option<Progress> {
    if beat.progress == 0.0 && beat.detail.is_empty() {
        return None;
    }
    Progress::new(beat.progress, &beat.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_for_a_withdrawal_is_known() {
        for word in ["NOT_NEEDED", "CANCELLED", "TIMED_OUT", "WORKER_LOST"] {
            assert_eq!(withdrawal(word).as_str_name(), word);
        }
        assert_eq!(withdrawal("LATER"), Withdrawal::Unspecified);
    }

    #[test]
    fn a_failure_has_the_category_that_the_worker_reports() {
        let transient = failed(&v1::TaskFailed {
            category: v1::ErrorCategory::Transient.into(),
            message: "ä".repeat(LONGEST_MESSAGE),
            ..v1::TaskFailed::default()
        });
        assert_eq!(transient.category, ErrorCategory::Transient);
        assert!(transient.message.len() <= LONGEST_MESSAGE);
    }

    #[test]
    fn an_unknown_category_counts_as_agent_error_with_the_workers_message_and_a_note() {
        let of = |message: &str| {
            let failure = failed(&v1::TaskFailed {
                category: 99,
                message: message.into(),
                ..v1::TaskFailed::default()
            });
            assert_eq!(failure.category, ErrorCategory::AgentError);
            failure.message
        };
        let note = "unknown failure category 99";
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
        let failure = failed(&v1::TaskFailed {
            category: v1::ErrorCategory::Transient.into(),
            message: "busy".into(),
            retry_after: Some(prost_types::Duration {
                seconds: -1,
                nanos: 0,
            }),
            ..v1::TaskFailed::default()
        });
        assert_eq!(failure.retry_after, None);
        let expected = "busy (`retry_after` is ignored: it must be at most ten years)";
        assert_eq!(failure.message, expected);
    }

    #[test]
    fn a_worker_rules_out_another_attempt() {
        for no_retry in [false, true] {
            let failure = failed(&v1::TaskFailed {
                category: v1::ErrorCategory::Transient.into(),
                no_retry,
                ..v1::TaskFailed::default()
            });
            assert_eq!(failure.no_retry, no_retry);
        }
    }
}
