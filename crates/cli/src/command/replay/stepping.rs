//! Event by event: with keys on a terminal, as a list elsewhere.

use std::io::IsTerminal as _;

use ratatui::crossterm::event::KeyCode;
use ratatui::text::Text;
use ratatui::widgets::Paragraph;
use serde::Serialize;

use super::source::Step;
use crate::arguments::Output;
use crate::command::serve::Stop;
use crate::context::{Context, print, to_json_line};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::screen::{self, FullScreen, Table, interrupts, pressed, stamp, styled};
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

pub(super) async fn run(context: &Context, steps: &[Step]) -> Outcome {
    if context.output == Output::Json {
        for (event, execution) in steps {
            let line = Stepped {
                event: event.into(),
                execution: execution.into(),
            };
            print(&to_json_line(&line)?)?;
        }
    } else if context.terminal && std::io::stdin().is_terminal() {
        walk(context, steps).await?;
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

async fn walk(context: &Context, steps: &[Step]) -> Result<(), Failure> {
    let mut stop = Stop::new()?;
    let (mut screen, mut events) = FullScreen::take()?;
    let last = steps.len().saturating_sub(1);
    let mut at = 0;
    loop {
        let page = page(context, steps, at);
        let text: Text<'_> = page.lines().map(styled).collect();
        screen.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area()))?;
        let event = tokio::select! {
            () = stop.next() => return Ok(()),
            event = events.recv() => event,
        };
        let Some(event) = event else {
            return Ok(());
        };
        let Some(key) = pressed(&event) else {
            continue;
        };
        at = match key.code {
            _ if interrupts(key) => return Ok(()),
            KeyCode::Esc | KeyCode::Char('q') => return Ok(()),
            KeyCode::Right | KeyCode::Down | KeyCode::Enter | KeyCode::Char(' ' | 'n' | 'j') => {
                at + 1
            }
            KeyCode::Left | KeyCode::Up | KeyCode::Backspace | KeyCode::Char('p' | 'k') => {
                at.saturating_sub(1)
            }
            KeyCode::PageDown => at + LEAP,
            KeyCode::PageUp => at.saturating_sub(LEAP),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            _ => at,
        }
        .min(last);
    }
}

/// One event and the execution after it. The keys are above the details, which may not fit.
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
        "{}\n{}\n{}\n\n{}",
        context.paint.dim(KEYS),
        context.paint.dim(&head),
        context.paint.bold(&what),
        screen::details(&execution, context.paint, then),
    )
}
