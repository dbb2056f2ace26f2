//! The head of the page and what happens now: sub-state, why, what it waits for, the last error.

use maud::{Markup, html};
use stateway_phrases::usage as usage_of;
use stateway_proto::v1::provider_health::Status;
use stateway_proto::v1::{
    Execution, ExecutionError, ExplainExecutionResponse, RetryBasis, SubState, TableRow,
};

use super::facts::Facts;
use super::step;
use crate::executions::{ExecutionPath, attempt, label, reason, short_name, shown, waiting};
use crate::fields::link;
use crate::sub_state::{badge, finished};
use crate::text::{error_text, prose, said, said_within};
use crate::time::{Now, ago, length, moment, until};

/// The most labels, waits and lines of evidence that are shown.
const MOST: usize = 30;
/// Characters of an error that are shown.
const ERROR: usize = 4_000;

/// Name, state, since when, of what.
pub(super) fn head(path: &ExecutionPath, facts: &Facts, now: Now) -> Markup {
    let execution = &facts.execution;
    let (provider, id) = shown(&execution.name);
    let by_provider = format!("name = \"providers/{provider}/*\"");
    let changed = moment(execution.update_time.as_ref());
    let ended = moment(execution.end_time.as_ref());
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            a href="/executions" { "Executions" } " / "
            a href=(link("/executions", &[("filter", &by_provider)])) { (provider) }
        }
        div.title {
            h1.id { a href=(path.path()) { (said_within(&id, 120)) } }
            span.state { (badge(execution.sub_state())) }
            @if !execution.reason().label().is_empty() { span.reason { (reason(execution.reason().label())) } }
            @if execution.reopen.is_some() { span.tag { "↻ reopened" } }
            button.small.script type="button" data-copy-text=(short_name(&execution.name)) { "Copy name" }
        }
        (unhealthy(facts))
        dl.facts {
            @if !execution.definition.is_empty() {
                div { dt { "Definition" } dd { (definition(&execution.definition, &execution.revision)) } }
            }
            div { dt { "Native state" } dd { code { (said_within(&execution.native_state, 60)) } } }
            @if let Some(time) = moment(execution.create_time.as_ref()) {
                div { dt { "Created" } dd { (ago(time, now)) } }
            }
            @if let Some(time) = ended {
                div { dt { "Ended" } dd { (ago(time, now)) } }
                @if let Some(from) = moment(execution.start_time.as_ref()) {
                    div { dt { "Duration" } dd { (length(from, time)) } }
                }
            } @else if let Some(time) = changed {
                div { dt { "Changed" } dd { (ago(time, now)) } }
            }
            @if let Some(usage) = &execution.usage {
                div { dt { "Used" } dd {
                    (usage_of(usage))
                    @if let Some(abandoned) = &execution.abandoned_usage {
                        ", of it on abandoned branches " (usage_of(abandoned))
                    }
                } }
            }
            (interventions(execution, now))
            @if !execution.labels.is_empty() {
                div { dt { "Labels" } dd {
                    ul.labels { @for (key, value) in labels(execution) { li { (label(key, value)) } } }
                } }
            }
        }
    }
}

fn labels(execution: &Execution) -> Vec<(&String, &String)> {
    let mut labels: Vec<_> = execution.labels.iter().collect();
    labels.sort();
    labels.truncate(MOST);
    labels
}

/// Who cancelled, paused or reopened it, and the executions that it belongs together with.
fn interventions(execution: &Execution, now: Now) -> Markup {
    let children = execution.steps.iter().map(|step| step.child.as_str());
    let children: Vec<_> = children.filter(|child| !child.is_empty()).collect();
    html! {
        @if let Some(cancelled) = &execution.cancellation {
            div { dt { "Cancelled" } dd {
                (by(&cancelled.cancelled_by, cancelled.cancel_time.as_ref(), now))
                @if !cancelled.comment.is_empty() { ": " (said(&cancelled.comment)) }
            } }
        }
        @if let Some(pause) = &execution.pause {
            div { dt { "Paused" } dd {
                (by(&pause.paused_by, None, now))
                @if !pause.comment.is_empty() { ": " (said(&pause.comment)) }
                @if !pause.step.is_empty() { " after the failure of " b { (said_within(&pause.step, 80)) } }
                @if !pause.offered_revision.is_empty() {
                    " because it cannot adopt revision " code { (said_within(&pause.offered_revision, 12)) }
                }
                @for conflict in pause.conflicts.iter().take(MOST) { p { (prose(conflict, ERROR)) } }
            } }
        }
        @if let Some(reopen) = &execution.reopen {
            div { dt { "Reopened" } dd {
                (by(&reopen.reopened_by, reopen.reopen_time.as_ref(), now))
                ", had ended as " code { (said_within(&reopen.previous_native_state, 60)) }
                @if reopen.reopen_count > 1 { " (" (reopen.reopen_count) " times in all)" }
            } }
        }
        @if !execution.parent_execution.is_empty() {
            div { dt { "Child of" } dd { (step::execution(&execution.parent_execution)) } }
        }
        @if !children.is_empty() {
            div { dt { "Children" } dd {
                @for child in children.iter().take(MOST) { (step::execution(child)) " " }
            } }
        }
        @if !execution.forked_from.is_empty() {
            div { dt { "Forked from" } dd { (step::execution(&execution.forked_from)) } }
        }
        @if !execution.forks.is_empty() {
            div { dt { "Forks" } dd {
                @for fork in execution.forks.iter().take(MOST) { (step::execution(fork)) " " }
            } }
        }
        @if !execution.not_rolled_back.is_empty() {
            div { dt { "Not rolled back" } dd { (said_within(&execution.not_rolled_back.join(", "), 300)) } }
        }
    }
}

fn by(who: &str, time: Option<&prost_types::Timestamp>, now: Now) -> Markup {
    html! {
        @if !who.is_empty() { "by " (said_within(who, 80)) }
        @if let Some(time) = moment(time) { " " (ago(time, now)) }
    }
}

fn definition(name: &str, revision: &str) -> Markup {
    let id = name.rsplit('/').next().unwrap_or(name);
    let short: String = revision.chars().take(8).collect();
    html! {
        @if name.starts_with("definitions/") {
            a href=(format!("/definitions/{id}")) { (said_within(id, 80)) }
        } @else { (said_within(id, 80)) }
        @if !short.is_empty() { " " code.muted { (said(&short)) } }
    }
}

fn unhealthy(facts: &Facts) -> Markup {
    let health = facts.provider.as_ref().and_then(|it| it.health.as_ref());
    let down = health.filter(|health| health.status() == Status::NotServing);
    html! {
        @if let Some(health) = down {
            div.note.warn role="status" {
                p { "The provider does not answer: the data shown may be outdated." }
                @if !health.detail.is_empty() { p.hint { (said(&health.detail)) } }
            }
        }
    }
}

/// Why it shows what it shows, what comes next, and what went wrong.
pub(super) fn now(facts: &Facts, now: Now) -> Markup {
    let execution = &facts.execution;
    let retry = execution.retry.clone().unwrap_or_default();
    let next = moment(retry.next_attempt_time.as_ref());
    let open = !finished(execution.sub_state());
    html! {
        section.card.now-card aria-labelledby="now-title" {
            h2 #now-title { @if open { "Now" } @else { "Result" } }
            @if let Some(explanation) = &facts.explanation { (why(explanation)) }
            @if execution.sub_state() == SubState::BackingOff {
                p.next {
                    @if retry.attempt > 0 { (capital(&attempt(&retry))) " failed. " }
                    @if let Some(next) = next { "Next attempt " b { (until(next, now)) } "." }
                }
            }
            @for wait in execution.waits.iter().take(MOST) {
                p.wait { (waiting(wait, now)) }
            }
            @if retry.basis() == RetryBasis::Inferred {
                p.muted { "Attempts and times are derived from the history; the engine does not report them." }
            }
            @if let Some(error) = &execution.last_error { (trouble(error, now)) }
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn why(explanation: &ExplainExecutionResponse) -> Markup {
    html! {
        p.why { (prose(&explanation.summary, ERROR)) }
        details #evidence {
            summary { "Evidence" }
            @if let Some(row) = &explanation.row { (table_row(row)) }
            ul { @for line in explanation.evidence.iter().take(MOST) { li { (prose(line, ERROR)) } } }
            @for step in explanation.steps.iter().take(MOST) {
                p { b { (said_within(&step.step, 80)) } ": " (prose(&step.summary, ERROR)) }
                ul { @for line in step.evidence.iter().take(MOST) { li { (prose(line, ERROR)) } } }
            }
        }
    }
}

fn table_row(row: &TableRow) -> Markup {
    let mut when: Vec<_> = row.when.iter().collect();
    when.sort();
    html! {
        p {
            "State table row " code { (said_within(&row.native_state, 80)) }
            @for (key, value) in when { ", " code { (said_within(key, 40)) " = " (said_within(value, 40)) } }
            "."
            @if !row.note.is_empty() { " " (said(&row.note)) }
        }
    }
}

/// The last error, with all of its text.
pub(crate) fn trouble(error: &ExecutionError, now: Now) -> Markup {
    html! {
        div.trouble {
            p.muted {
                "Last error"
                @if !error.step.is_empty() { " in " b { (said_within(&error.step, 80)) } }
                @if error.attempt > 0 { ", attempt " (error.attempt) }
                @if let Some(time) = moment(error.occur_time.as_ref()) { ", " (ago(time, now)) }
                @if !error.category().label().is_empty() { " " span.tag { (said_within(error.category().label(), 40)) } }
                @if !error.native_code.is_empty() { " " code { (said_within(&error.native_code, 80)) } }
            }
            (error_text(error))
        }
    }
}
