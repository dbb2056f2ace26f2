//! The step that was chosen: what it was given and answered, and every attempt.

use maud::{Markup, html};
use stateway_phrases::usage as usage_of;
use stateway_proto::v1::step_attempt::Outcome;
use stateway_proto::v1::{Payload, StepAttempt, StepDetail};

use super::chosen::step_link;
use super::facts::Facts;
use super::overview::trouble;
use crate::executions::{ExecutionPath, path_of, reason, shown};
use crate::sub_state::badge;
use crate::text::{branch_number, cut, lines, prose, said_within, set_out};
use crate::time::{Now, ago, at, lasting, length, moment};

/// Characters of a payload.
const SHOWN: usize = 4_000;
/// The most attempts.
const MOST: usize = 200;

/// The chosen step; nothing when none is.
pub(super) fn chosen(path: &ExecutionPath, facts: &Facts, now: Now) -> Markup {
    let Some(step) = &facts.step else {
        return html! {};
    };
    html! {
        section.card aria-labelledby="chosen-title" {
            @match step {
                Err(problem) => { h2 #chosen-title { "Step" } (problem.render()) }
                Ok(detail) => { (card(path, detail, facts.chosen.attempt, now)) }
            }
            p { a href=(path.path()) { "Close" } }
        }
    }
}

fn card(path: &ExecutionPath, detail: &StepDetail, attempt: i32, now: Now) -> Markup {
    let step = detail.step.clone().unwrap_or_default();
    let chosen = detail.attempts.iter().rev();
    let mut chosen = chosen.filter(|one| attempt > 0 && one.attempt == attempt);
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
        @if let Some(attempt) = chosen.next() { (one_attempt(attempt, now)) }
        (attempts(path, detail, attempt, now))
    }
}

/// The attempt that was chosen: its times, its worker and the whole text of its error.
fn one_attempt(attempt: &StepAttempt, now: Now) -> Markup {
    let start = moment(attempt.start_time.as_ref());
    let end = moment(attempt.end_time.as_ref());
    html! {
        section.attempt aria-labelledby="attempt-title" {
            h3 #attempt-title {
                @if attempt.compensation { "Compensation, attempt " } @else { "Attempt " }
                (attempt.attempt) ": " (outcome(attempt.outcome()))
            }
            dl.facts {
                @if !attempt.worker.is_empty() { div { dt { "Worker" } dd { (said_within(&attempt.worker, 60)) } } }
                @if let Some(time) = start { div { dt { "Started" } dd { (at(time)) } } }
                @if let Some(time) = moment(attempt.assign_time.as_ref()) { div { dt { "Taken by the worker" } dd { (at(time)) } } }
                @if let Some(time) = end { div { dt { "Ended" } dd { (at(time)) } } }
                @if let Some((start, end)) = start.zip(end) { div { dt { "Duration" } dd { (length(start, end)) } } }
                @else if let Some(start) = start { div { dt { "Open" } dd { (lasting(start, now)) } } }
                @if !attempt.policy_rule.is_empty() { div { dt { "Policy rule" } dd { (said_within(&attempt.policy_rule, 80)) } } }
            }
            @if let Some(error) = &attempt.error { (trouble(error, now)) }
        }
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
                    pre.payload tabindex="0" data-copy=(title.to_lowercase()) {
                        (lines(short.unwrap_or(text))) @if short.is_some() || truncated { "…" }
                    }
                    @if truncated { p.muted { "Truncated by the API at 256 KiB." } }
                    @else if short.is_some() { p.muted { "Truncated: the full length is " (size) " bytes." } }
                }
            }
        }
    }
}

fn attempts(path: &ExecutionPath, detail: &StepDetail, chosen: i32, now: Now) -> Markup {
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
                            th scope="col" { "Duration" } th scope="col" { "Used" }
                            th scope="col" { "Error" }
                        }
                    }
                    tbody { @for attempt in &all[older..] { (row(path, detail, attempt, chosen, now)) } }
                }
            }
            @if older > 0 || detail.attempts_truncated { p.muted { "Older attempts are left out." } }
        }
    }
}

fn row(
    path: &ExecutionPath,
    detail: &StepDetail,
    attempt: &StepAttempt,
    chosen: i32,
    now: Now,
) -> Markup {
    let step = detail.step.as_ref().map_or("", |step| &step.name);
    let current = (attempt.attempt == chosen).then_some("true");
    html! {
        tr {
            th scope="row" {
                a href=(step_link(path, step, attempt.attempt)) aria-current=[current] {
                    span.hidden { "Attempt " } (attempt.attempt)
                }
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
            td.time {
                @if let Some((start, end)) = moment(attempt.start_time.as_ref()).zip(moment(attempt.end_time.as_ref())) {
                    (length(start, end))
                }
            }
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
