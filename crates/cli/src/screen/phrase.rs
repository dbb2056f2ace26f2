//! One sentence about what happens next: the attempt, the wait, the last error.

use jiff::Timestamp;

use super::{moment, until};
use crate::view::{Execution, ExecutionError, Retry, Wait};

/// How points in time are said.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// Relative to now, for a screen that is looked at: `in 12 s`.
    Live(Timestamp),
    /// As they are, for a line that is kept: `at 2026-11-16T02:00:12.000Z`.
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

/// What an execution or a step does next, and what went wrong last.
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

/// What an execution does next; of one that is in trouble also what the trouble is.
#[must_use]
pub fn now(execution: &Execution, clock: Clock) -> String {
    let (retry, waits) = (&execution.retry, &execution.waits);
    let next = phrase(execution.sub_state, retry, waits, clock);
    let troubles = execution.last_error.iter().map(trouble);
    let mut parts = vec![next];
    if matches!(execution.sub_state, "failed" | "error") {
        parts.extend(troubles);
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
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
    match retry.max_attempts {
        Some(0) => format!("attempt {} (no limit)", retry.attempt),
        Some(most) => format!("attempt {} of {most}", retry.attempt),
        None => format!("attempt {}", retry.attempt),
    }
}

fn waiting(wait: &Wait, clock: Clock) -> String {
    let what = match wait.name.is_empty() {
        true => wait.kind.to_string(),
        false => format!("{} `{}`", wait.kind, wait.name),
    };
    if (wait.kind.raw(), wait.name.raw()) == ("capacity", "slot") {
        return "waits for a free place".to_owned();
    }
    match (wait.kind.raw(), wait.deadline) {
        ("timer", Some(time)) => format!("waits for a timer that ends {}", clock.say(time)),
        (_, Some(time)) => format!("waits for {what}, expires {}", clock.say(time)),
        (_, None) => format!("waits for {what}"),
    }
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
            time: None,
            native_code: None,
            detail: None,
        }
    }

    #[test]
    fn a_back_off_says_attempt_error_and_when() {
        let retry = Retry {
            attempt: 2,
            max_attempts: Some(5),
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
        let wait = |kind: &str, name: &str, deadline| Wait {
            kind: kind.into(),
            name: name.into(),
            since: None,
            deadline,
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
            said(wait("timer", "", Some(at(5)))),
            "waits for a timer that ends in 5 s"
        );
    }

    #[test]
    fn no_limit_is_not_zero() {
        let retry = Retry {
            attempt: 3,
            max_attempts: Some(0),
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
        execution.retry.max_attempts = Some(3);
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
