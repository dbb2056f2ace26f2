//! The event that was chosen, with everything that the engine recorded about it.

use maud::{Markup, html};
use stateway_proto::v1::{Event, ExecutionView, ListEventsRequest};

use super::chosen::step_link;
use super::facts::Facts;
use crate::Site;
use crate::executions::ExecutionPath;
use crate::problem::Problem;
use crate::text::{cut, lines, said, said_within, set_out};
use crate::time::{at, moment};
use crate::visitor::Visitor;

/// Events of a page of the API, and the most pages that are read to find one.
const EVENTS: i32 = 1_000;
const MOST_PAGES: usize = 20;
/// Characters of a payload; the API gives at most 16 KiB.
const SHOWN: usize = 16_384;

/// Reads the event with this number, from the newest one backwards; none when none was chosen.
pub(super) async fn read(
    site: &Site,
    visitor: &Visitor,
    execution: &str,
    sequence: i64,
) -> Option<Result<Event, Problem>> {
    if sequence == 0 {
        return None;
    }
    Some(find(site, visitor, execution, sequence).await)
}

async fn find(
    site: &Site,
    visitor: &Visitor,
    execution: &str,
    sequence: i64,
) -> Result<Event, Problem> {
    let mut token = String::new();
    for _ in 0..MOST_PAGES {
        let request = ListEventsRequest {
            parent: execution.to_owned(),
            page_size: EVENTS,
            page_token: token,
            view: ExecutionView::Full.into(),
            order_by: "sequence desc".to_owned(),
            ..ListEventsRequest::default()
        };
        let mut api = site.api.executions();
        let page = api.list_events(visitor.request(request)).await?;
        let page = page.into_inner();
        let passed = page.events.iter().any(|event| event.sequence < sequence);
        let mut events = page.events.into_iter();
        if let Some(found) = events.find(|event| event.sequence == sequence) {
            return Ok(found);
        }
        token = page.next_page_token;
        if token.is_empty() || passed {
            break;
        }
    }
    Err(Problem::not_found(
        &format!("The history has no event {sequence} that this page can read."),
        "Download the history to see every event.",
    ))
}

/// The chosen event; nothing when none is.
pub(super) fn chosen(path: &ExecutionPath, facts: &Facts) -> Markup {
    let Some(event) = &facts.event else {
        return html! {};
    };
    html! {
        section.card aria-labelledby="event-title" {
            @match event {
                Err(problem) => { h2 #event-title { "Event" } (problem.render()) }
                Ok(event) => { (card(path, event, facts.has_step_details())) }
            }
            p { a href={ (path.path()) "#history" } { "Close" } }
        }
    }
}

fn card(path: &ExecutionPath, event: &Event, has_step_details: bool) -> Markup {
    let data = event.payload.as_ref().map(|payload| &payload.data);
    let text = data.and_then(|data| set_out(data));
    html! {
        h2 #event-title { "Event " (event.sequence) ": " code { (said_within(&event.native_type, 80)) } }
        @if !event.summary.is_empty() { p { (said(&event.summary)) } }
        dl.facts {
            @if let Some(time) = moment(event.occur_time.as_ref()) { div { dt { "Time" } dd { (at(time)) } } }
            @if !event.step.is_empty() {
                div { dt { "Step" } dd {
                    @if has_step_details {
                        a href=(step_link(path, &event.step, event.attempt)) { (said_within(&event.step, 80)) }
                    } @else { (said_within(&event.step, 80)) }
                    @if event.attempt > 0 { ", attempt " (event.attempt) }
                } }
            }
            @if !event.actor.is_empty() { div { dt { "By" } dd { (said_within(&event.actor, 80)) } } }
            @if event.cause_sequence > 0 { div { dt { "Caused by" } dd { "event " (event.cause_sequence) } } }
            @if !event.request_id.is_empty() { div { dt { "Request id" } dd { code { (said_within(&event.request_id, 80)) } } } }
            @if !event.correlation_id.is_empty() { div { dt { "Correlation id" } dd { code { (said_within(&event.correlation_id, 80)) } } } }
        }
        @if let Some(text) = &text {
            @let short = cut(text, SHOWN);
            pre.payload tabindex="0" data-copy="the event" {
                (lines(short.unwrap_or(text))) @if short.is_some() || event.payload_truncated { "…" }
            }
        } @else {
            p.muted { "The engine records no more about this event, or no access rule allows you to read payloads." }
        }
    }
}
