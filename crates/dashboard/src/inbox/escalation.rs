//! An escalated step: as a card of the inbox and as the context of its question.

use maud::{Markup, html};
use stateway_identity::PageObject;
use stateway_phrases::usage as usage_of;
use stateway_proto::v1::{Escalation, StepAttempt};

use super::given;
use super::may::{May, may, refusal};
use super::reader::Stuck;
use crate::fields::link;
use crate::permission::provider_of;
use crate::text::{branch_number, error_text, said, said_within};
use crate::time::{Now, ago, lasting, moment};
use crate::visitor::{Acting, Visitor};

/// Attempts that are shown.
const MOST_ATTEMPTS: usize = 20;

/// Whether a visitor may decide, as far as can be known before asking the API.
pub(super) fn may_decide(escalation: &Escalation, acting: &Acting) -> May {
    may(&escalation.initiator, &escalation.roles, acting)
}

/// The card in the inbox.
pub(super) fn card(stuck: &Stuck, visitor: &Visitor, now: Now) -> Markup {
    let escalation = &stuck.escalation;
    html! {
        li.card.row.stuck {
            div.card-head {
                h3 {
                    "Step " (said_within(&escalation.step, 60)) " of "
                    (said_within(given::definition(&escalation.definition), 60))
                }
                span.expiry { "attempt " (escalation.attempt) }
            }
            p.cause { (said(&escalation.cause)) }
            p.muted {
                "Execution " (given::execution(&escalation.execution))
                @if let Some(time) = moment(escalation.create_time.as_ref()) {
                    ", escalated " (lasting(time, now))
                }
            }
            (context(stuck, now))
            (buttons(escalation, visitor, "/inbox"))
        }
    }
}

/// Everything there is to know before deciding.
pub(super) fn context(stuck: &Stuck, now: Now) -> Markup {
    let escalation = &stuck.escalation;
    let input = stuck.execution.as_ref().and_then(|one| one.input.as_ref());
    html! {
        dl.known {
            dt { "Who may decide" }
            dd { (deciders(escalation)) }
            @if let Some(error) = &escalation.last_error {
                @if !error.category().label().is_empty() || !error.native_code.is_empty() {
                    dt { "Kind of error" }
                    dd {
                        (said_within(error.category().label(), 60)) " "
                        @if !error.native_code.is_empty() { code { (said_within(&error.native_code, 60)) } }
                    }
                }
                @if !error.detail.is_empty() {
                    dt { "Error trace" }
                    dd { (error_text(error)) }
                }
            }
            @if !escalation.reason().label().is_empty() {
                dt { "Reason" }
                dd { code { (escalation.reason().label()) } }
            }
            @if !escalation.policy_rule.is_empty() {
                dt { "Policy rule" }
                dd { code { (said_within(&escalation.policy_rule, 60)) } }
            }
            @if !escalation.labels.is_empty() {
                dt { "Labels" }
                dd { (given::labels(&escalation.labels)) }
            }
            @if !escalation.attempts.is_empty() {
                dt { "Attempts" }
                dd { (attempts(&escalation.attempts, now)) }
            }
            @if let Some(input) = input {
                dt { "Input of the execution" }
                dd { (given::payload(input)) }
            }
        }
    }
}

fn deciders(escalation: &Escalation) -> Markup {
    html! {
        "one person with the role " b { (said_within(&escalation.roles.join(" or "), 120)) }
        @if !escalation.initiator.is_empty() {
            ", but not " (said_within(&escalation.initiator, 60)) ", who started it"
        }
    }
}

fn attempts(history: &[StepAttempt], now: Now) -> Markup {
    let skipped = history.len().saturating_sub(MOST_ATTEMPTS);
    html! {
        ol.past {
            @for attempt in &history[skipped..] {
                li {
                    "attempt " (attempt.attempt)
                    @if branch_number(&attempt.branch) != "0" { " on branch " (said_within(branch_number(&attempt.branch), 20)) }
                    @if !attempt.worker.is_empty() { ", worker " (said_within(&attempt.worker, 60)) }
                    @if !attempt.policy_rule.is_empty() {
                        ", policy rule " code { (said_within(&attempt.policy_rule, 60)) } " "
                        (said_within(attempt.policy_decision().label(), 60))
                    }
                    @if let Some(error) = &attempt.error { ": " (said_within(&error.message, 160)) }
                    @if let Some(time) = moment(attempt.start_time.as_ref()) {
                        ", " span.muted { (ago(time, now)) }
                    }
                    @if let Some(usage) = &attempt.usage {
                        ", " span.muted { (usage_of(usage)) }
                    }
                }
            }
        }
    }
}

/// The buttons, or why the visitor may not decide. `back` is the page to return to.
pub(crate) fn buttons(escalation: &Escalation, visitor: &Visitor, back: &str) -> Markup {
    let ask = |action: &str| {
        let name = escalation.name.as_str();
        let fields = [("name", name), ("action", action), ("back", back)];
        link("/inbox/resolve", &fields)
    };
    let object = PageObject {
        provider: provider_of(&escalation.name),
        definition: Some(&escalation.definition),
        labels: Some(&escalation.labels),
    };
    let may = may_decide(escalation, &visitor.acting).permitted(visitor, &object);
    html! {
        div.buttons {
            @if may == May::Yes {
                a.button.primary href=(ask("resume")) data-dialog { "Resume…" }
                a.button href=(ask("reassign")) data-dialog { "Reassign…" }
                a.button.danger href=(ask("cancel")) data-dialog { "Cancel the execution…" }
            } @else { (refusal(&may, &escalation.roles, visitor, back)) }
        }
    }
}
