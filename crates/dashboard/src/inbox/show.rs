//! The inbox as a page.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::given;
use super::reader::{InboxAddress, InboxPage, InboxReader, Reading, Settled};
use crate::Site;
use crate::executions::unreachable;
use crate::fields::Fields;
use crate::layout::Section;
use crate::live::Part;
use crate::page::Page;
use crate::problem::Problem;
use crate::text::said_within;
use crate::time::Now;
use crate::visitor::Visitor;

pub(super) async fn show(State(site): State<Site>, visitor: Visitor, fields: Fields) -> Response {
    let mut reader = InboxReader::new(&site, &visitor, InboxAddress::of(&fields));
    let inbox = reader.look(Reading::Everything).await;
    let asked = &reader.asked;
    let live = asked.link("/inbox/live", &asked.requests, &asked.stuck);
    let page = Page {
        section: Section::Inbox,
        title: "Inbox",
        live: inbox.is_ok().then_some(live.as_str()),
        content: content(&inbox, &reader, Now::page()),
    };
    page.show(&visitor)
}

fn content(inbox: &Result<InboxPage, Problem>, reader: &InboxReader, now: Now) -> Markup {
    html! {
        div.title { h1 { "Inbox" } p.muted { "Approvals and escalations that wait for a person." } }
        (views(reader.asked.mine))
        @match inbox {
            Ok(inbox) => div.inbox { @for part in parts(inbox, reader, now) { (part.html) } },
            Err(problem) => (problem.render()),
        }
    }
}

fn views(mine: bool) -> Markup {
    html! {
        nav.presets aria-label="Which requests" {
            a href="/inbox" aria-current=[(!mine).then_some("true")] { "All" }
            a href="/inbox?mine=1" aria-current=[mine.then_some("true")] { "Waiting for me" }
        }
    }
}

/// The parts of the page that change.
pub(super) fn parts(inbox: &InboxPage, reader: &InboxReader, now: Now) -> Vec<Part> {
    vec![
        Part::new(
            "unreachable",
            unreachable(&inbox.unreachable, "approvals and escalations"),
        ),
        Part::new("requests", requests(inbox, reader)),
        Part::new("stuck", stuck(inbox, &reader.asked)),
        Part::new("decided", decided(inbox, now)),
    ]
}

fn requests(inbox: &InboxPage, reader: &InboxReader) -> Markup {
    let (asked, count) = (&reader.asked, inbox.requests.len());
    html! {
        section #requests aria-labelledby="requests-title" {
            h2 #requests-title { "Approvals " span.count { (count) @if !inbox.older_requests.is_empty() { "+" } } }
            @if count == 0 {
                p.nothing { (nothing(reader)) }
            } @else {
                ul.cards {
                    @for card in &inbox.requests { (card) }
                }
            }
            (pager("Pages of approvals", &asked.requests, &inbox.older_requests, |page| {
                asked.link("/inbox", page, &asked.stuck)
            }))
        }
    }
}

/// Links to the newest and to what is older, where there is any.
fn pager(label: &str, page: &str, older: &str, link: impl Fn(&str) -> String) -> Markup {
    html! {
        @if !page.is_empty() || !older.is_empty() {
            nav.pager aria-label=(label) {
                @if !page.is_empty() { a.button href=(link("")) rel="first" { "Newest" } }
                @if !older.is_empty() { a.button href=(link(older)) rel="next" { "Older" } }
            }
        }
    }
}

fn nothing(reader: &InboxReader) -> &'static str {
    match (reader.asked.mine, reader.visitor.acting.actor.is_empty()) {
        (true, true) => "Enter your name and your roles to see what waits for you.",
        (true, false) => "Nothing waits for you.",
        (false, _) => "No approval is pending.",
    }
}

fn stuck(inbox: &InboxPage, asked: &InboxAddress) -> Markup {
    let count = inbox.stuck.len();
    html! {
        section #stuck aria-labelledby="stuck-title" {
            h2 #stuck-title { "Escalations " span.count { (count) @if !inbox.older_stuck.is_empty() { "+" } } }
            @if count == 0 {
                p.nothing { "No escalation is pending." }
            } @else {
                ul.cards {
                    @for card in &inbox.stuck { (card) }
                }
            }
            (pager("Pages of escalations", &asked.stuck, &inbox.older_stuck, |page| {
                asked.link("/inbox", &asked.requests, page)
            }))
        }
    }
}

fn decided(inbox: &InboxPage, now: Now) -> Markup {
    html! {
        section #decided aria-labelledby="decided-title" {
            h2 #decided-title { "Recent decisions" }
            @if inbox.decided.is_empty() {
                p.nothing { "No recent decisions." }
            } @else {
                ul.decided {
                    @for settled in &inbox.decided {
                        li {
                            @match settled {
                                Settled::Approval(one) => {
                                    (given::decision(one.state(), one.decision.as_ref(), now))
                                    (about(&one.step, &one.definition, &one.execution))
                                }
                                Settled::Escalation(one) => {
                                    (given::resolution(one, now))
                                    (about(&one.step, &one.definition, &one.execution))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn about(step: &str, definition: &str, execution: &str) -> Markup {
    html! {
        span.muted {
            " – step " (said_within(step, 60)) " of "
            (said_within(given::definition(definition), 60)) ", " (given::execution(execution))
        }
    }
}
