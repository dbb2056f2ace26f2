//! What happened, in the engine's own words, a page at a time.

use maud::{Markup, html};
use stateway_proto::v1::{Event, ExecutionView, ListEventsRequest};

use super::chosen::{event_link, step_link};
use super::facts::Facts;
use crate::Site;
use crate::executions::ExecutionPath;
use crate::fields::{Fields, link};
use crate::problem::Problem;
use crate::text::said_within;
use crate::time::{at, moment};
use crate::visitor::Visitor;

/// Events on a page.
const EVENTS: i32 = 100;

/// Asks for the first page.
const FIRST: &str = "first";

/// The whole history, or its newest page, which is kept up to date; none if the call failed.
pub(super) fn whole(path: &ExecutionPath, facts: &Facts) -> Option<Markup> {
    let page = facts.events.as_ref().ok();
    let page = page.filter(|_| facts.capabilities().history)?;
    let most = usize::try_from(EVENTS).unwrap_or(usize::MAX);
    let before = page.events.len().saturating_sub(most);
    Some(section(&html! {
        @if before > 0 || page.more_before {
            p.muted.inset { "The newest " (page.events.len() - before) " events." }
        }
        (events(path, &page.events[before..], "", facts.has_step_details()))
        @if before > 0 || page.more_before {
            nav.pager aria-label="Pages of the history" { (page_link(&path.path(), FIRST, "From the beginning")) }
        }
    }))
}

fn page_link(path: &str, page: &str, text: &str) -> Markup {
    let page = link(path, &[("events", page)]);
    html! { a.button href={ (page) "#history" } { (text) } }
}

/// The page of the history that is asked for.
pub(super) async fn page(
    site: &Site,
    visitor: &Visitor,
    path: &ExecutionPath,
    facts: &Facts,
    fields: &Fields,
) -> Markup {
    if !facts.capabilities().history {
        return html! {};
    }
    let token = match fields.get("events") {
        FIRST => "",
        token => token,
    };
    let first = token.is_empty();
    let request = ListEventsRequest {
        parent: path.name(),
        page_size: EVENTS,
        page_token: token.to_owned(),
        view: ExecutionView::Basic.into(),
        ..ListEventsRequest::default()
    };
    let mut api = site.api.executions();
    let answer = api.list_events(visitor.request(request)).await;
    let body = match answer {
        Err(status) => Problem::from(status).render(),
        Ok(answer) => {
            let answer = answer.into_inner();
            html! {
                (events(path, &answer.events, fields.get("events"), facts.has_step_details()))
                nav.pager aria-label="Pages of the history" {
                    @if !first { (page_link(&path.path(), FIRST, "From the beginning")) }
                    @if !answer.next_page_token.is_empty() {
                        (page_link(&path.path(), &answer.next_page_token, "Later events"))
                    }
                    @if facts.events.is_ok() {
                        (page_link(&path.path(), "", "Newest events"))
                    }
                }
            }
        }
    };
    section(&body)
}

fn section(body: &Markup) -> Markup {
    html! {
        section.card.flush #history aria-labelledby="history-title" {
            h2 #history-title { "History" }
            (body)
        }
    }
}

fn events(path: &ExecutionPath, events: &[Event], page: &str, has_step_details: bool) -> Markup {
    html! {
        @if events.is_empty() { p.muted.inset { "No events." } }
        @else {
            div.scroll.plain {
                table.events {
                    caption.hidden { "Events, oldest first" }
                    thead {
                        tr {
                            th scope="col" { "#" } th scope="col" { "Time" } th scope="col" { "Event" }
                            th scope="col" { "Step" } th scope="col" { "What" }
                        }
                    }
                    tbody { @for event in events { (row(path, event, page, has_step_details)) } }
                }
            }
        }
    }
}

fn row(path: &ExecutionPath, event: &Event, page: &str, has_step_details: bool) -> Markup {
    html! {
        tr {
            td.number {
                a href=(event_link(path, event.sequence, page)) { span.hidden { "Event " } (event.sequence) }
            }
            td.time { @if let Some(time) = moment(event.occur_time.as_ref()) { (at(time)) } }
            td { code { (said_within(&event.native_type, 60)) } }
            td {
                @if has_step_details && !event.step.is_empty() {
                    a href=(step_link(path, &event.step, event.attempt)) { (said_within(&event.step, 60)) }
                } @else { (said_within(&event.step, 60)) }
                @if event.attempt > 1 { span.muted { " #" (event.attempt) } }
            }
            td.now { (said_within(&event.summary, 300)) }
        }
    }
}
