//! An execution and its steps as a tree, a line each.

use jiff::Timestamp;

use super::details::{last_error, so_far};
use super::{Clock, Paint, phrase, short_name};
use crate::outline::{Branch, Outline};
use crate::view::{Execution, Step};

/// The first line: the execution, its state, and the reason.
#[must_use]
pub fn head(execution: &Execution, paint: Paint, now: Timestamp) -> String {
    let mut head = format!(
        "{}  {}",
        paint.bold(&short_name(&execution.name)),
        paint.sub_state(execution.sub_state)
    );
    if let Some(reason) = &execution.reason {
        head.push(' ');
        head.push_str(reason);
    }
    // The steps show their own state; the first line shows a failure and the actions of people.
    if execution.steps.is_empty() || matches!(execution.sub_state, "failed" | "error") {
        add(&mut head, &super::now(execution, Clock::Live(now)));
    } else {
        add(&mut head, &super::reopened(execution));
    }
    head
}

/// The lines below: the steps, and below each the steps of the execution that does it.
#[must_use]
pub fn tree(outline: &Outline, paint: Paint, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    grow(&outline.branches, "", paint, now, &mut lines);
    lines
}

fn grow(branches: &[Branch], indent: &str, paint: Paint, now: Timestamp, lines: &mut Vec<String>) {
    let length = |branch: &Branch| branch.step.name.to_string().chars().count();
    let width = branches.iter().map(length).max().unwrap_or(0);
    for (index, branch) in branches.iter().enumerate() {
        let last = index + 1 == branches.len();
        let (fork, below) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let state = step_state(&branch.step, paint, now);
        let name = format!("{:<width$}", branch.step.name);
        let edge = paint.dim(&format!("{indent}{fork}"));
        lines.push(format!("{edge}{name}  {state}"));
        if let Some(child) = &branch.child {
            let indent = format!("{indent}{below}");
            grow(&child.branches, &indent, paint, now, lines);
        }
    }
}

/// State, progress, attempt, waits and error, as far as the step has them.
fn step_state(step: &Step, paint: Paint, now: Timestamp) -> String {
    if !step.has_started() {
        return paint.dim(&not_started(step));
    }
    let state = format!("{:<11}", step.sub_state);
    let mut line = state.replacen(step.sub_state, &paint.sub_state(step.sub_state), 1);
    if let Some(reason) = &step.reason {
        add(&mut line, reason);
    }
    let open = step.end_time.is_none();
    if let Some(progress) = step.progress.as_ref().filter(|_| open) {
        add(&mut line, &so_far(progress));
    }
    let clock = Clock::Live(now);
    add(
        &mut line,
        &phrase(step.sub_state, &step.retry, &step.waits, clock),
    );
    // After a success, earlier errors are not shown, but the number of attempts is.
    match (step.sub_state, step.retry.attempt) {
        ("succeeded", 0 | 1) => {}
        ("succeeded", attempt) => add(&mut line, &format!("at attempt {attempt}")),
        _ => add(&mut line, &last_error(step)),
    }
    add(&mut line, &paint.dim(&took(step)));
    line.trim_end().to_owned()
}

/// A step that has not started, with the steps it starts after.
pub(super) fn not_started(step: &Step) -> String {
    match blocked_by(step) {
        after if after.is_empty() => "not started".to_owned(),
        after => format!("not started; {after}"),
    }
}

/// The steps that a step starts after.
pub(super) fn blocked_by(step: &Step) -> String {
    let after: Vec<_> = step.blocked_by.iter().map(ToString::to_string).collect();
    if after.is_empty() {
        return String::new();
    }
    format!("after {}", after.join(", "))
}

/// How long a step took that has ended.
fn took(step: &Step) -> String {
    match (step.start_time, step.end_time) {
        (Some(start), Some(end)) => {
            let seconds = end.duration_since(start).as_secs_f64().max(0.0);
            format!("{seconds:.1} s")
        }
        _ => String::new(),
    }
}

pub(super) fn add(line: &mut String, said: &str) {
    if !said.is_empty() {
        line.push_str("  ");
        line.push_str(said);
    }
}

#[cfg(test)]
mod tests {
    use stateway_client::v1;

    use super::*;

    fn step(name: &str, sub_state: v1::SubState) -> v1::Step {
        v1::Step {
            name: name.to_owned(),
            sub_state: sub_state.into(),
            ..v1::Step::default()
        }
    }

    fn outline(steps: Vec<v1::Step>) -> Outline {
        let execution = Execution::from(&v1::Execution {
            name: "providers/shop/executions/a".into(),
            sub_state: v1::SubState::Running.into(),
            steps,
            ..v1::Execution::default()
        });
        Outline::of(execution, &crate::outline::ChildExecutions::default())
    }

    #[test]
    fn progress_attempts_and_what_comes_later_each_have_their_words() {
        let mut first = step("fetch", v1::SubState::Succeeded);
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        (first.start_time, first.end_time) = (at(10), at(13));
        first.last_error = Some(Box::new(v1::ExecutionError {
            message: "not up yet".into(),
            ..v1::ExecutionError::default()
        }));
        first.retry = Some(Box::new(v1::Retry {
            attempt: 2,
            ..v1::Retry::default()
        }));
        let mut second = step("load", v1::SubState::Running);
        second.progress = Some(v1::Progress {
            fraction: 0.5,
            detail: "page 2".into(),
        });
        second.retry = Some(Box::new(v1::Retry {
            attempt: 2,
            ..v1::Retry::default()
        }));
        let third = v1::Step {
            reason: v1::Reason::NotStarted.into(),
            blocked_by: vec!["fetch".into(), "load".into()],
            ..step("report", v1::SubState::Waiting)
        };
        let mut whole = outline(vec![first, second, third]);
        let child = outline(vec![step("inner", v1::SubState::Waiting)]);
        whole.branches[1].child = Some(child);
        assert_eq!(
            tree(&whole, Paint::new(false), Timestamp::UNIX_EPOCH),
            [
                "├─ fetch   succeeded    at attempt 2  3.0 s",
                "├─ load    running      50 %: page 2  attempt 2",
                "│  └─ inner  waiting",
                "└─ report  not started; after fetch, load",
            ]
        );
    }
}
