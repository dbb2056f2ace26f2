//! What happens with an execution or a step now, in a few words.

use jiff::Timestamp;
use maud::{Markup, html};
use stateway_proto::v1::wait::{Blocker, Kind};
use stateway_proto::v1::{Execution, ExecutionError, Retry, SubState, Wait};

use crate::text::{prose, said_within};
use crate::time::{lasting, moment, until};

/// Characters of an error in a row.
const SHORT: usize = 90;
/// Characters of a wait's detail.
const DETAIL: usize = 200;

/// The attempt, the wait or the trouble.
pub(crate) fn happening(execution: &Execution, now: Timestamp) -> Markup {
    let retry = execution.retry.clone().unwrap_or_default();
    let sub_state = execution.sub_state();
    let trouble = execution
        .last_error
        .as_ref()
        .filter(|_| matches!(sub_state, SubState::Error | SubState::Failed));
    html! {
        @if execution.reopen.is_some() { span.part.muted { "↻ reopened" } }
        @match sub_state {
            SubState::BackingOff => { (backing_off(&retry, now)) }
            SubState::Succeeded => {}
            _ => {
                @if retry.attempt > 1 { span.part { (attempt(&retry)) } }
                @for wait in execution.waits.iter().take(3) { span.part { (waiting(wait, now)) } }
                @if let Some(error) = trouble { span.part { (short_error(error)) } }
                @else if execution.waits.is_empty() && !execution.current_steps.is_empty() {
                    span.part.muted { "at " (said_within(&execution.current_steps.join(", "), 60)) }
                }
            }
        }
    }
}

/// `attempt 2 of 5`.
pub(crate) fn attempt(retry: &Retry) -> String {
    match retry.max_attempt_count {
        Some(0) => format!("attempt {} (no limit)", retry.attempt),
        Some(most) => format!("attempt {} of {most}", retry.attempt),
        None => format!("attempt {}", retry.attempt),
    }
}

/// `waits for approval release for 3 min, expires in 5 min`.
pub(crate) fn waiting(wait: &Wait, now: Timestamp) -> Markup {
    let deadline = moment(wait.expire_time.as_ref());
    let ends = if wait.kind() == Kind::Timer {
        "ends "
    } else {
        "expires "
    };
    let queued = matches!(
        wait.blocker(),
        Blocker::Slot | Blocker::Concurrency | Blocker::Memory
    );
    html! {
        @match (wait.kind(), wait.blocker()) {
            (_, Blocker::Worker) => {
                "waits for a worker" @if !wait.name.is_empty() { " of role " }
            }
            (_, Blocker::Slot | Blocker::Concurrency | Blocker::Memory) => { "waits for its turn" }
            (Kind::Escalation, _) => {
                "waits for a person's decision " @if !wait.name.is_empty() { "by " }
            }
            (kind, _) => { "waits for " (kind.label()) " " }
        }
        @if !wait.name.is_empty() && !queued { code { (said_within(&wait.name, 60)) } }
        @if let Some(since) = moment(wait.start_time.as_ref()) { " " (lasting(since, now)) }
        @if let Some(time) = deadline { ", " (ends) (until(time, now)) }
        @if !wait.detail.is_empty() { ": " (prose(&wait.detail, DETAIL)) }
    }
}

fn backing_off(retry: &Retry, now: Timestamp) -> Markup {
    let next = moment(retry.next_attempt_time.as_ref());
    html! {
        span.part {
            @if retry.attempt == 0 { "an attempt" } @else { (attempt(retry)) }
            " failed"
            @if let Some(error) = &retry.last_error { ": " (said_within(&error.message, SHORT)) }
        }
        @if let Some(next) = next { span.part { "next " (until(next, now)) } }
    }
}

fn short_error(error: &ExecutionError) -> Markup {
    html! {
        @if !error.step.is_empty() { b { (said_within(&error.step, 40)) } ": " }
        (said_within(&error.message, SHORT))
    }
}
