//! `stateway explain`: explains the sub-state of an execution.

use std::fmt::Write;

use clap::Args;
use jiff::Timestamp;
use stateway_client as client;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::resource;
use crate::screen::{self, Clock, Paint, paused, queued, short_name, traces};
use crate::view::{Explanation, Row, Text};

/// Explains a sub-state.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stateway explain builtin/order-17

Shows the row of the provider's state table that applies, and the evidence that the provider reported.")]
pub struct Explain {
    /// provider/id, or the full name
    name: String,
}

impl Explain {
    pub(super) async fn run(self, context: &Context) -> Outcome {
        let call = client::Explain::new(resource::execution(&self.name)?);
        let answer = context.client.explain(context.call(call)).await?;
        let explanation = Explanation::from(&answer);
        context.show(&explanation, || {
            text(&explanation, context.paint, Timestamp::now())
        })?;
        Ok(Exit::Ok)
    }
}

fn text(explanation: &Explanation, paint: Paint, now: Timestamp) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(execution) = &explanation.execution {
        let name = paint.bold(&short_name(&execution.name));
        let _ = writeln!(text, "{name}  {}", paint.sub_state(execution.sub_state));
    }
    let _ = writeln!(text, "{}", explanation.summary);
    let execution = explanation.execution.as_ref();
    if let Some(held) = execution.and_then(|execution| paused(execution).or(queued(execution))) {
        let _ = writeln!(text, "{held}");
    }
    if let Some(execution) = execution.filter(|it| it.sub_state == "backing-off") {
        let countdown = screen::now(execution, Clock::Live(now));
        let _ = writeln!(text, "{countdown}");
    }
    reasons(
        &mut text,
        paint,
        "",
        explanation.row.as_ref(),
        &explanation.evidence,
    );
    for step in &explanation.steps {
        let state = paint.sub_state(step.sub_state);
        let _ = writeln!(
            text,
            "\n  {}  {state}\n  {}",
            paint.bold(&step.step.to_string()),
            step.summary
        );
        reasons(&mut text, paint, "  ", step.row.as_ref(), &step.evidence);
    }
    if let Some(execution) = &explanation.execution {
        text.push_str(&traces(execution, paint));
    }
    text
}

fn reasons(text: &mut String, paint: Paint, indent: &str, row: Option<&Row>, evidence: &[Text]) {
    let heading = |what: &str| paint.dim(&format!("{what:<9}"));
    match row {
        Some(row) => {
            let _ = writeln!(text, "{indent}{} {}", heading("row"), described(row));
            let _ = writeln!(text, "{indent}{} {}", heading("source"), row.source);
            if !row.note.is_empty() {
                let _ = writeln!(text, "{indent}{} {}", heading("note"), row.note);
            }
        }
        None => {
            let none = "none: the native state is in no table, so `running` is assumed";
            let _ = writeln!(text, "{indent}{} {none}", heading("row"));
        }
    }
    for seen in evidence {
        let _ = writeln!(text, "{indent}{} {seen}", heading("evidence"));
    }
}

fn described(row: &Row) -> String {
    let mut said = format!("{} `{}`", row.scope, row.native_state);
    for (name, value) in &row.when {
        let _ = write!(said, ", {name} = {value}");
    }
    let _ = write!(said, " -> {}", row.sub_state);
    if let Some(reason) = &row.reason {
        let _ = write!(said, " {reason}");
    }
    if row.refine {
        said.push_str(" (refined by steps, attempts and waits)");
    }
    said
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;

    use super::*;

    #[test]
    fn a_back_off_counts_down() {
        let retry = v1::Retry {
            attempt: 2,
            max_attempt_count: Some(5),
            next_attempt_time: Some(prost_types::Timestamp {
                seconds: 112,
                nanos: 0,
            }),
            ..v1::Retry::default()
        };
        let execution = v1::Execution {
            name: "providers/shop/executions/order-7".to_owned(),
            sub_state: v1::SubState::BackingOff.into(),
            retry: Some(Box::new(retry)),
            ..v1::Execution::default()
        };
        let answer = v1::ExplainExecutionResponse {
            execution: Some(execution),
            ..v1::ExplainExecutionResponse::default()
        };
        let now = Timestamp::from_second(100).unwrap();
        let text = text(&Explanation::from(&answer), Paint::new(false), now);
        let countdown = "attempt 2 of 5 failed; next attempt in 12 s";
        assert!(text.contains(countdown), "{text}");
    }
}
