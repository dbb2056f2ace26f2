//! The details of one step as text.

use std::fmt::Write;

use jiff::Timestamp;
use stateway_phrases::visible;

use super::details::cost;
use super::{Clock, Paint, Table, branch_number, phrase, short_name, stamp};
use crate::view::{StepAttempt, StepDetail};

/// One step as lines of `what  value`, then its attempts.
#[must_use]
pub fn step_details(detail: &StepDetail, paint: Paint, now: Timestamp) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |what: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{} {value}", paint.dim(&format!("{what:<11}")));
        }
    };
    line("name", &paint.bold(&detail.name.to_string()));
    if let Some(step) = &detail.step {
        let reason = step.reason;
        let reason = reason.map_or_else(String::new, |reason| format!(" {reason}"));
        let state = paint.sub_state(step.sub_state);
        let native = &step.native_state;
        line("state", &format!("{state}{reason} (native `{native}`)"));
        let next = phrase(step.sub_state, &step.retry, &step.waits, Clock::Live(now));
        line("now", &next);
        line(
            "child",
            &step.child.as_ref().map(short_name).unwrap_or_default(),
        );
        line("usage", &step.usage.map(cost).unwrap_or_default());
        if let Some(error) = &step.last_error {
            line("last error", &error.message.to_string());
        }
    }
    let why = detail.not_retried.as_ref().map(ToString::to_string);
    line("retry", &why.unwrap_or_default());
    for (what, payload, cut) in [
        ("input", &detail.input, detail.input_truncated),
        ("output", &detail.output, detail.output_truncated),
    ] {
        let json = payload.as_ref().map(ToString::to_string);
        line(what, &visible(&json.unwrap_or_default()));
        line("", if cut { "(truncated)" } else { "" });
    }
    if !detail.attempts.is_empty() {
        let _ = write!(text, "\n{}", attempts(detail, paint));
    }
    text
}

fn attempts(detail: &StepDetail, paint: Paint) -> String {
    let headings = [
        "ATTEMPT", "BRANCH", "OUTCOME", "STARTED", "ASSIGNED", "ENDED", "WORKER", "CHILD", "USAGE",
        "ERROR",
    ];
    let mut table = Table::new(&headings, paint);
    let first = |one: &StepAttempt| branch_number(&one.branch) == "0";
    let branched = !detail.attempts.iter().all(first);
    for one in &detail.attempts {
        let branch = branch_number(&one.branch);
        table.row(vec![
            numbered(one),
            if branched { branch } else { String::new() },
            one.outcome.to_lowercase(),
            one.start_time.map(stamp).unwrap_or_default(),
            one.assign_time.map(stamp).unwrap_or_default(),
            one.end_time.map(stamp).unwrap_or_default(),
            worker(one),
            one.child.as_ref().map(short_name).unwrap_or_default(),
            one.usage.map(cost).unwrap_or_default(),
            one.error
                .as_ref()
                .map(|error| error.message.to_string())
                .unwrap_or_default(),
        ]);
    }
    table.text()
}

fn numbered(attempt: &StepAttempt) -> String {
    if attempt.compensation {
        return format!("{} (compensation)", attempt.attempt);
    }
    attempt.attempt.to_string()
}

fn worker(attempt: &StepAttempt) -> String {
    let worker = attempt.worker.as_ref().map(ToString::to_string);
    let worker = worker.unwrap_or_default();
    match attempt.hand_out_count {
        0 | 1 => worker,
        times => format!("{worker} (handed out {times} times)")
            .trim_start()
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;
    use stateway_client::v1::step_attempt::Outcome;

    use super::*;

    #[test]
    fn a_step_shows_its_payloads_and_every_attempt() {
        let attempt = |attempt, outcome: Outcome, compensation| v1::StepAttempt {
            attempt,
            branch: "providers/p/executions/a/branches/0".into(),
            compensation,
            worker: "w1".into(),
            hand_out_count: 2,
            outcome: outcome.into(),
            ..v1::StepAttempt::default()
        };
        let wire = v1::StepDetail {
            name: "providers/p/executions/a/steps/charge".into(),
            step: Some(v1::Step {
                sub_state: v1::SubState::Failed.into(),
                ..v1::Step::default()
            }),
            input: Some(v1::Payload {
                data: "{\"amount\":20}".into(),
                content_type: String::new(),
            }),
            input_truncated: true,
            attempts: vec![
                attempt(1, Outcome::Failed, false),
                attempt(1, Outcome::Succeeded, true),
            ],
            not_retried: "not retried: `agent_error` failures need a `retryPolicy`".into(),
            ..v1::StepDetail::default()
        };
        let detail = StepDetail::from(&wire);
        let text = step_details(&detail, Paint::new(false), Timestamp::UNIX_EPOCH);
        for line in [
            "input       {\"amount\":20}",
            "(truncated)",
            "retry       not retried: `agent_error` failures need a `retryPolicy`",
            "1                 failed     w1 (handed out 2 times)",
            "1 (compensation)  succeeded",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
