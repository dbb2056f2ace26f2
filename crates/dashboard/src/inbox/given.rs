//! A payload, a label, a decision: what cards and questions show alike.

use maud::{Markup, html};
use stateway_proto::v1::approval::State;
use stateway_proto::v1::resolution::Action;
use stateway_proto::v1::{Decision, Escalation, Payload};

use crate::executions::path_of;
use crate::text::{cut, lines, said, said_within, set_out};
use crate::time::{Now, ago, moment};

/// The longest payload that is shown, in characters.
const LONGEST: usize = 20_000;

/// A payload, JSON set out in lines.
pub(super) fn payload(payload: &Payload) -> Markup {
    let text = set_out(&payload.data);
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(&payload.data));
    html! {
        @match cut(&text, LONGEST) {
            None => pre tabindex="0" { code { (lines(&text)) } },
            Some(short) => {
                pre tabindex="0" { code { (lines(short)) } }
                p.hint { "Truncated: the full length is " (payload.data.len()) " bytes." }
            },
        }
    }
}

/// A link to an execution, by its id.
pub(super) fn execution(name: &str) -> Markup {
    let (_, id) = crate::executions::shown(name);
    html! { a href=(path_of(name)) { (said_within(&id, 60)) } }
}

/// A definition without `definitions/`.
pub(super) fn definition(name: &str) -> &str {
    name.strip_prefix("definitions/").unwrap_or(name)
}

/// Labels, in order.
pub(super) fn labels(labels: &std::collections::HashMap<String, String>) -> Markup {
    let mut pairs: Vec<_> = labels.iter().collect();
    pairs.sort();
    html! {
        ul.labels {
            @for (key, value) in pairs.into_iter().take(32) {
                li { (said_within(key, 60)) "=" (said_within(value, 60)) }
            }
        }
    }
}

/// Who decided what, when and why.
pub(super) fn decision(state: State, decision: Option<&Decision>, now: Now) -> Markup {
    html! {
        span.verdict.(class(state)) { (word(state)) }
        @if let Some(made) = decision { (by(made, now)) }
    }
}

fn by(made: &Decision, now: Now) -> Markup {
    html! {
        " by " b { (said_within(&made.decided_by, 60)) }
        @if let Some(time) = moment(made.decide_time.as_ref()) { " " (ago(time, now)) }
        @if !made.comment.is_empty() { q { (said(&made.comment)) } }
    }
}

/// How an escalation ended: who resolved it how, when and why.
pub(super) fn resolution(escalation: &Escalation, now: Now) -> Markup {
    let Some(resolution) = &escalation.resolution else {
        return html! { span.verdict.other { "withdrawn" } };
    };
    html! {
        span.verdict.other { (resolved(resolution.action())) }
        @if !resolution.role.is_empty() { " to " (said_within(&resolution.role, 60)) }
        @if let Some(made) = &resolution.decision { (by(made, now)) }
    }
}

const fn resolved(action: Action) -> &'static str {
    match action {
        Action::Resume => "resumed",
        Action::Reassign => "reassigned",
        Action::Cancel => "cancelled",
        Action::Unspecified => "resolved",
    }
}

const fn word(state: State) -> &'static str {
    match state {
        State::Unspecified => "unknown",
        State::Pending => "pending",
        State::Granted => "✓ granted",
        State::Rejected => "✕ rejected",
        State::Expired => "expired",
        State::Withdrawn => "withdrawn",
    }
}

const fn class(state: State) -> &'static str {
    match state {
        State::Granted => "granted",
        State::Rejected => "rejected",
        _ => "other",
    }
}
