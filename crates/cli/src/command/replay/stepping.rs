//! Event by event: with keys on a terminal, as a list elsewhere.

use std::io::IsTerminal as _;

use console::{Key, Term};
use serde::Serialize;

use super::source::Step;
use crate::arguments::Output;
use crate::context::{Context, print, to_json_line};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{self, Table, stamp};
use crate::view;

const KEYS: &str = "→ next   ← back   PgDn/PgUp ten   Home/End   q quit";
/// How far the page keys go.
const LEAP: usize = 10;

/// What `-o json` prints, a line for each event.
#[derive(Serialize)]
struct Stepped {
    event: view::Event,
    execution: view::Execution,
}

pub(super) fn run(context: &Context, steps: &[Step]) -> Outcome {
    if context.output == Output::Json {
        for (event, execution) in steps {
            let line = Stepped {
                event: event.into(),
                execution: execution.into(),
            };
            print(&to_json_line(&line)?)?;
        }
    } else if context.terminal && std::io::stdin().is_terminal() {
        walk(context, steps)?;
    } else {
        print(&listing(context, steps))?;
    }
    Ok(Exit::Ok)
}

/// Each event with where the execution was after it.
fn listing(context: &Context, steps: &[Step]) -> String {
    let headings = ["#", "TIME", "EVENT", "STEP", "WHAT", "STATE", "OPEN STEPS"];
    let mut table = Table::new(&headings, context.paint);
    for (event, execution) in steps {
        let event = view::Event::from(event);
        let execution = view::Execution::from(execution);
        let open: Vec<_> = execution
            .current_steps
            .iter()
            .map(ToString::to_string)
            .collect();
        table.row(vec![
            event.sequence.to_string(),
            event.occur_time.map(stamp).unwrap_or_default(),
            event.native_type.to_string(),
            event.step.to_string(),
            event.summary.to_string(),
            execution.sub_state.to_owned(),
            open.join(" "),
        ]);
    }
    table.text()
}

fn walk(context: &Context, steps: &[Step]) -> Result<(), Failure> {
    let term = Term::stdout();
    let mut at = 0;
    loop {
        term.clear_screen()?;
        term.write_line(&page(context, steps, at))?;
        let last = steps.len().saturating_sub(1);
        at = match term.read_key()? {
            Key::ArrowRight | Key::ArrowDown | Key::Enter | Key::Char(' ' | 'n' | 'j') => at + 1,
            Key::ArrowLeft | Key::ArrowUp | Key::Backspace | Key::Char('p' | 'k') => {
                at.saturating_sub(1)
            }
            Key::PageDown => at + LEAP,
            Key::PageUp => at.saturating_sub(LEAP),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            Key::Escape | Key::CtrlC | Key::Char('q') => return Ok(()),
            _ => at,
        }
        .min(last);
    }
}

/// One event and the execution after it.
fn page(context: &Context, steps: &[Step], at: usize) -> String {
    let Some((event, execution)) = steps.get(at) else {
        return "there are no events".to_owned();
    };
    let event = view::Event::from(event);
    let execution = view::Execution::from(execution);
    let then = event.occur_time.unwrap_or_else(jiff::Timestamp::now);
    let step = if event.step.is_empty() {
        String::new()
    } else {
        format!(" {}", event.step)
    };
    let head = format!(
        "event {} of {}, branch {}, {}",
        event.sequence,
        steps.len(),
        event.branch,
        stamp(then)
    );
    let what = format!("{}{step}: {}", event.native_type, event.summary);
    format!(
        "{}\n{}\n\n{}\n\n{}",
        context.paint.dim(&head),
        context.paint.bold(&what),
        screen::details(&execution, context.paint, then),
        context.paint.dim(KEYS)
    )
}
