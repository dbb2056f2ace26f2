//! A request for an approval, as a card of the inbox and as the context of its question.

use maud::{Markup, html};
use stateway_identity::PageObject;
use stateway_proto::v1::definition_step::Consequence;
use stateway_proto::v1::{Approval, DefinitionStep};

use super::given;
use super::may::{May, may, refusal};
use super::reader::Request;
use crate::fields::link;
use crate::permission::provider_of;
use crate::text::said_within;
use crate::time::{Now, lasting, moment, until};
use crate::visitor::{Acting, Visitor};

/// Whether a visitor may decide, as far as can be known before asking the API.
pub(super) fn may_decide(approval: &Approval, acting: &Acting) -> May {
    may(&approval.initiator, &[&approval.role], acting)
}

/// The card in the inbox.
pub(super) fn card(request: &Request, visitor: &Visitor, now: Now) -> Markup {
    let approval = &request.approval;
    html! {
        li.card.row {
            div.card-head {
                h3 {
                    "Step " (said_within(&approval.step, 60)) " of "
                    (said_within(given::definition(&approval.definition), 60))
                }
                @if let Some(time) = moment(approval.expire_time.as_ref()) {
                    span.expiry { "expires " (until(time, now)) }
                }
            }
            p.muted {
                "Execution " (given::execution(&approval.execution))
                @if let Some(time) = moment(approval.create_time.as_ref()) {
                    ", waiting " (lasting(time, now))
                }
            }
            (context(request, now))
            (buttons(approval, visitor, "/inbox"))
        }
    }
}

/// Everything there is to know before deciding.
pub(super) fn context(request: &Request, now: Now) -> Markup {
    let approval = &request.approval;
    html! {
        dl.known {
            @if approval.payloads_redacted {
                dt { "Input" }
                dd.muted { "Left out: no access rule allows you to read payloads." }
            }
            @if let Some(input) = &approval.input {
                dt { "Input of the step" }
                dd { (given::payload(input)) }
            }
            dt { "Who may decide" }
            dd {
                "one person with the role " b { (said_within(&approval.role, 60)) }
                @if !approval.initiator.is_empty() {
                    ", but not " (said_within(&approval.initiator, 60)) ", who started it"
                }
            }
            @if !approval.policy_rule.is_empty() {
                dt { "Asked for by" }
                dd { "the policy rule " code { (said_within(&approval.policy_rule, 60)) } }
            } @else if let Some(step) = &request.step { (rules(step)) }
            @if !approval.labels.is_empty() {
                dt { "Labels" }
                dd { (given::labels(&approval.labels)) }
            }
            @if !request.earlier.is_empty() {
                dt { "Asked before" }
                dd {
                    ol.past {
                        @for past in request.earlier.iter().rev().take(20) {
                            li {
                                "request " (said_within(last(&past.name), 80)) ": "
                                (given::decision(past.state(), past.decision.as_ref(), now))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// `{step}~{attempt}` of a name.
fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn rules(step: &DefinitionStep) -> Markup {
    html! {
        dt { "If rejected" }
        dd { (follows(step.on_reject())) }
        dt { "Without a decision" }
        dd {
            @if step.summary.is_empty() { "the step waits without a limit" }
            @else { (said_within(&step.summary, 60)) ", then " (follows(step.on_expiry())) }
        }
    }
}

const fn follows(consequence: Consequence) -> &'static str {
    match consequence {
        Consequence::Cancel => "the execution is cancelled",
        Consequence::Fail => "the step fails",
        Consequence::Escalate => "it is escalated: a person has to resume, reassign or cancel",
        Consequence::Unspecified => "its definition decides",
    }
}

/// The buttons, or why the visitor may not decide. `back` is the page to return to.
pub(crate) fn buttons(approval: &Approval, visitor: &Visitor, back: &str) -> Markup {
    let ask = |answer: &str| {
        let name = approval.name.as_str();
        let fields = [("name", name), ("answer", answer), ("back", back)];
        link("/inbox/decide", &fields)
    };
    let object = PageObject {
        provider: provider_of(&approval.name),
        definition: Some(&approval.definition),
        labels: Some(&approval.labels),
    };
    let may = may_decide(approval, &visitor.acting).permitted(visitor, &object);
    html! {
        div.buttons {
            @if may == May::Yes {
                a.button.primary href=(ask("grant")) data-dialog { "Grant…" }
                a.button.danger href=(ask("reject")) data-dialog { "Reject…" }
            } @else { (refusal(&may, &[&approval.role], visitor, back)) }
        }
    }
}
