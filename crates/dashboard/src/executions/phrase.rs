//! What happens with an execution or a step now, in a few words.

use maud::{Markup, html};
use stateway_phrases::{self as phrases, Piece};
use stateway_proto::v1::{Execution, ExecutionError, Retry, SubState, Wait};

use crate::text::{prose, said_within};
use crate::time::{Now, lasting, until};

/// Characters of an error in a row.
const SHORT: usize = 90;
/// Characters of a wait's detail.
const DETAIL: usize = 200;
/// Characters of the names of steps.
const STEPS: usize = 80;
/// Characters of a name.
const NAME: usize = 60;

/// The attempt, the wait or the trouble.
pub(crate) fn happening(execution: &Execution, now: Now) -> Markup {
    let retry = execution.retry.clone().unwrap_or_default();
    let sub_state = execution.sub_state();
    let trouble = execution
        .last_error
        .as_ref()
        .filter(|_| matches!(sub_state, SubState::Error | SubState::Failed));
    html! {
        @if execution.reopen.is_some() { span.part.muted { "↻ reopened" } }
        @match sub_state {
            SubState::BackingOff => { (at(execution)) (backing_off(&retry, now)) }
            SubState::Succeeded => {}
            _ => {
                @if let Some(error) = trouble { span.part { (short_error(error)) } }
                @else { (at(execution)) }
                @if retry.attempt > 1 { span.part { (attempt(&retry)) } }
                @for wait in execution.waits.iter().take(3) { span.part { (waiting(wait, now)) } }
            }
        }
    }
}

/// The steps that an open execution is at.
fn at(execution: &Execution) -> Markup {
    let steps: Vec<_> = execution.current_steps.iter().map(String::as_str).collect();
    let at = phrases::at(&steps, "");
    html! { @if !at.is_empty() { span.part.muted { (said_within(&at, STEPS)) } } }
}

/// `attempt 2 of 5`.
pub(crate) fn attempt(retry: &Retry) -> String {
    phrases::attempt(retry.attempt, retry.max_attempt_count)
}

/// `waits for approval release for 3 min, expires in 5 min`.
pub(crate) fn waiting(wait: &Wait, now: Now) -> Markup {
    marked_up(&phrases::waiting(&wait.into()), now, DETAIL)
}

fn backing_off(retry: &Retry, now: Now) -> Markup {
    let pieces = phrases::backing_off(&retry.into());
    html! { span.part { (marked_up(&pieces, now, SHORT)) } }
}

/// The sentence as markup: names as code, times that the script keeps up to date.
fn marked_up(pieces: &[Piece<'_>], now: Now, longest: usize) -> Markup {
    html! {
        @for piece in pieces {
            @match piece {
                Piece::Text(text) => { (text) }
                Piece::Name(name) => { code { (said_within(name, NAME)) } }
                Piece::Message(message) => { (prose(message, longest)) }
                Piece::Until(time) => { (until(*time, now)) }
                Piece::Lasting(since) => { " " (lasting(*since, now)) }
            }
        }
    }
}

fn short_error(error: &ExecutionError) -> Markup {
    html! {
        @if !error.step.is_empty() { b { (said_within(&error.step, 40)) } ": " }
        (said_within(&error.message, SHORT))
    }
}
