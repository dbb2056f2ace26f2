//! A step that is stuck until a person decides, as a card and as the context of its question.

use jiff::Timestamp;
use maud::{Markup, html};
use stateway_proto::v1::{Escalation, Event};

use super::desk::Stuck;
use super::given;
use crate::fields::link;
use crate::text::{error_text, said, said_within};
use crate::time::{ago, lasting, moment};
use crate::visitor::Visitor;

/// The card in the inbox.
pub(super) fn card(stuck: &Stuck, visitor: &Visitor, now: Timestamp) -> Markup {
    let escalation = &stuck.escalation;
    html! {
        li.card.row.stuck {
            div.card-head {
                h3 {
                    "Step " (said_within(&escalation.step, 60)) " of "
                    (said_within(given::definition(&escalation.definition), 60))
                }
                span.expiry { "attempt " (escalation.attempts) }
            }
            p.cause { (said(&escalation.cause)) }
            p.muted {
                "Execution " (given::execution(&escalation.execution))
                @if let Some(time) = moment(escalation.create_time.as_ref()) {
                    ", stuck " (lasting(time, now))
                }
            }
            (context(stuck, now))
            (buttons(escalation, visitor))
        }
    }
}

/// Everything there is to know before deciding.
pub(super) fn context(stuck: &Stuck, now: Timestamp) -> Markup {
    let escalation = &stuck.escalation;
    let input = stuck.execution.as_ref().and_then(|one| one.input.as_ref());
    html! {
        dl.known {
            @if let Some(error) = &escalation.last_error {
                @if !error.category.is_empty() || !error.native_code.is_empty() {
                    dt { "Kind of error" }
                    dd {
                        (said_within(&error.category, 60)) " "
                        @if !error.native_code.is_empty() { code { (said_within(&error.native_code, 60)) } }
                    }
                }
                @if !error.detail.is_empty() {
                    dt { "Error trace" }
                    dd { (error_text(error)) }
                }
            }
            @if !escalation.initiator.is_empty() {
                dt { "Started by" }
                dd { (said_within(&escalation.initiator, 60)) }
            }
            @if !escalation.labels.is_empty() {
                dt { "Labels" }
                dd { (given::labels(&escalation.labels)) }
            }
            @if !stuck.events.is_empty() {
                dt { "What happened" }
                dd { (events(&stuck.events, now)) }
            }
            @if let Some(input) = input {
                dt { "Input of the execution" }
                dd { (given::payload(input)) }
            }
        }
    }
}

fn events(events: &[Event], now: Timestamp) -> Markup {
    html! {
        ol.past {
            @for event in events {
                li {
                    @if event.attempt > 0 { "attempt " (event.attempt) ": " }
                    (said_within(&event.summary, 160))
                    @if let Some(time) = moment(event.time.as_ref()) {
                        " " span.muted { (ago(time, now)) }
                    }
                }
            }
        }
    }
}

fn buttons(escalation: &Escalation, visitor: &Visitor) -> Markup {
    let ask = |action: &str| {
        let fields = [("name", escalation.name.as_str()), ("action", action)];
        link("/inbox/resolve", &fields)
    };
    html! {
        div.buttons {
            @if visitor.acting.actor.is_empty() {
                a.button href=(link("/acting", &[("back", "/inbox")])) data-dialog {
                    "Say who you are to decide"
                }
            } @else {
                a.button.primary href=(ask("resume")) data-dialog { "Resume…" }
                a.button href=(ask("reassign")) data-dialog { "Reassign…" }
                a.button.danger href=(ask("cancel")) data-dialog { "Cancel it…" }
            }
        }
    }
}
