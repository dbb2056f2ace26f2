//! The screen of `top`.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Clear, Paragraph, Row, Table, TableState};
use stateway_phrases::visible;

use super::Model;
use crate::outline::Outline;
use crate::screen::{
    Clock, Paint, Table as PlainTable, ago, cut, details, now as doing, short_name, styled,
    sub_state, tree,
};
use crate::view::Execution;

/// The rows of the screen that are not executions: title, counts, providers, headings, keys.
const AROUND: u16 = 5;
/// The widest column of names.
const WIDEST_NAME: usize = 40;
/// The width of the longest sub-state with its symbol.
const STATE: u16 = 13;
/// The width of an age of two units.
const AGE: u16 = 10;

const KEYS: &str = "q quit  ↑↓ move  enter details  f filter  s sort  p pause  ? keys";
const KEYS_OF_ONE: &str = "esc back  ↑↓ scroll  p pause  ? keys";
const HELP: &str = "\
 q, esc     quit, or back to the list
 ↑ ↓, k j   move, or scroll
 PgUp PgDn  move by a page
 g G        first, last
 enter      open the execution
 f, /       filter: the filter language, or one of the six states; empty for no filter
 s          sort: what matters, newest, name
 p, space   pause and continue the display
 ?          show and hide these keys ";

/// The number of executions that are visible on a screen of this height.
#[must_use]
pub const fn page(rows: u16) -> usize {
    match rows.saturating_sub(AROUND) {
        0 => 1,
        page => page as usize,
    }
}

/// Draws the screen. `one` is the tree of the execution that is shown alone.
pub fn render(
    frame: &mut Frame<'_>,
    model: &Model,
    one: Option<&Outline>,
    paint: Paint,
    now: Timestamp,
) {
    let line = Constraint::Length(1);
    let [title, rest, keys] =
        Layout::vertical([line, Constraint::Fill(1), line]).areas(frame.area());
    let bold = if paint.is_on() {
        Style::new().add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    frame.render_widget(Paragraph::new(heading(model, now)).style(bold), title);
    if let Some(outline) = one {
        alone(frame, rest, model, outline, paint, now);
    } else {
        let [counts, providers, list] =
            Layout::vertical([line, line, Constraint::Fill(1)]).areas(rest);
        frame.render_widget(Paragraph::new(counted(model, paint)), counts);
        frame.render_widget(Paragraph::new(styled(&served(model, paint))), providers);
        table(frame, list, model, paint, now);
    }
    frame.render_widget(Paragraph::new(bottom(model)), keys);
    if model.help {
        help(frame);
    }
}

/// The whole list as text, for a pipe.
#[must_use]
pub fn snapshot(model: &Model, paint: Paint, now: Timestamp) -> String {
    let headings = ["NAME", "STATE", "REASON", "NOW", "AGE"];
    let mut table = PlainTable::new(&headings, paint);
    for execution in model.listed() {
        table.row(vec![
            short_name(&execution.name),
            execution.sub_state.into(),
            execution.reason.unwrap_or_default().to_owned(),
            doing(execution, Clock::Live(now)),
            age(execution, now),
        ]);
    }
    let counts = model.counts().map(|(label, count)| {
        if count == 0 {
            paint.dim(&format!("{label} {count}"))
        } else {
            format!("{} {count}", paint.sub_state(label))
        }
    });
    let (counts, providers) = (counts.join("   "), served(model, paint));
    format!("{counts}\n{providers}\n\n{}", table.text())
}

fn heading(model: &Model, now: Timestamp) -> String {
    let mut parts = vec![format!("stateway top  {}", now.strftime("%H:%M:%S UTC"))];
    if model.paused {
        parts.push("PAUSED".to_owned());
    }
    if let Some(lost) = model.lost {
        parts.push(format!(
            "connection lost {} ago: as it was then",
            ago(lost, now)
        ));
    } else if !model.complete {
        parts.push("reading …".to_owned());
    }
    parts.push(format!("sorted by {}", model.sort.as_str()));
    if !model.filter.is_empty() {
        parts.push(format!("filter: {}", visible(&model.filter)));
    }
    parts.join("  ")
}

fn counted(model: &Model, paint: Paint) -> Line<'static> {
    let dim = Style::new().add_modifier(Modifier::DIM);
    let mut spans = Vec::new();
    for (label, count) in model.counts() {
        if !spans.is_empty() {
            spans.push(Span::raw("  "));
        }
        let state = sub_state(label, paint);
        if count == 0 && paint.is_on() {
            spans.push(Span::styled(state.content, dim));
            spans.push(Span::styled(" 0", dim));
        } else {
            spans.push(state);
            spans.push(Span::raw(format!(" {count}")));
        }
    }
    Line::from(spans)
}

fn served(model: &Model, paint: Paint) -> String {
    let shown = model.providers.iter().map(|provider| {
        let full = provider.name.raw();
        let id = visible(full.trim_start_matches("providers/"));
        let silent = model.unreachable.iter().any(|name| name == full);
        let health = provider.health.as_ref().filter(|_| !silent);
        let status = match health.map(|health| health.status) {
            Some("SERVING") => return format!("{id} serving"),
            Some("NOT_SERVING") => "not serving",
            _ if silent => "does not answer",
            _ => "not known",
        };
        let detail = health.and_then(|health| health.detail.as_ref());
        let detail = detail.map(|detail| format!(": {detail}"));
        paint.bold(&format!("{id} {status}{}", detail.unwrap_or_default()))
    });
    shown.collect::<Vec<_>>().join("   ")
}

fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, paint: Paint, now: Timestamp) {
    let listed = model.listed();
    let mark = model.mark(&listed);
    // Only the rows that can be seen are made; the selection is always one of them.
    let page = usize::from(area.height.saturating_sub(1)).max(1);
    let first = mark.saturating_sub(page - 1);
    let seen: Vec<_> = listed.iter().skip(first).take(page).collect();
    let names: Vec<_> = seen.iter().map(|it| short_name(&it.name)).collect();
    let widest = WIDEST_NAME.min(usize::from(area.width) / 3).max(4);
    let name = names.iter().map(|name| Span::raw(name).width());
    let name = name.max().unwrap_or(0).clamp(4, widest);
    let widths = [
        Constraint::Length(u16::try_from(name).unwrap_or(u16::MAX)),
        Constraint::Length(STATE),
        Constraint::Length(AGE),
        Constraint::Fill(1),
    ];
    let around = 2 + name + usize::from(STATE + AGE) + 3 * 2;
    let rest = usize::from(area.width).saturating_sub(around);
    let rows = seen.iter().zip(&names).map(|(execution, full)| {
        Row::new([
            Line::raw(cut(full, name)),
            Line::from(sub_state(execution.sub_state, paint)),
            Line::raw(age(execution, now)).right_aligned(),
            Line::raw(cut(&happening(execution, now), rest)),
        ])
    });
    let (dim, bold) = if paint.is_on() {
        (Modifier::DIM, Modifier::BOLD)
    } else {
        (Modifier::empty(), Modifier::empty())
    };
    let headings = [
        Line::raw("NAME"),
        Line::raw("STATE"),
        Line::raw("AGE").right_aligned(),
        Line::raw("NOW"),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(headings).style(Style::new().add_modifier(dim)))
        .column_spacing(2)
        .highlight_symbol("> ")
        .row_highlight_style(Style::new().add_modifier(bold));
    let mut state = TableState::new();
    if seen.is_empty() {
        if model.complete {
            frame.render_widget(Paragraph::new("\n  no executions"), area);
        }
    } else {
        state.select(Some(mark - first));
    }
    frame.render_stateful_widget(table, area, &mut state);
}

fn happening(execution: &Execution, now: Timestamp) -> String {
    let mut parts: Vec<String> = execution.reason.iter().map(ToString::to_string).collect();
    parts.push(doing(execution, Clock::Live(now)));
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
}

fn age(execution: &Execution, now: Timestamp) -> String {
    let begun = execution.start_time.or(execution.create_time);
    begun.map(|time| ago(time, now)).unwrap_or_default()
}

/// One execution: what `get` shows, with a tree for the steps.
fn alone(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    outline: &Outline,
    paint: Paint,
    now: Timestamp,
) {
    let without_steps = Execution {
        steps: Vec::new(),
        ..outline.execution.clone()
    };
    let text = details(&without_steps, paint, now);
    let mut lines: Vec<_> = text.lines().map(styled).collect();
    lines.push(Line::default());
    lines.extend(tree(outline, paint, now).iter().map(|line| styled(line)));
    let last = lines.len().saturating_sub(usize::from(area.height));
    let first = u16::try_from(model.scroll.min(last)).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(Text::from(lines)).scroll((first, 0)), area);
}

fn bottom(model: &Model) -> String {
    match (&model.typed, model.problem.is_empty()) {
        (Some(typed), true) => format!("filter (or one of the six states): {}_", visible(typed)),
        (Some(typed), false) => {
            format!("filter: {}_   {}", visible(typed), visible(&model.problem))
        }
        (None, false) => visible(&model.problem).into_owned(),
        (None, true) if model.opened.is_some() => KEYS_OF_ONE.to_owned(),
        (None, true) => match model.unlisted() {
            0 => KEYS.to_owned(),
            more => format!("{KEYS}   ({more} older finished executions are only counted)"),
        },
    }
}

/// The keys, in the middle of the screen.
fn help(frame: &mut Frame<'_>) {
    let text = Text::raw(HELP);
    let (width, height) = (text.width(), text.height());
    let wide = Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX));
    let high = Constraint::Length(u16::try_from(height).unwrap_or(u16::MAX));
    let area = frame.area().centered(wide, high);
    frame.render_widget(Clear, area);
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Paragraph::new(text).style(reversed), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};
    use ratatui::style::Color;
    use stateway_client::{Change, v1};

    use super::*;
    use crate::outline::ChildExecutions;

    fn wire(id: &str, sub_state: v1::SubState) -> v1::Execution {
        v1::Execution {
            name: format!("providers/shop/executions/{id}"),
            sub_state: sub_state.into(),
            ..v1::Execution::default()
        }
    }

    fn model() -> Model {
        let mut model = Model::default();
        let mut stuck = wire("stuck", v1::SubState::Error);
        stuck.reason = v1::Reason::Escalated.into();
        stuck.last_error = Some(Box::new(v1::ExecutionError {
            message:
                "a very long story that nobody will ever read to its end on any terminal\u{1b}[2J"
                    .into(),
            ..v1::ExecutionError::default()
        }));
        let mut fine = wire("fine", v1::SubState::Running);
        fine.current_steps = vec!["pay".into()];
        model.change(&Change::Added(fine));
        model.change(&Change::Added(stuck));
        let unreachable = Vec::new();
        model.change(&Change::Bookmark { unreachable });
        model
    }

    fn terminal(
        model: &Model,
        one: Option<&Outline>,
        (columns, rows): (u16, u16),
        paint: Paint,
    ) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal
            .draw(|frame| render(frame, model, one, paint, Timestamp::UNIX_EPOCH))
            .unwrap();
        terminal
    }

    fn lines(model: &Model, one: Option<&Outline>, size: (u16, u16)) -> Vec<String> {
        let terminal = terminal(model, one, size, Paint::new(false));
        let width = usize::from(size.0);
        let cells: Vec<_> = terminal.backend().buffer().content().iter().collect();
        let rows = cells.chunks(width);
        let text = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
        text.map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn the_executions_that_matter_are_first_in_80_columns() {
        let drawn = lines(&model(), None, (80, 12));
        assert_eq!(
            drawn[1],
            "● running 1  ◌ waiting 0  ↻ backing-off 0  ! error 1  ✓ succeeded 0  ✗ failed 0"
        );
        assert_eq!(drawn[3], "  NAME        STATE                 AGE  NOW");
        assert_eq!(
            drawn[4],
            "> shop/stuck  ! error                    ESCALATED  a very long story that nobo…"
        );
        assert_eq!(drawn[5], "  shop/fine   ● running                  at pay");
        assert!(!drawn.concat().contains('\u{1b}'));
        assert_eq!(drawn[11], KEYS);
    }

    #[test]
    fn every_size_of_terminal_can_be_drawn() {
        for size in [(80, 24), (30, 10), (10, 3), (1, 1)] {
            for paint in [Paint::new(false), Paint::new(true)] {
                terminal(&model(), None, size, paint);
            }
        }
    }

    #[test]
    fn a_state_has_a_colour_beside_its_symbol() {
        let terminal = terminal(&model(), None, (80, 12), Paint::new(true));
        let cell = &terminal.backend().buffer()[(14, 4)];
        assert_eq!((cell.symbol(), cell.fg), ("!", Color::Magenta));
    }

    #[test]
    fn the_selection_is_always_visible() {
        let mut model = Model::default();
        for id in 0..50 {
            let wire = wire(&format!("e{id:02}"), v1::SubState::Running);
            model.change(&Change::Added(wire));
        }
        for _ in 0..30 {
            model.key(KeyEvent::from(KeyCode::Down), page(12));
        }
        let drawn = lines(&model, None, (80, 12));
        let marked: Vec<_> = drawn.iter().filter(|it| it.starts_with("> ")).collect();
        assert_eq!(marked.len(), 1);
        assert!(marked[0].starts_with("> shop/e30"), "{marked:?}");
    }

    #[test]
    fn one_execution_alone_has_its_steps_as_a_tree() {
        let mut wire = wire("a", v1::SubState::Running);
        wire.steps.push(v1::Step {
            name: "pay".into(),
            sub_state: v1::SubState::Running.into(),
            ..v1::Step::default()
        });
        let outline = Outline::of(Execution::from(&wire), &ChildExecutions::default());
        let mut model = model();
        model.key(KeyEvent::from(KeyCode::Enter), 1);
        let drawn = lines(&model, Some(&outline), (70, 12));
        let steps: Vec<_> = drawn.iter().filter(|it| it.contains("└─ pay")).collect();
        assert_eq!(steps, ["└─ pay  running"]);
        assert_eq!(drawn[11], KEYS_OF_ONE);
    }

    #[test]
    fn a_question_mark_shows_and_hides_the_keys() {
        let mut model = model();
        let question = KeyEvent::from(KeyCode::Char('?'));
        model.key(question, 1);
        assert!(
            lines(&model, None, (80, 12))
                .concat()
                .contains("open the execution")
        );
        model.key(question, 1);
        assert!(
            !lines(&model, None, (80, 12))
                .concat()
                .contains("open the execution")
        );
    }
}
