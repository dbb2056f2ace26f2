//! A live view of an execution on a terminal: a tree of its steps, with countdowns.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use rustix::termios::tcgetwinsize;

use super::tree::add;
use super::{Paint, ago, head, tree};
use crate::outline::Outline;

/// The maximum number of lines, however high the terminal is.
const MOST_LINES: usize = 60;

/// The minimum number of lines, however low the terminal is.
const LEAST_LINES: usize = 5;

/// The lines on the terminal.
pub struct Live {
    lines: MultiProgress,
    bars: Vec<ProgressBar>,
    paint: Paint,
}

impl Live {
    /// Draws on standard output.
    #[must_use]
    pub fn new(paint: Paint) -> Self {
        let target = ProgressDrawTarget::stdout_with_hz(10);
        Self {
            lines: MultiProgress::with_draw_target(target),
            bars: Vec::new(),
            paint,
        }
    }

    /// Draws the execution as it is now, or as it was when the connection was lost.
    pub fn draw(&mut self, outline: &Outline, lost: Option<Timestamp>, now: Timestamp) {
        let lines = lines(outline, self.paint, lost, room(), now);
        while self.bars.len() < lines.len() {
            // `{msg}` alone is a template without anything that could be wrong.
            let style = ProgressStyle::with_template("{wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.bars
                .push(self.lines.add(ProgressBar::no_length().with_style(style)));
        }
        for (index, bar) in self.bars.iter().enumerate() {
            bar.set_message(lines.get(index).cloned().unwrap_or_default());
            bar.tick();
        }
    }

    /// Prints a message without disturbing the view.
    pub fn aside(&self, say: impl FnOnce()) {
        self.lines.suspend(say);
    }
}

/// Leaves the last view on the screen, however the watch ends.
impl Drop for Live {
    fn drop(&mut self) {
        for bar in &self.bars {
            bar.abandon();
        }
    }
}

/// The view, line by line.
fn lines(
    outline: &Outline,
    paint: Paint,
    lost: Option<Timestamp>,
    most: usize,
    now: Timestamp,
) -> Vec<String> {
    let mut first = head(&outline.execution, paint, now);
    if let Some(lost) = lost {
        let stale = format!("(connection lost {} ago: as it was then)", ago(lost, now));
        add(&mut first, &paint.bold(&stale));
    }
    let mut lines = vec![first];
    lines.extend(tree(outline, paint, now));
    if let Some(more) = lines.len().checked_sub(most).filter(|more| *more > 0) {
        lines.truncate(most - 1);
        lines.push(format!("… and {} more steps", more + 1));
    }
    lines
}

/// The maximum number of lines that fit: lines that have scrolled away cannot be redrawn.
fn room() -> usize {
    let rows = tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
    match rows {
        0 => MOST_LINES,
        rows => rows.saturating_sub(1).clamp(LEAST_LINES, MOST_LINES),
    }
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;

    use super::*;
    use crate::outline::Known;
    use crate::view::Execution;

    fn picture(execution: Execution, lost: Option<Timestamp>, now: Timestamp) -> Vec<String> {
        let outline = Outline::of(execution, &Known::default());
        lines(&outline, Paint::new(false), lost, MOST_LINES, now)
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
        let drawn = |second| picture(execution(1), None, at(second)).join("\n");
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
    fn what_is_old_says_so() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let drawn = picture(execution(0), Some(at(93)), at(100));
        assert!(
            drawn[0].ends_with("  (connection lost 7 s ago: as it was then)"),
            "{drawn:?}"
        );
    }

    #[test]
    fn what_others_wrote_adds_no_line_to_the_picture() {
        let mut hostile = execution(1);
        hostile.name = "a\u{1b}[2J\nb".into();
        hostile.steps[0].name = "pay\nforged\t".into();
        hostile.steps[0].retry.last_error = Some(crate::view::ExecutionError {
            message: "\u{1b}]0;owned\u{7}\u{202e}".into(),
            ..hostile.steps[0].retry.last_error.clone().unwrap()
        });
        let drawn = picture(hostile, None, Timestamp::UNIX_EPOCH);
        assert_eq!(
            drawn,
            [
                r"a\u{1b}[2J\nb  backing-off",
                r"└─ pay\nforged\t  backing-off  attempt 2 of 5 failed; next attempt in 1 min 52 s: \u{1b}]0;owned\u{7}\u{202e}",
            ]
        );
    }

    #[test]
    fn a_long_list_of_steps_is_cut() {
        let drawn = picture(execution(100), None, Timestamp::UNIX_EPOCH);
        assert_eq!(drawn.len(), MOST_LINES);
        assert_eq!(drawn.last().unwrap(), "… and 42 more steps");
    }
}
