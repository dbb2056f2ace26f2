//! The step that was chosen: what it was given and answered, and every attempt.

use jiff::Timestamp;
use maud::{Markup, html};
use stateway_phrases::usage as usage_of;
use stateway_proto::v1::step_attempt::Outcome;
use stateway_proto::v1::{Payload, StepAttempt, StepDetail};

use super::facts::Facts;
use super::overview::trouble;
use crate::executions::{ExecutionPath, path_of, reason, shown};
use crate::sub_state::badge;
use crate::text::{branch_number, cut, lines, prose, said_within, set_out};
use crate::time::{ago, moment};

/// Characters of a payload.
const SHOWN: usize = 4_000;
/// The most attempts.
const MOST: usize = 200;

/// The chosen step; nothing when none is.
pub(super) fn chosen(path: &ExecutionPath, facts: &Facts, now: Timestamp) -> Markup {
    let Some(step) = &facts.step else {
        return html! {};
    };
    html! {
        section.card aria-labelledby="chosen-title" {
            @match step {
                Err(problem) => { h2 #chosen-title { "Step" } (problem.render()) }
                Ok(detail) => { (card(detail, now)) }
            }
            p { a href=(path.path()) { "Close" } }
        }
    }
}

fn card(detail: &StepDetail, now: Timestamp) -> Markup {
    let step = detail.step.clone().unwrap_or_default();
    html! {
        h2 #chosen-title {
            "Step " (said_within(&step.name, 80)) " " (badge(step.sub_state()))
            @if !step.reason().label().is_empty() { " " span.reason { (reason(step.reason().label())) } }
        }
        @if !step.child.is_empty() { p { "Done by " (execution(&step.child)) "." } }
        @if let Some(error) = &step.last_error { (trouble(error, now)) }
        @if !detail.not_retried.is_empty() { p.why { (prose(&detail.not_retried, SHOWN)) "." } }
        @if detail.payloads_redacted {
            p.muted { "Input and output are left out: no access rule allows you to read payloads." }
        }
        div.pair {
            (payload("Input", detail.input.as_ref(), detail.input_truncated))
            (payload("Output", detail.output.as_ref(), detail.output_truncated))
        }
        (attempts(detail, now))
    }
}

/// A link to another execution.
pub(super) fn execution(name: &str) -> Markup {
    let (_, id) = shown(name);
    html! { a href=(path_of(name)) { (said_within(&id, 80)) } }
}

fn payload(title: &str, payload: Option<&Payload>, truncated: bool) -> Markup {
    let size = payload.map_or(0, |payload| payload.data.len());
    let text = payload.and_then(|payload| set_out(&payload.data));
    html! {
        div {
            h3 { (title) }
            @match (&payload, &text) {
                (None, _) => { p.muted { "None." } }
                (Some(_), None) => { p { "Not text: " (size) " bytes." } }
                (Some(_), Some(text)) => {
                    @let short = cut(text, SHOWN);
                    pre.payload tabindex="0" {
                        (lines(short.unwrap_or(text))) @if short.is_some() || truncated { "…" }
                    }
                    @if truncated { p.muted { "Cut by the API: the whole is longer than 256 KiB." } }
                    @else if short.is_some() { p.muted { "Cut: it has " (size) " bytes." } }
                }
            }
        }
    }
}

fn attempts(detail: &StepDetail, now: Timestamp) -> Markup {
    let all = &detail.attempts;
    let older = all.len().saturating_sub(MOST);
    html! {
        @if !all.is_empty() {
            div.scroll.plain {
                table.attempts {
                    caption.hidden { "Every attempt of the step" }
                    thead {
                        tr {
                            th scope="col" { "Attempt" } th scope="col" { "Outcome" }
                            th scope="col" { "Worker" } th scope="col" { "Started" }
                            th scope="col" { "Ended" } th scope="col" { "Used" }
                            th scope="col" { "Error" }
                        }
                    }
                    tbody { @for attempt in &all[older..] { (row(attempt, now)) } }
                }
            }
            @if older > 0 || detail.attempts_truncated { p.muted { "Older attempts are left out." } }
        }
    }
}

fn row(attempt: &StepAttempt, now: Timestamp) -> Markup {
    html! {
        tr {
            th scope="row" {
                (attempt.attempt)
                @if attempt.compensation { " (compensation)" }
                @if branch_number(&attempt.branch) != "0" { ", branch " (said_within(branch_number(&attempt.branch), 20)) }
            }
            td { (outcome(attempt.outcome())) }
            td {
                @if !attempt.child.is_empty() { (execution(&attempt.child)) }
                @else { (said_within(&attempt.worker, 60)) }
                @if attempt.hand_out_count > 1 { ", handed out " (attempt.hand_out_count) " times" }
            }
            td.time { @if let Some(time) = moment(attempt.start_time.as_ref()) { (ago(time, now)) } }
            td.time { @if let Some(time) = moment(attempt.end_time.as_ref()) { (ago(time, now)) } }
            td { @if let Some(usage) = &attempt.usage { (usage_of(usage)) } }
            td {
                @if let Some(error) = &attempt.error {
                    (said_within(&error.message, 160))
                    @if !error.category().label().is_empty() { " " span.tag { (said_within(error.category().label(), 40)) } }
                }
            }
        }
    }
}

const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unspecified => "",
        Outcome::Open => "open",
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Unknown => "unknown",
        Outcome::Abandoned => "abandoned",
    }
}
