//! A recorded execution next to its shadow: the steps of both, the differences and the outcome.

use std::fmt::Write as _;

use super::{Paint, Table, branch_number};
use crate::view::{Replayed, Text};

/// Marks a step that differs between the two.
const DIFFERS: &str = "≠";

/// The whole report.
#[must_use]
pub fn report(replayed: &Replayed, paint: Paint) -> String {
    let mut text = heading(replayed, paint);
    text.push_str("\n\n");
    text.push_str(&steps(replayed, paint));
    // Writing to a String cannot fail.
    if let Some(first) = replayed.divergences.first() {
        let about = if first.step.is_empty() {
            String::new()
        } else {
            format!(" of {}", first.step)
        };
        let _ = write!(
            text,
            "\n\nfirst difference: event {}, {}{about}",
            first.sequence, first.kind
        );
    }
    if !replayed.divergences.is_empty() {
        let _ = write!(text, "\n\n{}", divergences(replayed, paint));
    }
    for open in &replayed.unrecorded_steps {
        let compensation = if open.compensation {
            ", compensation"
        } else {
            ""
        };
        let what = if open.step.is_empty() {
            open.why.to_string()
        } else {
            format!(
                "{}{compensation}, attempt {}: {}",
                open.step, open.attempt, open.why
            )
        };
        let _ = write!(text, "\nno result recorded: {what}");
    }
    for note in &replayed.notes {
        let _ = write!(text, "\nnote: {note}");
    }
    let _ = write!(text, "\n\n{}\n{}", source(replayed), summary(replayed));
    text
}

fn heading(replayed: &Replayed, paint: Paint) -> String {
    let name = replayed
        .execution
        .as_ref()
        .map(|shown| shown.name.to_string());
    let short = |revision: &Text| revision.to_string().chars().take(12).collect::<String>();
    format!(
        "{} {}, branch {}, {} events: {}\n{} revision {}, {} events: {}",
        paint.dim("recorded"),
        name.unwrap_or_default(),
        branch_number(&replayed.branch),
        replayed.event_count,
        replayed.recorded_outcome,
        paint.dim("shadow  "),
        short(&replayed.revision),
        replayed.derived_event_count,
        replayed.derived_outcome
    )
}

fn steps(replayed: &Replayed, paint: Paint) -> String {
    let mut table = Table::new(&["STEP", "", "RECORDED", "SHADOW"], paint);
    let said = |text: &Text| {
        if text.is_empty() {
            "–".to_owned()
        } else {
            text.to_string()
        }
    };
    for row in &replayed.steps {
        let differs = replayed
            .divergences
            .iter()
            .any(|found| found.step == row.step);
        table.row(vec![
            row.step.to_string(),
            if differs { DIFFERS } else { "" }.to_owned(),
            said(&row.recorded),
            said(&row.derived),
        ]);
    }
    table.text()
}

fn divergences(replayed: &Replayed, paint: Paint) -> String {
    let mut table = Table::new(&["EVENT", "WHAT", "STEP", "RECORDED", "SHADOW"], paint);
    for found in &replayed.divergences {
        table.row(vec![
            found.sequence.to_string(),
            found.kind.to_string(),
            found.step.to_string(),
            found.recorded.to_string(),
            found.derived.to_string(),
        ]);
    }
    table.text()
}

fn source(replayed: &Replayed) -> String {
    let short = |hash: &Text| hash.to_string().chars().take(16).collect::<String>();
    let (before, after) = (&replayed.source_hash_before, &replayed.source_hash_after);
    if before == after {
        format!("source unchanged: {}", short(before))
    } else {
        format!(
            "source changed: {} before, {} after",
            short(before),
            short(after)
        )
    }
}

fn summary(replayed: &Replayed) -> String {
    let count = |number: usize, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    };
    let open = replayed.unrecorded_steps.len();
    match (replayed.divergences.len(), open) {
        (0, 0) => format!("{} events replayed: no difference", replayed.event_count),
        (differences, open) => format!(
            "{} events replayed: {}, {}",
            replayed.event_count,
            count(differences, "difference", "differences"),
            count(
                open,
                "step without a recorded result",
                "steps without a recorded result"
            )
        ),
    }
}
