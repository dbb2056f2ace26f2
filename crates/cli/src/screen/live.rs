//! An execution on a terminal, drawn again and again: one line per step, countdowns that tick.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::{Clock, Paint, phrase, short_name, trouble};
use crate::view::Execution;

/// The most lines that are drawn. A screen holds no more, and redrawing what has scrolled away
/// leaves debris.
const MOST_LINES: usize = 40;

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

    /// Draws the execution as it is now.
    pub fn draw(&mut self, execution: &Execution, now: Timestamp) {
        let lines = lines(execution, self.paint, now);
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

    /// Lets something be said without spoiling the picture.
    pub fn aside(&self, say: impl FnOnce()) {
        self.lines.suspend(say);
    }
}

/// Leaves the last picture where it is, however the watch ends.
impl Drop for Live {
    fn drop(&mut self) {
        for bar in &self.bars {
            bar.abandon();
        }
    }
}

/// The picture, line by line.
fn lines(execution: &Execution, paint: Paint, now: Timestamp) -> Vec<String> {
    let clock = Clock::Live(now);
    let mut head = format!(
        "{}  {}",
        paint.bold(&short_name(&execution.name)),
        paint.sub_state(execution.sub_state)
    );
    if let Some(reason) = &execution.reason {
        head.push(' ');
        head.push_str(reason);
    }
    if execution.steps.is_empty() {
        add(
            &mut head,
            &phrase(
                execution.sub_state,
                &execution.retry,
                &execution.waits,
                clock,
            ),
        );
    }
    if execution.sub_state == "failed" || execution.sub_state == "error" {
        add(
            &mut head,
            &execution
                .last_error
                .as_ref()
                .map(trouble)
                .unwrap_or_default(),
        );
    }
    let width = execution
        .steps
        .iter()
        .map(|step| step.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut lines = vec![head];
    for step in execution.steps.iter().take(MOST_LINES - 2) {
        let state = format!("{:<11}", step.sub_state);
        let padded = state.replacen(step.sub_state, &paint.sub_state(step.sub_state), 1);
        let mut line = format!("  {:<width$}  {padded}", step.name);
        add(
            &mut line,
            &phrase(step.sub_state, &step.retry, &step.waits, clock),
        );
        lines.push(line);
    }
    if let Some(more) = execution
        .steps
        .len()
        .checked_sub(MOST_LINES - 2)
        .filter(|more| *more > 0)
    {
        lines.push(format!("  … and {more} more steps"));
    }
    lines
}

fn add(line: &mut String, said: &str) {
    if !said.is_empty() {
        line.push_str("  ");
        line.push_str(said);
    }
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;

    use super::*;

    fn execution(steps: usize) -> Execution {
        let retry = v1::Retry {
            attempt: 2,
            max_attempts: Some(5),
            next_attempt_time: Some(prost_types::Timestamp {
                seconds: 112,
                nanos: 0,
            }),
            last_error: Some(v1::ExecutionError {
                message: "refused".into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let step = |index: usize| v1::Step {
            name: format!("step-{index}"),
            sub_state: v1::SubState::BackingOff as i32,
            retry: Some(retry.clone()),
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
        let drawn = |second| lines(&execution(1), Paint::new(false), at(second)).join("\n");
        let line = "  step-0  backing-off  attempt 2 of 5 failed: refused; next attempt in";
        assert_eq!(drawn(100), format!("shop/a  backing-off\n{line} 12 s"));
        assert_eq!(drawn(101), format!("shop/a  backing-off\n{line} 11 s"));
    }

    #[test]
    fn a_long_list_of_steps_is_cut() {
        let drawn = lines(&execution(100), Paint::new(false), Timestamp::UNIX_EPOCH);
        assert_eq!(drawn.len(), MOST_LINES);
        assert_eq!(drawn.last().unwrap(), "  … and 62 more steps");
    }
}
