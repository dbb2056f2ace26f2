//! One sentence about an execution: the attempt, the wait, the last error.

use jiff::Timestamp;

use super::{moment, until};
use crate::view::{Cancellation, Execution, ExecutionError, Retry, Wait};

/// The command that lists pending escalations.
const ESCALATIONS: &str = "see `stateway escalations list`";

/// The format of times.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// Relative to now, for a live screen: `in 12 s`.
    Live(Timestamp),
    /// Absolute, for a line that stays: `at 2026-11-16T02:00:12.000Z`.
    Kept,
}

impl Clock {
    fn say(self, time: Timestamp) -> String {
        match self {
            Self::Live(now) => format!("in {}", until(time, now)),
            Self::Kept => format!("at {}", moment(time)),
        }
    }
}

/// The attempts and waits of an execution or a step, and its last error.
#[must_use]
pub fn phrase(sub_state: &str, retry: &Retry, waits: &[Wait], clock: Clock) -> String {
    match sub_state {
        "backing-off" => backing_off(retry, clock),
        "succeeded" => String::new(),
        _ => {
            let mut parts = Vec::new();
            if retry.attempt > 1 || sub_state == "failed" && retry.attempt > 0 {
                parts.push(attempt(retry));
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

/// The attempts and waits of an execution.
#[must_use]
pub(super) fn next(execution: &Execution, clock: Clock) -> String {
    if execution.reason == Some("CANCELLING") {
        let steps = execution
            .current_steps
            .iter()
            .map(|step| format!("`{step}`"));
        let steps: Vec<_> = steps.collect();
        if steps.is_empty() {
            return "cancelling".to_owned();
        }
        return format!("cancelling: waits for {}", steps.join(", "));
    }
    let (retry, waits) = (&execution.retry, &execution.waits);
    phrase(execution.sub_state, retry, waits, clock)
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
    let waits = |wait: &&Wait| matches!(wait.blocker, Some("slot" | "concurrency" | "memory"));
    let wait = execution.waits.iter().find(waits)?;
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

fn backing_off(retry: &Retry, clock: Clock) -> String {
    let mut said = if retry.attempt == 0 {
        "an attempt".into()
    } else {
        attempt(retry)
    };
    said.push_str(" failed");
    // Before the error, which a narrow terminal may have to cut.
    if let Some(time) = retry.next_attempt_time {
        said.push_str("; next attempt ");
        said.push_str(&clock.say(time));
    }
    if let Some(error) = &retry.last_error {
        said.push_str(": ");
        said.push_str(&error.message.to_string());
    }
    said
}

fn attempt(retry: &Retry) -> String {
    match retry.max_attempt_count {
        Some(0) => format!("attempt {} (no limit)", retry.attempt),
        Some(most) => format!("attempt {} of {most}", retry.attempt),
        None => format!("attempt {}", retry.attempt),
    }
}

fn waiting(wait: &Wait, clock: Clock) -> String {
    let what = match (wait.kind, wait.name.raw(), wait.blocker) {
        (_, _, Some("slot" | "concurrency" | "memory")) => "its turn".to_owned(),
        ("timer", _, _) => {
            let ends = wait.expire_time.map(|time| clock.say(time));
            let ends = ends.map_or_else(String::new, |ends| format!(" that ends {ends}"));
            return format!("waits for a timer{ends}");
        }
        ("escalation", "", _) => return format!("waits for a person's decision: {ESCALATIONS}"),
        ("escalation", _, _) => {
            return format!(
                "waits for a person's decision by `{}`: {ESCALATIONS}",
                wait.name
            );
        }
        (_, "", Some("worker")) => "a worker".to_owned(),
        (_, _, Some("worker")) => format!("a worker of role `{}`", wait.name),
        (_, "", _) => wait.kind.to_owned(),
        (_, _, _) => format!("{} `{}`", wait.kind, wait.name),
    };
    let expires = wait.expire_time.map(|time| clock.say(time));
    let expires = expires.map_or_else(String::new, |time| format!(", expires {time}"));
    let detail = wait.detail.as_ref();
    let detail = detail.map_or_else(String::new, |detail| format!(": {detail}"));
    format!("waits for {what}{expires}{detail}")
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
    fn a_back_off_says_attempt_error_and_when() {
        let retry = Retry {
            attempt: 2,
            max_attempt_count: Some(5),
            next_attempt_time: Some(at(12)),
            last_error: Some(error()),
            ..Retry::default()
        };
        let said = |clock| phrase("backing-off", &retry, &[], clock);
        assert_eq!(
            said(Clock::Live(at(0))),
            "attempt 2 of 5 failed; next attempt in 12 s: connection refused"
        );
        let kept = "next attempt at 1970-01-01T00:00:12.000Z: connection refused";
        assert!(said(Clock::Kept).ends_with(kept));
    }

    #[test]
    fn waits_are_named() {
        let wait = |kind, name: &str, expire_time| Wait {
            kind,
            name: name.into(),
            start_time: None,
            expire_time,
            detail: None,
            blocker: None,
        };
        let said = |wait| phrase("waiting", &Retry::default(), &[wait], Clock::Live(at(0)));
        assert_eq!(
            said(wait("signal", "approve", None)),
            "waits for signal `approve`"
        );
        assert_eq!(
            said(wait("approval", "", Some(at(60)))),
            "waits for approval, expires in 60 s"
        );
        assert_eq!(
            said(wait("escalation", "sre", None)),
            "waits for a person's decision by `sre`: see `stateway escalations list`"
        );
        assert_eq!(
            said(wait("escalation", "", None)),
            "waits for a person's decision: see `stateway escalations list`"
        );
        assert_eq!(
            said(wait("timer", "", Some(at(5)))),
            "waits for a timer that ends in 5 s"
        );
        assert_eq!(
            said(wait("capacity", "lock-7", None)),
            "waits for capacity `lock-7`"
        );
        let unserved = Wait {
            detail: Some("no worker of role `etl` is connected".into()),
            blocker: Some("worker"),
            ..wait("capacity", "etl", Some(at(60)))
        };
        assert_eq!(
            said(unserved),
            "waits for a worker of role `etl`, expires in 60 s: no worker of role `etl` is connected"
        );
        let queued = Wait {
            detail: Some("2 of 2 executions are active".into()),
            blocker: Some("slot"),
            ..wait("capacity", "", None)
        };
        assert_eq!(
            said(queued),
            "waits for its turn: 2 of 2 executions are active"
        );
    }

    #[test]
    fn an_execution_that_is_being_cancelled_says_what_it_waits_for() {
        let mut execution = Execution::from(&stateway_client::v1::Execution::default());
        execution.reason = Some("CANCELLING");
        execution.current_steps = vec!["pay".into(), "ship".into()];
        execution.sub_state = "running";
        let said = now(&execution, Clock::Kept);
        assert_eq!(said, "cancelling: waits for `pay`, `ship`");
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
    fn no_limit_is_not_zero() {
        let retry = Retry {
            attempt: 3,
            max_attempt_count: Some(0),
            ..Retry::default()
        };
        assert_eq!(
            phrase("running", &retry, &[], Clock::Kept),
            "attempt 3 (no limit)"
        );
    }

    #[test]
    fn only_who_is_in_trouble_tells_of_it() {
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
