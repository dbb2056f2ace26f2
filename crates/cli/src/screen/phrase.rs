//! One sentence about an execution: the attempt, the wait, the last error.

use jiff::Timestamp;
use stateway_phrases::{self as phrases, Piece, plain};

use super::{stamp, until};
use crate::view::{Cancellation, Execution, ExecutionError, Retry, Text, Wait};

/// The command that lists pending escalations.
const ESCALATIONS: &str = ": see `stateway escalations list`";

/// The format of times.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// Relative to now, for a live screen: `in 12 s`.
    Live(Timestamp),
    /// Absolute, for a line that stays: `at 2026-11-16T02:00:12.000Z`.
    Kept,
}

impl Clock {
    fn show(self, time: Timestamp) -> String {
        match self {
            Self::Live(now) => format!("in {}", until(time, now)),
            Self::Kept => format!("at {}", stamp(time)),
        }
    }
}

/// The attempts and waits of an execution or a step, and its last error.
#[must_use]
pub fn phrase(sub_state: &str, retry: &Retry, waits: &[Wait], clock: Clock) -> String {
    match sub_state {
        "backing-off" => in_words(&phrases::backing_off(&attempts(retry)), clock),
        "succeeded" => String::new(),
        _ => {
            let mut parts = Vec::new();
            if retry.attempt > 1 || sub_state == "failed" && retry.attempt > 0 {
                parts.push(phrases::attempt(retry.attempt, retry.max_attempt_count));
            }
            parts.extend(waits.iter().map(|wait| waiting(wait, clock)));
            parts.join("; ")
        }
    }
}

/// The attempts and waits of an execution; in error or failed, also the error.
#[must_use]
pub fn now(execution: &Execution, clock: Clock) -> String {
    let mut parts = vec![reopened(execution), next(execution, clock)];
    if matches!(execution.sub_state, "failed" | "error") {
        parts.extend(execution.cancellation.iter().map(cancelled));
        parts.extend(execution.last_error.iter().map(trouble));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// The steps that an execution is at, its attempts and its waits.
#[must_use]
pub(super) fn next(execution: &Execution, clock: Clock) -> String {
    let steps: Vec<_> = execution.current_steps.iter().map(Text::raw).collect();
    if execution.reason == Some("CANCELLING") {
        if steps.is_empty() {
            return "cancelling".to_owned();
        }
        return format!("cancelling: waits for {}", phrases::steps(&steps));
    }
    let (retry, waits) = (&execution.retry, &execution.waits);
    let doing = phrase(execution.sub_state, retry, waits, clock);
    match execution.sub_state {
        // The error of these names its step.
        "failed" | "error" | "succeeded" => doing,
        _ => phrases::at(&steps, &doing),
    }
}

/// That an execution was reopened; empty if it was not.
#[must_use]
pub fn reopened(execution: &Execution) -> String {
    execution
        .reopen
        .as_ref()
        .map_or_else(String::new, |reopen| {
            format!("↻ reopened (was {})", reopen.previous_native_state)
        })
}

/// Who paused an execution and why, or why it cannot adopt a revision; none when it is not paused.
#[must_use]
pub fn paused(execution: &Execution) -> Option<String> {
    let pause = execution.pause.as_ref()?;
    if let Some(step) = &pause.step {
        return Some(format!("paused after the failure of step `{step}`"));
    }
    if let Some(revision) = &pause.offered_revision {
        let conflicts: Vec<_> = pause.conflicts.iter().map(ToString::to_string).collect();
        let conflicts = conflicts.join("; ");
        return Some(format!(
            "paused: it cannot adopt revision {revision}: {conflicts}"
        ));
    }
    let by = pause.paused_by.as_ref();
    let by = by.map_or_else(String::new, |by| format!(" by {by}"));
    let why = pause.comment.as_ref();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    Some(format!("paused{by}{why}"))
}

/// The limit that keeps an execution in the queue; none when it is not queued.
#[must_use]
pub fn queued(execution: &Execution) -> Option<String> {
    let wait = execution.waits.iter().find(|wait| facts(wait).queued())?;
    Some(waiting(wait, Clock::Kept))
}

/// `cancelled by olga: wrong order`.
#[must_use]
pub(super) fn cancelled(cancellation: &Cancellation) -> String {
    let by = cancellation.cancelled_by.as_ref();
    let who = by.map_or_else(String::new, |by| format!(" by {by}"));
    let why = cancellation.comment.as_ref();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("cancelled{who}{why}")
}

/// `step: message`, or just the message.
#[must_use]
pub fn trouble(error: &ExecutionError) -> String {
    if error.step.is_empty() {
        error.message.to_string()
    } else {
        format!("{}: {}", error.step, error.message)
    }
}

/// The sentence, with times as the clock shows them.
fn in_words(pieces: &[Piece<'_>], clock: Clock) -> String {
    plain(pieces, |time| clock.show(time))
}

fn attempts(retry: &Retry) -> phrases::Retry<'_> {
    phrases::Retry {
        attempt: retry.attempt,
        max_attempt_count: retry.max_attempt_count,
        next_attempt_time: retry.next_attempt_time,
        last_error: retry.last_error.as_ref().map(|error| error.message.raw()),
    }
}

fn facts(wait: &Wait) -> phrases::Wait<'_> {
    phrases::Wait {
        kind: wait.kind,
        name: wait.name.raw(),
        blocker: wait.blocker.unwrap_or_default(),
        start_time: wait.start_time,
        expire_time: wait.expire_time,
        detail: wait.detail.as_ref().map_or("", Text::raw),
    }
}

fn waiting(wait: &Wait, clock: Clock) -> String {
    let mut line = in_words(&phrases::waiting(&facts(wait)), clock);
    if wait.kind == "escalation" {
        line.push_str(ESCALATIONS);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn error() -> ExecutionError {
        ExecutionError {
            step: "charge".into(),
            message: "connection refused".into(),
            category: None,
            attempt: 2,
            occur_time: None,
            native_code: None,
            detail: None,
        }
    }

    #[test]
    fn times_are_relative_on_a_live_screen_and_absolute_on_a_line_that_stays() {
        let retry = Retry {
            attempt: 2,
            next_attempt_time: Some(at(12)),
            ..Retry::default()
        };
        let line = |clock| phrase("backing-off", &retry, &[], clock);
        assert_eq!(
            line(Clock::Live(at(0))),
            "attempt 2 failed; next attempt in 12 s"
        );
        assert_eq!(
            line(Clock::Kept),
            "attempt 2 failed; next attempt at 1970-01-01T00:00:12.000Z"
        );
    }

    #[test]
    fn an_escalation_names_the_command_that_lists_it() {
        let wait = Wait {
            kind: "escalation",
            name: "sre".into(),
            start_time: None,
            expire_time: None,
            detail: None,
            blocker: None,
        };
        assert_eq!(
            phrase("waiting", &Retry::default(), &[wait], Clock::Kept),
            "waits for a person's decision by `sre`: see `stateway escalations list`"
        );
    }

    #[test]
    fn an_execution_that_is_being_cancelled_says_what_it_waits_for() {
        let mut execution = Execution::from(&stateway_client::v1::Execution::default());
        execution.reason = Some("CANCELLING");
        execution.current_steps = vec!["pay".into(), "ship".into()];
        execution.sub_state = "running";
        let said = now(&execution, Clock::Kept);
        assert_eq!(said, "cancelling: waits for pay, ship");
    }

    #[test]
    fn an_open_execution_names_its_steps() {
        let mut execution = Execution::from(&stateway_client::v1::Execution::default());
        execution.current_steps = vec!["pay".into(), "ship".into()];
        execution.sub_state = "running";
        assert_eq!(now(&execution, Clock::Kept), "at pay, ship");
        execution.retry.attempt = 2;
        assert_eq!(now(&execution, Clock::Kept), "at pay, ship: attempt 2");
        execution.sub_state = "succeeded";
        assert_eq!(now(&execution, Clock::Kept), "");
    }

    #[test]
    fn an_execution_that_was_reopened_or_cancelled_says_so() {
        let wire = stateway_client::v1::Execution {
            sub_state: stateway_client::v1::SubState::Failed.into(),
            reopen: Some(Box::new(stateway_client::v1::Reopen {
                reopen_count: 1,
                previous_native_state: "failed".into(),
                ..Default::default()
            })),
            cancellation: Some(Box::new(stateway_client::v1::Cancellation {
                cancelled_by: "olga".into(),
                comment: "wrong order".into(),
                cancel_time: None,
            })),
            ..Default::default()
        };
        let said = now(&Execution::from(&wire), Clock::Kept);
        assert_eq!(
            said,
            "↻ reopened (was failed); cancelled by olga: wrong order"
        );
    }

    #[test]
    fn only_an_execution_in_error_or_failed_shows_its_error() {
        let wire = stateway_client::v1::Execution::default();
        let mut execution = Execution::from(&wire);
        execution.last_error = Some(error());
        execution.retry.attempt = 3;
        execution.retry.max_attempt_count = Some(3);
        let mut said = |sub_state| {
            execution.sub_state = sub_state;
            now(&execution, Clock::Kept)
        };
        assert_eq!(said("error"), "attempt 3 of 3; charge: connection refused");
        assert_eq!(said("failed"), "attempt 3 of 3; charge: connection refused");
        assert_eq!(said("running"), "attempt 3 of 3");
        assert_eq!(said("succeeded"), "");
    }

    #[test]
    fn trouble_is_one_line_with_its_step() {
        assert_eq!(trouble(&error()), "charge: connection refused");
    }
}
