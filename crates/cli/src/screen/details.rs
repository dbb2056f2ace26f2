//! The details of one execution as text.

use std::fmt::Write;

use jiff::Timestamp;
use stateway_client::v1;
use stateway_phrases::visible;

use super::phrase::{cancelled, next, paused};
use super::tree::blocked_by;
use super::{Clock, Paint, Table, ago, phrase, short_name, stamp, trouble};
use crate::view::{Execution, Progress, Reopen, Step, Text, Usage};

/// One execution as lines of `what  value`, then its steps.
#[must_use]
pub fn details(execution: &Execution, paint: Paint, now: Timestamp) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |what: &str, value: &str| {
        if !value.is_empty() {
            // A label that is longer than the column is still separated from its value.
            let gap = if what.len() < 11 { " " } else { "  " };
            let _ = writeln!(text, "{}{gap}{value}", paint.dim(&format!("{what:<11}")));
        }
    };
    line("name", &paint.bold(&execution.name.to_string()));
    line("state", &state(execution, paint));
    let next = next(execution, Clock::Live(now));
    line("now", &next);
    line("because", &paused(execution).unwrap_or_default());
    let ended_by = execution.cancellation.as_ref();
    let ended_by = ended_by.map(|it| with_time(&cancelled(it), it.cancel_time, now));
    line("cancelled", &ended_by.unwrap_or_default());
    let again = execution.reopen.as_ref();
    let again = again.map(|reopen| reopening(reopen, now));
    line("reopened", &again.unwrap_or_default());
    line("not rolled back", &joined(&execution.not_rolled_back));
    line(
        "last error",
        &execution
            .last_error
            .as_ref()
            .map(trouble)
            .unwrap_or_default(),
    );
    line("definition", &execution.definition.to_string());
    line("revision", &execution.revision.to_string());
    let labels: Vec<_> = execution
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    line("labels", &labels.join(" "));
    for (what, time) in [
        ("created", execution.create_time),
        ("started", execution.start_time),
        ("ended", execution.end_time),
    ] {
        let said = time.map(|time| format!("{} ({} ago)", stamp(time), ago(time, now)));
        line(what, &said.unwrap_or_default());
    }
    for (what, payload) in [("input", &execution.input), ("output", &execution.output)] {
        let json = payload.as_ref().map(ToString::to_string);
        line(what, &visible(&json.unwrap_or_default()));
    }
    if execution.payloads_redacted {
        line(
            "payloads",
            "left out: no access rule allows you to read them",
        );
    }
    line("usage", &execution.usage.map(cost).unwrap_or_default());
    let abandoned = execution.abandoned_usage.map(cost);
    let abandoned = abandoned.map(|cost| format!("{cost}, on abandoned branches"));
    line("", &abandoned.unwrap_or_default());
    let source = execution.forked_from.as_ref().map(short_name);
    line("forked from", &source.unwrap_or_default());
    let forks: Vec<_> = execution.forks.iter().map(short_name).collect();
    line("forks", &forks.join(" "));
    line("etag", &execution.etag.to_string());
    if !execution.steps.is_empty() {
        let _ = write!(text, "\n{}", steps_table(execution, paint, now));
    }
    let traces = traces(execution, paint);
    if !traces.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&traces);
    text
}

/// The full error texts that have several lines: of the execution and of its steps, each text once.
#[must_use]
pub fn traces(execution: &Execution, paint: Paint) -> String {
    let of_steps = execution.steps.iter().filter_map(|step| {
        let error = step.last_error.as_ref()?;
        Some((&step.name, error))
    });
    let of_execution = execution
        .last_error
        .iter()
        .map(|error| (&error.step, error));
    let mut shown = Vec::new();
    let mut text = String::new();
    for (step, error) in of_steps.chain(of_execution) {
        let Some(detail) = error
            .detail
            .as_ref()
            .filter(|detail| !shown.contains(detail))
        else {
            continue;
        };
        shown.push(detail);
        let mut heading = "error trace".to_owned();
        if !step.is_empty() {
            let _ = write!(heading, " of {step}");
        }
        if error.attempt > 0 {
            let _ = write!(heading, ", attempt {}", error.attempt);
        }
        let _ = writeln!(text, "\n{}", paint.dim(&heading));
        for line in detail.lines() {
            // Tabs of a trace are indentation; every other control character is escaped.
            let _ = writeln!(text, "  {}", visible(&line.raw().replace('\t', "    ")));
        }
    }
    text
}

fn with_time(what: &str, time: Option<Timestamp>, now: Timestamp) -> String {
    match time {
        Some(time) => format!("{what} ({} ago)", ago(time, now)),
        None => what.to_owned(),
    }
}

fn reopening(reopen: &Reopen, now: Timestamp) -> String {
    let times = match reopen.reopen_count {
        1 => String::new(),
        count => format!("{count} times, last "),
    };
    let by = reopen.reopened_by.as_ref();
    let by = by.map_or_else(String::new, |by| format!("by {by}, "));
    let from = &reopen.previous_native_state;
    with_time(
        &format!("{times}{by}had ended as `{from}`"),
        reopen.reopen_time,
        now,
    )
}

fn joined(names: &[Text]) -> String {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// The result of a finished execution: its output or its error.
#[must_use]
pub fn result(execution: &Execution, paint: Paint) -> String {
    let output = execution.output.as_ref().map(ToString::to_string);
    let error = execution.last_error.as_ref().map(trouble);
    let (what, said) = match execution.sub_state {
        "succeeded" => ("output", visible(&output.unwrap_or_default()).into_owned()),
        _ => ("last error", error.unwrap_or_default()),
    };
    if said.is_empty() {
        return format!("it {}", paint.sub_state(execution.sub_state));
    }
    format!("{} {said}", paint.dim(&format!("{what:<11}")))
}

/// The steps, a line each.
fn steps_table(execution: &Execution, paint: Paint, now: Timestamp) -> String {
    let headings = ["STEP", "STATE", "REASON", "NOW", "USAGE", "LAST ERROR"];
    let mut table = Table::new(&headings, paint);
    for step in &execution.steps {
        table.row(vec![
            step.name.to_string(),
            step.sub_state.into(),
            step.reason.unwrap_or_default().to_owned(),
            doing(step, now),
            step.usage.map(cost).unwrap_or_default(),
            last_error(step),
        ]);
    }
    table.text()
}

/// The attempts, waits and progress of a step.
fn doing(step: &Step, now: Timestamp) -> String {
    if !step.has_started() {
        return blocked_by(step);
    }
    let next = phrase(step.sub_state, &step.retry, &step.waits, Clock::Live(now));
    let mut parts: Vec<String> = step.progress.iter().map(so_far).collect();
    parts.extend((!next.is_empty()).then_some(next));
    parts.join("; ")
}

/// `40 %`, and the message of the worker.
pub(super) fn so_far(progress: &Progress) -> String {
    let percent = format!("{:.0} %", progress.fraction * 100.0);
    match &progress.detail {
        Some(detail) => format!("{percent}: {detail}"),
        None => percent,
    }
}

/// Tokens and cost.
#[must_use]
pub fn cost(usage: Usage) -> String {
    stateway_phrases::usage(&v1::Usage {
        input_token_count: usage.input_token_count,
        output_token_count: usage.output_token_count,
        cost_micros: usage.cost_micros,
    })
}

/// While a step backs off, the column NOW already shows the error.
pub(super) fn last_error(step: &Step) -> String {
    match &step.last_error {
        Some(error) if step.sub_state != "backing-off" => error.message.to_string(),
        _ => String::new(),
    }
}

fn state(execution: &Execution, paint: Paint) -> String {
    let mut said = paint.sub_state(execution.sub_state);
    if let Some(reason) = &execution.reason {
        let _ = write!(said, " {reason}");
    }
    let _ = write!(
        said,
        " (native `{}`, {})",
        execution.native_state, execution.mapping_basis
    );
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_and_progress_are_told() {
        let step = v1::Step {
            name: "read".into(),
            progress: Some(v1::Progress {
                fraction: 0.4,
                detail: "page 2 of 5".into(),
            }),
            ..v1::Step::default()
        };
        let wire = v1::Execution {
            name: "providers/p/executions/a".into(),
            steps: vec![step],
            usage: Some(v1::Usage {
                input_token_count: 1_200,
                output_token_count: 30,
                cost_micros: 1_050_000,
            }),
            ..v1::Execution::default()
        };
        let text = details(
            &Execution::from(&wire),
            Paint::new(false),
            Timestamp::UNIX_EPOCH,
        );
        assert!(
            text.contains("1,200 tokens in, 30 out, cost 1.05"),
            "{text}"
        );
        assert!(text.contains("40 %: page 2 of 5"), "{text}");
    }

    #[test]
    fn what_people_did_and_what_has_not_started_are_told() {
        let waiting = v1::Step {
            name: "ship".into(),
            sub_state: v1::SubState::Waiting.into(),
            reason: v1::Reason::NotStarted.into(),
            blocked_by: vec!["charge".into()],
            ..v1::Step::default()
        };
        let wire = v1::Execution {
            name: "providers/p/executions/a".into(),
            steps: vec![waiting],
            cancellation: Some(Box::new(v1::Cancellation {
                cancelled_by: "olga".into(),
                comment: "wrong order".into(),
                cancel_time: None,
            })),
            reopen: Some(Box::new(v1::Reopen {
                reopen_count: 2,
                reopened_by: "ada".into(),
                reopen_time: None,
                previous_native_state: "failed".into(),
            })),
            not_rolled_back: vec!["pack".into()],
            forked_from: "providers/p/executions/b".into(),
            forks: vec!["providers/p/executions/c".into()],
            ..v1::Execution::default()
        };
        let text = details(
            &Execution::from(&wire),
            Paint::new(false),
            Timestamp::UNIX_EPOCH,
        );
        for line in [
            "cancelled   cancelled by olga: wrong order",
            "reopened    2 times, last by ada, had ended as `failed`",
            "not rolled back  pack",
            "forked from  p/b",
            "forks       p/c",
            "after charge",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let text = details(
            &Execution::from(&v1::Execution::default()),
            Paint::new(false),
            Timestamp::UNIX_EPOCH,
        );
        assert!(!text.contains("usage"), "{text}");
    }
}
