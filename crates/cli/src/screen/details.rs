//! One execution, all of it that a person wants to see.

use std::fmt::Write;

use jiff::Timestamp;

use super::{Clock, Paint, Table, ago, moment, phrase, trouble};
use crate::view::{Execution, Step};
use crate::visible::visible;

/// One execution as lines of `what  value`, then its steps.
#[must_use]
pub fn details(execution: &Execution, paint: Paint, now: Timestamp) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |what: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{} {value}", paint.dim(&format!("{what:<11}")));
        }
    };
    line("name", &paint.bold(&execution.name.to_string()));
    line("state", &state(execution, paint));
    let next = phrase(
        execution.sub_state,
        &execution.retry,
        &execution.waits,
        Clock::Live(now),
    );
    line("now", &next);
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
        let said = time.map(|time| format!("{} ({} ago)", moment(time), ago(time, now)));
        line(what, &said.unwrap_or_default());
    }
    for (what, payload) in [("input", &execution.input), ("output", &execution.output)] {
        let json = payload.as_ref().map(ToString::to_string);
        line(what, &visible(&json.unwrap_or_default()));
    }
    line("etag", &execution.etag.to_string());
    if !execution.steps.is_empty() {
        let _ = write!(text, "\n{}", steps_table(&execution.steps, paint, now));
    }
    text
}

/// The steps, a line each.
fn steps_table(steps: &[Step], paint: Paint, now: Timestamp) -> String {
    let mut table = Table::new(&["STEP", "STATE", "REASON", "NOW", "LAST ERROR"], paint);
    for step in steps {
        table.row(vec![
            step.name.to_string(),
            step.sub_state.into(),
            step.reason.clone().unwrap_or_default().to_string(),
            phrase(step.sub_state, &step.retry, &step.waits, Clock::Live(now)),
            last_error(step),
        ]);
    }
    table.text()
}

/// While a step backs off, what it does now tells the error already.
fn last_error(step: &Step) -> String {
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
