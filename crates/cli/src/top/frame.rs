//! The screen, line by line; never wider or higher than the terminal.

use jiff::Timestamp;
use stateway_phrases::visible;
use unicode_width::UnicodeWidthStr;

use super::Model;
use super::line::{cut, fit};
use crate::outline::Outline;
use crate::screen::{Clock, Paint, Table, ago, details, now as doing, short_name, tree};
use crate::view::Execution;

/// The rows of the screen that are not executions: title, counts, providers, headings, keys.
const AROUND: usize = 5;

/// The widest column of names.
const WIDEST_NAME: usize = 40;

/// The width of the longest sub-state.
const WORD: usize = 11;

const KEYS: &str = "q quit  ↑↓ move  enter details  f filter  s sort  p pause";
const KEYS_OF_ONE: &str = "esc back  ↑↓ scroll  p pause";

/// The size of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: usize,
    /// Characters on a line.
    pub columns: usize,
}

impl Size {
    /// The number of executions that are visible.
    #[must_use]
    pub const fn page(self) -> usize {
        match self.rows.saturating_sub(AROUND) {
            0 => 1,
            page => page,
        }
    }
}

/// The screen. `one` is the tree of the execution that is shown alone.
#[must_use]
pub fn frame(
    model: &Model,
    one: Option<&Outline>,
    size: Size,
    paint: Paint,
    now: Timestamp,
) -> Vec<String> {
    let title = cut(&title(model, now), size.columns);
    let mut lines = vec![paint.bold(&title)];
    match one {
        Some(outline) => {
            // Sub-states are coloured inside these lines, so each is cut by its own means.
            let body = alone(outline, paint, now);
            let most = size.rows.saturating_sub(2);
            let first = model.scroll.min(body.len().saturating_sub(most));
            let seen = body.iter().skip(first).take(most);
            lines.extend(seen.map(|line| cut(line, size.columns)));
        }
        None => {
            lines.push(cut(&counts(model, paint), size.columns));
            lines.push(cut(&providers(model, paint), size.columns));
            lines.extend(list(model, size, paint, now));
        }
    }
    lines.truncate(size.rows.saturating_sub(1));
    while lines.len() + 1 < size.rows {
        lines.push(String::new());
    }
    lines.push(cut(&bottom(model), size.columns));
    lines
}

/// The whole list as text, for a pipe.
#[must_use]
pub fn snapshot(model: &Model, paint: Paint, now: Timestamp) -> String {
    let headings = ["NAME", "STATE", "REASON", "NOW", "AGE"];
    let mut table = Table::new(&headings, paint);
    for execution in model.listed() {
        table.row(vec![
            short_name(&execution.name),
            execution.sub_state.into(),
            execution.reason.unwrap_or_default().to_owned(),
            doing(execution, Clock::Live(now)),
            age(execution, now),
        ]);
    }
    let (counts, providers) = (counts(model, paint), providers(model, paint));
    format!("{counts}\n{providers}\n\n{}", table.text())
}

fn title(model: &Model, now: Timestamp) -> String {
    let mut said = format!("stateway top  {}", now.strftime("%H:%M:%S UTC"));
    let mut add = |text: String| {
        said.push_str("  ");
        said.push_str(&text);
    };
    if model.paused {
        add("PAUSED".to_owned());
    }
    if let Some(lost) = model.lost {
        add(format!(
            "connection lost {} ago: as it was then",
            ago(lost, now)
        ));
    } else if !model.complete {
        add("reading …".to_owned());
    }
    add(format!("sorted by {}", model.sort.as_str()));
    if !model.filter.is_empty() {
        add(format!("filter: {}", visible(&model.filter)));
    }
    said
}

fn counts(model: &Model, paint: Paint) -> String {
    let counts = model.counts();
    let said = counts.map(|(word, count)| match count {
        0 => paint.dim(&format!("{word} {count}")),
        _ => format!("{} {count}", paint.sub_state(word)),
    });
    said.join("   ")
}

fn providers(model: &Model, paint: Paint) -> String {
    let said = model.providers.iter().map(|provider| {
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
    said.collect::<Vec<_>>().join("   ")
}

fn list(model: &Model, size: Size, paint: Paint, now: Timestamp) -> Vec<String> {
    let listed = model.listed();
    let mark = model.mark(&listed);
    let page = size.page();
    // The selection is always visible, and the page scrolls as little as possible.
    let first = mark.saturating_sub(page - 1);
    let seen: Vec<_> = listed.iter().enumerate().skip(first).take(page).collect();
    let names = seen.iter().map(|(_, it)| short_name(&it.name).width());
    let name = names.max().unwrap_or(0).clamp(4, WIDEST_NAME);
    let rest = size.columns.saturating_sub(2 + name + 2 + WORD + 2 + 7 + 2);
    let heading = format!(
        "  {}  {:<WORD$}  {:>7}  NOW",
        fit("NAME", name),
        "STATE",
        "AGE"
    );
    let mut lines = vec![paint.dim(&cut(&heading, size.columns))];
    for (index, execution) in seen {
        let pointer = if index == mark { "> " } else { "  " };
        let short = fit(&short_name(&execution.name), name);
        let short = if index == mark {
            paint.bold(&short)
        } else {
            short
        };
        let state = paint.sub_state(execution.sub_state);
        let pad = " ".repeat(WORD.saturating_sub(execution.sub_state.len()));
        let age = age(execution, now);
        let line = format!("{pointer}{short}  {state}{pad}  {age:>7}  ");
        let told = cut(&said(execution, now), rest);
        lines.push(
            cut(&format!("{line}{told}"), size.columns)
                .trim_end()
                .to_owned(),
        );
    }
    if listed.is_empty() && model.complete {
        lines.push("  no executions".to_owned());
    }
    lines
}

fn said(execution: &Execution, now: Timestamp) -> String {
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
fn alone(outline: &Outline, paint: Paint, now: Timestamp) -> Vec<String> {
    let without_steps = Execution {
        steps: Vec::new(),
        ..outline.execution.clone()
    };
    let text = details(&without_steps, paint, now);
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.push(String::new());
    lines.extend(tree(outline, paint, now));
    lines
}

fn bottom(model: &Model) -> String {
    match (&model.typed, model.problem.is_empty()) {
        (Some(typed), true) => format!("filter (a sub-state will do): {}_", visible(typed)),
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

#[cfg(test)]
mod tests {
    use stateway_client::{Change, v1};

    use super::*;
    use crate::outline::Known;

    const SIZE: Size = Size {
        rows: 12,
        columns: 70,
    };

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
        model.change(&Change::Added(wire("fine", v1::SubState::Running)));
        model.change(&Change::Added(stuck));
        let unreachable = Vec::new();
        model.change(&Change::Bookmark { unreachable });
        model
    }

    fn plain(model: &Model, size: Size) -> Vec<String> {
        frame(model, None, size, Paint::new(false), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_picture_fills_the_terminal_and_nothing_more() {
        for size in [
            SIZE,
            Size {
                rows: 3,
                columns: 10,
            },
            Size {
                rows: 1,
                columns: 1,
            },
        ] {
            for paint in [Paint::new(false), Paint::new(true)] {
                let drawn = frame(&model(), None, size, paint, Timestamp::UNIX_EPOCH);
                assert_eq!(drawn.len(), size.rows.max(1), "{drawn:?}");
                for line in drawn {
                    let bare = bare(&line);
                    assert!(bare.width() <= size.columns, "{bare:?} in {size:?}");
                }
            }
        }
    }

    /// The text without its colours.
    fn bare(line: &str) -> String {
        let mut parts = line.split('\u{1b}');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            text + part.split_once('m').map_or("", |(_, rest)| rest)
        })
    }

    #[test]
    fn what_matters_is_on_top_and_cannot_act_on_the_terminal() {
        let drawn = plain(&model(), SIZE);
        assert_eq!(
            drawn[1],
            "running 1   waiting 0   backing-off 0   error 1   succeeded 0   faile…"
        );
        assert!(drawn[4].starts_with("> shop/stuck  error                 ESCALATED  a very"));
        assert!(drawn[4].ends_with('…'), "{:?}", drawn[4]);
        assert_eq!(drawn[5].trim_end(), "  shop/fine   running");
        assert!(!drawn.concat().contains('\u{1b}'));
        assert!(drawn[11].starts_with("q quit"));
    }

    #[test]
    fn the_mark_is_seen_wherever_it_is() {
        let mut model = Model::default();
        for id in 0..50 {
            let wire = wire(&format!("e{id:02}"), v1::SubState::Running);
            model.change(&Change::Added(wire));
        }
        for _ in 0..30 {
            model.key(super::super::Key::Down, SIZE.page());
        }
        let drawn = plain(&model, SIZE);
        let marked: Vec<_> = drawn.iter().filter(|it| it.starts_with("> ")).collect();
        assert_eq!(marked.len(), 1);
        assert!(marked[0].starts_with("> shop/e30"), "{marked:?}");
    }

    #[test]
    fn one_alone_has_its_steps_as_a_tree() {
        let mut wire = wire("a", v1::SubState::Running);
        wire.steps.push(v1::Step {
            name: "pay".into(),
            sub_state: v1::SubState::Running.into(),
            ..v1::Step::default()
        });
        let outline = Outline::of(Execution::from(&wire), &Known::default());
        let mut model = model();
        model.key(super::super::Key::Enter, 1);
        let paint = Paint::new(false);
        let drawn = frame(&model, Some(&outline), SIZE, paint, Timestamp::UNIX_EPOCH);
        let steps: Vec<_> = drawn.iter().filter(|it| it.contains("└─ pay")).collect();
        assert_eq!(steps, ["└─ pay  running"]);
        assert!(drawn[11].starts_with("esc back"));
    }
}
