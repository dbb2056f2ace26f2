//! Rows as observations: Restate's words and evidence, without a verdict.
//!
//! `status` comes first. Retry columns are detail, and of a paused invocation they are stale.

use jiff::Timestamp;
use stateway_model::{
    ErrorCategory, ExecutionError, ExecutionId, Labels, RetryBasis, Wait, WaitKind,
};
use stateway_provider_api::adapter::one_line;
use stateway_provider_api::{
    NativeState, Observation, ObservedDefinition, RetryEvidence, RetryPhase,
};

use crate::id::InvocationId;
use crate::qualifier;
use crate::row::{Invocation, QueueEntry};

/// What has to be read beside the row before the row can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// What a suspended invocation waits for.
    Waits,
    /// How a failed invocation ended.
    Ending,
    /// Why a paused one is paused.
    Pause,
    /// What the queue says of one that is ready.
    Queue,
}

/// What was read beside the row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Detail {
    #[default]
    Nothing,
    Waits(Vec<Wait>),
    Ending(Ending),
    Pause(Pause),
    Queue {
        entry: QueueEntry,
        failure: Option<ExecutionError>,
    },
}

/// What the journal shows about the end of an invocation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The handler answered.
    pub(crate) has_output: bool,
    /// Someone asked to cancel it.
    pub(crate) has_cancel_signal: bool,
}

/// The newest `Paused` event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) last_failure: Option<ExecutionError>,
}

pub(crate) fn need(row: &Invocation, vqueues: bool) -> Need {
    match row.status.as_str() {
        "suspended" => Need::Waits,
        "completed" if row.completion_result.as_deref() == Some("failure") => Need::Ending,
        "paused" => Need::Pause,
        "ready" if vqueues => Need::Queue,
        _ => Need::Nothing,
    }
}

/// The attempt that the row, or the queue in its place, counts.
pub(crate) fn counted(row: &Invocation, detail: &Detail) -> Option<u32> {
    let count = match detail {
        Detail::Queue { entry, .. } if row.retry_count.is_none() => entry.retry_attempts,
        _ => row.retry_count,
    };
    count
        .filter(|count| *count > 0)
        .map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// The invocation as its engine shows it. `most_attempts` is the maximum of the policy: 0 for no
/// maximum, `None` when it is not known.
pub(crate) fn observation(
    id: ExecutionId,
    row: &Invocation,
    detail: &Detail,
    most_attempts: Option<u32>,
) -> Observation {
    let mut seen = Observation::new(id, native(row, detail));
    seen.definition = definition(row);
    seen.retry = retry(row, detail, most_attempts);
    seen.waits = waits(row, detail);
    seen.last_error = last_error(row, detail);
    seen.create_time = row.created_at;
    seen.start_time = row.running_at;
    seen.update_time = row.modified_at;
    seen.end_time = row.completed_at;
    if let Some(key) = &row.target_service_key {
        seen.labels = Labels::from([("key".to_owned(), key.clone())]);
    }
    seen
}

fn definition(row: &Invocation) -> Option<ObservedDefinition> {
    let (service, handler) = (
        row.target_service_name.as_ref()?,
        row.target_handler_name.as_ref()?,
    );
    Some(ObservedDefinition::Native(format!("{service}/{handler}")))
}

/// The status, with the qualifiers that the table asks about.
fn native(row: &Invocation, detail: &Detail) -> NativeState {
    let mut native = NativeState::new(&row.status);
    if let Some(result) = &row.completion_result {
        native = native.with(qualifier::COMPLETION_RESULT, result);
    }
    match detail {
        Detail::Pause(pause) => native.with(qualifier::PAUSE_CAUSE, pause_cause(row, pause)),
        Detail::Queue { entry, .. } => native.with(qualifier::VQUEUE_STATUS, &entry.status),
        _ => match failure_kind(row, detail) {
            Some(kind) => native.with(qualifier::FAILURE_KIND, kind),
            None => native,
        },
    }
}

/// Pausing a back-off manually leaves a failure in the event, but it also leaves the retry columns
/// standing; running out of attempts clears them.
fn pause_cause(row: &Invocation, pause: &Pause) -> &'static str {
    if pause.last_failure.is_some() && row.next_retry_at.is_none() {
        "failures"
    } else {
        "hand"
    }
}

/// How a failed invocation ended, where it was not by its handler's own verdict. Without a journal
/// only the wording can tell.
fn failure_kind(row: &Invocation, detail: &Detail) -> Option<&'static str> {
    if row.completion_result.as_deref() != Some("failure") {
        return None;
    }
    let (code, message) = coded(row.completion_failure.as_deref().unwrap_or_default());
    let ending = match detail {
        Detail::Ending(ending) => Some(*ending),
        _ => None,
    };
    let by_engine = ending.is_none_or(|ending| !ending.has_output);
    let cancelled = ["cancelled", "canceled"]
        .iter()
        .any(|word| message.eq_ignore_ascii_case(word));
    match code {
        "409" if message == "killed" && by_engine => Some("killed"),
        "409" if cancelled && (by_engine || ending.is_some_and(|it| it.has_cancel_signal)) => {
            Some("cancelled")
        }
        _ => ending
            .filter(|ending| !ending.has_output)
            .map(|_| "exhausted"),
    }
}

fn retry(row: &Invocation, detail: &Detail, most: Option<u32>) -> Option<RetryEvidence> {
    if row.is_completed() {
        return None;
    }
    let attempt = counted(row, detail)?;
    let (phase, next) = match (row.status.as_str(), detail) {
        ("backing-off", _) => (RetryPhase::BetweenAttempts, row.next_retry_at),
        (_, Detail::Queue { entry, .. }) if entry.status == "backing-off" => {
            (RetryPhase::BetweenAttempts, entry.next_at)
        }
        // What stands there is what was planned before it was paused.
        ("paused", _) => (RetryPhase::BetweenAttempts, None),
        _ => (RetryPhase::UnderWay, None),
    };
    // Progress restarts the policy but not the count: beyond the maximum, the maximum is not known.
    let most = most.filter(|most| *most == 0 || *most >= attempt);
    let failed = match phase {
        RetryPhase::UnderWay => attempt.saturating_sub(1),
        _ => attempt,
    };
    let last_error = match detail {
        Detail::Queue { failure, .. } => failure.clone(),
        _ => row_failure(row),
    };
    Some(RetryEvidence {
        max_attempts: most,
        phase,
        next_attempt_time: next,
        last_error: last_error.map(|error| ExecutionError {
            attempt: failed,
            ..error
        }),
        basis: RetryBasis::Reported,
        ..RetryEvidence::reported(attempt)
    })
}

fn row_failure(row: &Invocation) -> Option<ExecutionError> {
    let (code, message) = coded(row.last_failure.as_deref()?);
    let documented = row.last_failure_error_code.as_deref();
    Some(failure(
        documented.unwrap_or(code),
        message,
        row.last_failure_related_command_name.as_deref(),
        None,
    ))
}

/// A failure as clients see it: one line, and the name of the command that failed.
pub(crate) fn failure(
    code: &str,
    message: &str,
    command: Option<&str>,
    at: Option<Timestamp>,
) -> ExecutionError {
    ExecutionError {
        step: command.unwrap_or_default().to_owned(),
        message: one_line(message),
        native_code: code.to_owned(),
        category: match code {
            "RT0001" => Some(ErrorCategory::Timeout),
            "RT0010" => Some(ErrorCategory::External),
            "RT0016" => Some(ErrorCategory::AgentError),
            _ => None,
        },
        attempt: 0,
        at,
    }
}

fn last_error(row: &Invocation, detail: &Detail) -> Option<ExecutionError> {
    if let Some(text) = &row.completion_failure {
        let (code, message) = coded(text);
        return Some(failure(code, message, None, row.completed_at));
    }
    match detail {
        Detail::Pause(pause) => pause.last_failure.clone(),
        _ => None,
    }
}

fn waits(row: &Invocation, detail: &Detail) -> Vec<Wait> {
    let wait = |kind, name: String, since, deadline| Wait {
        since,
        deadline,
        ..Wait::new(kind, name)
    };
    match (row.status.as_str(), detail) {
        ("pending", _) => vec![wait(WaitKind::Capacity, lock(row), row.inboxed_at, None)],
        ("scheduled", _) => {
            let (since, until) = (row.created_at, row.scheduled_start_at);
            vec![wait(WaitKind::Timer, String::new(), since, until)]
        }
        ("ready", Detail::Queue { entry, .. }) if entry.status == "backing-off" => Vec::new(),
        ("ready", _) => vec![wait(
            WaitKind::Capacity,
            String::new(),
            row.modified_at,
            None,
        )],
        ("suspended", detail) => suspended(row, detail),
        _ => Vec::new(),
    }
}

/// The key that a pending invocation queues for.
fn lock(row: &Invocation) -> String {
    let service = row.target_service_name.as_deref().unwrap_or_default();
    let key = row.target_service_key.as_deref().unwrap_or_default();
    format!("{service}/{key}")
}

/// Awakeables are in the row; the rest is in the journal.
fn suspended(row: &Invocation, detail: &Detail) -> Vec<Wait> {
    /// Below are Restate's own signals: 1 asks to cancel, and is always listened for.
    const FIRST_AWAKEABLE: u32 = 17;
    let id = InvocationId::parse(&row.id);
    let signals = row.suspended_waiting_for_signals.iter().flatten();
    let awakeables = signals
        .filter(|signal| **signal >= FIRST_AWAKEABLE)
        .map(|signal| Wait {
            since: row.modified_at,
            ..Wait::new(
                WaitKind::Callback,
                id.as_ref()
                    .map_or(String::new(), |id| id.awakeable(*signal)),
            )
        });
    let mut waits: Vec<Wait> = awakeables.collect();
    if let Detail::Waits(others) = detail {
        waits.extend(others.iter().cloned());
    }
    waits
}

/// `[code word] message` in its parts; the whole is the message when it has no code.
pub(crate) fn coded(text: &str) -> (&str, &str) {
    let parts = text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map(|(code, message)| (code.split(' ').next().unwrap_or_default(), message));
    match parts {
        Some((code, message)) if code.bytes().all(|byte| byte.is_ascii_digit()) => {
            (code, message.strip_prefix(' ').unwrap_or(message))
        }
        _ => ("", text),
    }
}

/// Recorded answers as an observation, as the provider would make it of them.
///
/// # Panics
/// The recording is not one of a query.
#[doc(hidden)]
#[must_use]
pub fn recorded(
    row: &serde_json::Value,
    journal: &[serde_json::Value],
    events: &[serde_json::Value],
    queue: Option<&serde_json::Value>,
    most: Option<u32>,
) -> Observation {
    use crate::journal;
    fn read<T: serde::de::DeserializeOwned>(value: &serde_json::Value) -> T {
        serde_json::from_value(value.clone()).expect("a row of the recorded table")
    }
    let row: Invocation = read(row);
    let entries: Vec<_> = journal.iter().map(read).collect();
    let events: Vec<_> = events.iter().map(read).collect();
    let detail = match need(&row, queue.is_some()) {
        Need::Nothing => Detail::Nothing,
        Need::Waits => Detail::Waits(journal::waits(&row, &entries)),
        Need::Ending => journal::ending(&entries).map_or(Detail::Nothing, Detail::Ending),
        Need::Pause => journal::pause(&events).map_or(Detail::Nothing, Detail::Pause),
        Need::Queue => Detail::Queue {
            entry: queue.map(read).expect("asked for because it is there"),
            failure: journal::newest_failure(&events),
        },
    };
    let id = ExecutionId::new(&row.id).expect("a recorded id");
    observation(id, &row, &detail, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_split_from_messages() {
        assert_eq!(coded("[422] order rejected"), ("422", "order rejected"));
        assert_eq!(coded("[500 Internal] boom\n at x"), ("500", "boom\n at x"));
        assert_eq!(coded("[note] boom"), ("", "[note] boom"));
        assert_eq!(coded("boom"), ("", "boom"));
        assert_eq!(coded("[500]"), ("500", ""));
        assert_eq!(coded(""), ("", ""));
    }

    fn backing_off(count: u64) -> Invocation {
        Invocation {
            status: "backing-off".into(),
            retry_count: Some(count),
            ..Invocation::default()
        }
    }

    fn evidence(count: u64, most: Option<u32>) -> (u32, Option<u32>) {
        let seen = retry(&backing_off(count), &Detail::Nothing, most).unwrap();
        (seen.attempt, seen.max_attempts)
    }

    #[test]
    fn attempts_are_reported_as_the_server_counts_them() {
        assert_eq!(evidence(2, Some(5)), (2, Some(5)));
        assert_eq!(evidence(2, Some(0)), (2, Some(0)));
        assert_eq!(evidence(2, None), (2, None));
    }

    #[test]
    fn a_count_beyond_the_most_says_that_the_most_is_not_known() {
        assert_eq!(evidence(6, Some(5)), (6, None));
    }

    fn failed(text: &str, ending: Option<Ending>) -> Option<&'static str> {
        let row = Invocation {
            status: "completed".into(),
            completion_result: Some("failure".into()),
            completion_failure: Some(text.into()),
            ..Invocation::default()
        };
        failure_kind(&row, &ending.map_or(Detail::Nothing, Detail::Ending))
    }

    #[test]
    fn a_handler_that_fails_with_the_engines_words_is_an_ordinary_failure() {
        let answered = Some(Ending {
            has_output: true,
            has_cancel_signal: false,
        });
        assert_eq!(failed("[409] killed", answered), None);
        assert_eq!(failed("[409] cancelled", answered), None);
        assert_eq!(failed("[500] boom", answered), None);
    }

    #[test]
    fn every_spelling_of_a_cancellation_is_one() {
        let obeyed = Some(Ending {
            has_output: true,
            has_cancel_signal: true,
        });
        for text in ["[409] Cancelled", "[409] cancelled", "[409] canceled"] {
            assert_eq!(failed(text, obeyed), Some("cancelled"), "{text}");
            assert_eq!(failed(text, None), Some("cancelled"), "{text}");
            let before_it_ran = Some(Ending::default());
            assert_eq!(failed(text, before_it_ran), Some("cancelled"), "{text}");
        }
        assert_eq!(failed("[500] rolled back", obeyed), None);
    }

    #[test]
    fn without_a_journal_nothing_is_called_exhausted() {
        assert_eq!(failed("[500] boom", None), None);
        assert_eq!(
            failed("[500] boom", Some(Ending::default())),
            Some("exhausted")
        );
    }
}
