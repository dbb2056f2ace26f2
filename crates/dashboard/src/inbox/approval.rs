//! A request for a yes or a no, as a card and as the context of its question.

use jiff::Timestamp;
use maud::{Markup, html};
use stateway_proto::v1::{Approval, DefinitionStep};

use super::desk::Request;
use super::given;
use crate::fields::link;
use crate::text::said_within;
use crate::time::{lasting, moment, until};
use crate::visitor::{Acting, Visitor};

/// Whether a visitor may decide, as far as can be told before asking.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum May {
    Yes,
    /// Nobody is named.
    SayWho,
    /// Who started it does not decide about it.
    Own,
    /// The role is missing.
    NotOfTheRole,
}

pub(super) fn may_decide(approval: &Approval, acting: &Acting) -> May {
    if acting.actor.is_empty() {
        return May::SayWho;
    }
    if approval.initiator == acting.actor {
        return May::Own;
    }
    let has = acting.roles.split(',').any(|role| role == approval.role);
    match has {
        true => May::Yes,
        false => May::NotOfTheRole,
    }
}

/// The card in the inbox.
pub(super) fn card(request: &Request, visitor: &Visitor, now: Timestamp) -> Markup {
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
            (buttons(approval, visitor))
        }
    }
}

/// Everything there is to know before deciding.
pub(super) fn context(request: &Request, now: Timestamp) -> Markup {
    let approval = &request.approval;
    html! {
        dl.known {
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
            @if let Some(step) = &request.step { (rules(step)) }
            @if !approval.labels.is_empty() {
                dt { "Labels" }
                dd { (given::labels(&approval.labels)) }
            }
            @if !approval.past.is_empty() {
                dt { "Asked before" }
                dd {
                    ol.past {
                        @for past in approval.past.iter().rev().take(20) {
                            li {
                                "request " (past.attempt) ": "
                                (given::decision(past.state(), past.decision.as_ref(), now))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn rules(step: &DefinitionStep) -> Markup {
    html! {
        dt { "If denied" }
        dd { (follows(&step.on_reject)) }
        dt { "If nobody decides" }
        dd {
            @if step.summary.is_empty() { "it waits, without an end" }
            @else { (said_within(&step.summary, 60)) ", then " (follows(&step.on_expiry)) }
        }
    }
}

fn follows(word: &str) -> &'static str {
    match word {
        "cancel" => "the execution is cancelled",
        "fail" => "the step fails",
        "escalate" => "it is escalated: a person has to resume, reassign or cancel",
        _ => "its definition decides",
    }
}

fn buttons(approval: &Approval, visitor: &Visitor) -> Markup {
    let ask = |answer: &str| {
        let fields = [("name", approval.name.as_str()), ("answer", answer)];
        link("/inbox/decide", &fields)
    };
    let role = &approval.role;
    html! {
        div.buttons {
            @match may_decide(approval, &visitor.acting) {
                May::Yes => {
                    a.button.primary href=(ask("grant")) data-dialog { "Grant…" }
                    a.button.danger href=(ask("deny")) data-dialog { "Deny…" }
                }
                May::SayWho => {
                    a.button href=(link("/acting", &[("back", "/inbox")])) data-dialog {
                        "Say who you are to decide"
                    }
                }
                May::Own => { p.hint { "You started this, so someone else has to decide." } }
                May::NotOfTheRole => {
                    p.hint {
                        "Only the role " b { (said_within(role, 60)) } " decides. "
                        @if !visitor.acting.fixed {
                            a href=(link("/acting", &[("back", "/inbox")])) data-dialog {
                                "Change your roles"
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_decide_is_told_before_asking() {
        let approval = Approval {
            role: "ops".into(),
            initiator: "ada".into(),
            ..Approval::default()
        };
        let acting = |actor: &str, roles: &str| Acting {
            actor: actor.into(),
            roles: roles.into(),
            fixed: false,
        };
        let may = |actor, roles| may_decide(&approval, &acting(actor, roles));
        assert_eq!(may("", ""), May::SayWho);
        assert_eq!(may("ada", "ops"), May::Own);
        assert_eq!(may("eve", "dev,opsx"), May::NotOfTheRole);
        assert_eq!(may("eve", "dev,ops"), May::Yes);
    }
}
