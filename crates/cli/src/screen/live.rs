//! A live view of one execution on the whole terminal: a tree of its steps, with countdowns.

use std::io;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode};
use ratatui::text::Text;
use ratatui::widgets::Paragraph;
use tokio::sync::mpsc;

use super::full_screen::{interrupts, pressed};
use super::tree::add;
use super::{FullScreen, Paint, ago, head, styled, tree};
use crate::outline::Outline;

const KEYS: &str = "q quit  ↑↓ scroll";

/// The view on the terminal.
pub struct Live {
    screen: FullScreen,
    events: mpsc::Receiver<Event>,
    scroll: u16,
}

impl Live {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn begin() -> io::Result<Self> {
        let (screen, events) = FullScreen::take()?;
        Ok(Self {
            screen,
            events,
            scroll: 0,
        })
    }

    /// Resolves when a key or a new size asks for another picture: false when the person quits.
    pub async fn changed(&mut self) -> bool {
        let Some(event) = self.events.recv().await else {
            // Without a terminal on standard input there are no keys.
            return std::future::pending().await;
        };
        let Some(key) = pressed(&event) else {
            return true;
        };
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            _ if interrupts(key) => return false,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll = u16::MAX,
            _ => {}
        }
        true
    }

    /// Draws these lines, as far as they fit.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let scroll = &mut self.scroll;
        self.screen.draw(|frame| render(frame, lines, scroll))
    }
}

/// The lines that fit, above the keys. The scroll position never goes beyond the last line.
fn render(frame: &mut Frame<'_>, lines: &[String], scroll: &mut u16) {
    let area = frame.area();
    let height = area.height.saturating_sub(1);
    let total = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    *scroll = (*scroll).min(total.saturating_sub(height));
    let text: Text<'_> = lines.iter().map(|line| styled(line)).collect();
    let (mut above, mut below) = (area, area);
    above.height = height;
    below.y += height;
    below.height = area.height - height;
    frame.render_widget(Paragraph::new(text).scroll((*scroll, 0)), above);
    let more = total.saturating_sub(scroll.saturating_add(height));
    let keys = match more {
        0 => KEYS.to_owned(),
        more => format!("{KEYS}  ({more} more lines)"),
    };
    frame.render_widget(Paragraph::new(keys), below);
}

/// The view, line by line.
#[must_use]
pub fn picture(
    outline: &Outline,
    paint: Paint,
    lost: Option<Timestamp>,
    now: Timestamp,
) -> Vec<String> {
    let mut first = head(&outline.execution, paint, now);
    if let Some(lost) = lost {
        let stale = format!("(connection lost {} ago: as it was then)", ago(lost, now));
        add(&mut first, &paint.bold(&stale));
    }
    let mut lines = vec![first];
    lines.extend(tree(outline, paint, now));
    lines
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use stateway_client::v1;

    use super::*;
    use crate::outline::ChildExecutions;
    use crate::view::Execution;

    fn drawn(execution: Execution, lost: Option<Timestamp>, now: Timestamp) -> Vec<String> {
        let outline = Outline::of(execution, &ChildExecutions::default());
        picture(&outline, Paint::new(false), lost, now)
    }

    fn execution(steps: usize) -> Execution {
        let retry = v1::Retry {
            attempt: 2,
            max_attempt_count: Some(5),
            next_attempt_time: Some(prost_types::Timestamp {
                seconds: 112,
                nanos: 0,
            }),
            last_error: Some(Box::new(v1::ExecutionError {
                message: "refused".into(),
                ..Default::default()
            })),
            ..Default::default()
        };
        let step = |index: usize| v1::Step {
            name: format!("step-{index}"),
            sub_state: v1::SubState::BackingOff as i32,
            retry: Some(Box::new(retry.clone())),
            ..Default::default()
        };
        Execution::from(&v1::Execution {
            name: "providers/shop/executions/a".into(),
            sub_state: v1::SubState::BackingOff as i32,
            steps: (0..steps).map(step).collect(),
            ..Default::default()
        })
    }

    #[test]
    fn the_countdown_follows_the_clock() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let drawn = |second| drawn(execution(1), None, at(second)).join("\n");
        let line = "└─ step-0  backing-off  attempt 2 of 5 failed; next attempt in";
        assert_eq!(
            drawn(100),
            format!("shop/a  backing-off\n{line} 12 s: refused")
        );
        assert_eq!(
            drawn(101),
            format!("shop/a  backing-off\n{line} 11 s: refused")
        );
    }

    #[test]
    fn a_view_without_a_connection_shows_its_age() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let drawn = drawn(execution(0), Some(at(93)), at(100));
        assert!(
            drawn[0].ends_with("  (connection lost 7 s ago: as it was then)"),
            "{drawn:?}"
        );
    }

    #[test]
    fn text_of_others_adds_no_line_to_the_view() {
        let mut hostile = execution(1);
        hostile.name = "a\u{1b}[2J\nb".into();
        hostile.steps[0].name = "pay\nforged\t".into();
        hostile.steps[0].retry.last_error = Some(crate::view::ExecutionError {
            message: "\u{1b}]0;owned\u{7}\u{202e}".into(),
            ..hostile.steps[0].retry.last_error.clone().unwrap()
        });
        let drawn = drawn(hostile, None, Timestamp::UNIX_EPOCH);
        assert_eq!(
            drawn,
            [
                r"a\u{1b}[2J\nb  backing-off",
                r"└─ pay\nforged\t  backing-off  attempt 2 of 5 failed; next attempt in 1 min 52 s: \u{1b}]0;owned\u{7}\u{202e}",
            ]
        );
    }

    #[test]
    fn a_long_tree_is_scrolled_to_its_end_and_no_further() {
        let lines = drawn(execution(100), None, Timestamp::UNIX_EPOCH);
        let mut terminal = Terminal::new(TestBackend::new(80, 10)).unwrap();
        let mut scroll = 0;
        terminal
            .draw(|frame| render(frame, &lines, &mut scroll))
            .unwrap();
        let shown = terminal.backend().to_string();
        assert!(shown.contains("(92 more lines)"), "{shown}");
        scroll = u16::MAX;
        terminal
            .draw(|frame| render(frame, &lines, &mut scroll))
            .unwrap();
        let shown = terminal.backend().to_string();
        assert!(shown.contains("└─ step-99"), "{shown}");
        assert_eq!(scroll, 92);
    }
}
