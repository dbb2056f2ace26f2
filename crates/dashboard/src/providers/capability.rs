//! Capabilities in words: what each lets one do, and what is missed without it.

use maud::{Markup, html};
use stateway_proto::v1::Capabilities;

/// One capability.
pub(super) struct Capability {
    title: &'static str,
    has: bool,
    /// What it gives, or what its absence means.
    meaning: &'static str,
}

/// All of them, in the order of a person's questions.
pub(super) fn all(of: &Capabilities) -> Vec<Capability> {
    let one = |title, has, with, without| Capability {
        title,
        has,
        meaning: if has { with } else { without },
    };
    vec![
        one(
            "Start",
            of.start,
            "Executions can be started here.",
            "Executions are started elsewhere and only looked at here.",
        ),
        one(
            "Start once",
            of.start_idempotent,
            "A start repeated with the same request id starts nothing twice.",
            "A start that is repeated after a lost answer may start twice.",
        ),
        one(
            "Start later",
            of.start_delayed,
            "A start can be put off.",
            "The engine has no way to put off a start.",
        ),
        one(
            "List",
            of.list,
            "Its executions are in the list.",
            "The engine cannot list: executions are found by name only.",
        ),
        one(
            "Count",
            of.count,
            "Its executions are counted by sub-state.",
            "Its executions are not in the counts above the list.",
        ),
        one(
            "Filter in the engine",
            of.list_hints,
            "The engine helps with filters, so that long lists stay quick.",
            "The gateway filters by itself, page by page.",
        ),
        one(
            "Steps",
            of.steps,
            "Steps are seen one by one.",
            "The engine shows an execution as a whole, without steps.",
        ),
        one(
            "Attempts",
            of.retries,
            "Attempts and the time of the next one are known.",
            "Attempts are not known: a count of 0 means \u{201c}not told\u{201d}.",
        ),
        one(
            "History",
            of.history,
            "The engine's own events can be read.",
            "The engine keeps no history that can be read.",
        ),
        one(
            "Payloads",
            of.payloads,
            "Input and output can be read.",
            "Input and output cannot be read back.",
        ),
        one(
            "Labels",
            of.labels,
            "Executions carry labels.",
            "The engine has no labels: those given at the start are refused.",
        ),
        one(
            "Watch",
            of.watch,
            "The engine tells of changes by itself.",
            "Changes are found by asking again, at a pace that adapts.",
        ),
        one(
            "Signal",
            of.signal,
            "Signals can be sent to what waits for them.",
            "The engine takes no signals from outside.",
        ),
        one(
            "Signal once",
            of.signal_idempotent,
            "A signal repeated with the same request id arrives once.",
            "A signal that is repeated after a lost answer may arrive twice.",
        ),
        one(
            "Cancel",
            of.cancel,
            "An execution can be ended in an orderly way.",
            "The engine cannot cancel.",
        ),
        one(
            "Choose compensation",
            of.cancel_compensation,
            "A cancel takes the choice whether completed steps are compensated.",
            "A cancel takes no choice about compensation; the engine's own rule applies.",
        ),
        one(
            "Kill",
            of.kill,
            "An execution can be ended immediately.",
            "The engine cannot end an execution immediately, without cleaning up.",
        ),
        one(
            "Pause",
            of.pause,
            "An execution can be held.",
            "The engine cannot hold an execution.",
        ),
        one(
            "Resume",
            of.resume,
            "What is held can go on.",
            "The engine has nothing to resume.",
        ),
        one(
            "Retry now",
            of.retry_now,
            "A back-off can be cut short.",
            "A back-off cannot be cut short: the next attempt comes at its time.",
        ),
        one(
            "Retry from a step",
            of.retry_from,
            "Work can be done again from a step on.",
            "Work cannot be done again from a step on; start anew instead.",
        ),
        one(
            "Purge",
            of.purge,
            "Records of finished executions can be removed.",
            "The engine removes its records by its own rules.",
        ),
        one(
            "Own definitions",
            of.definitions,
            "Its own definitions can be read.",
            "Its own definitions cannot be read here.",
        ),
        one(
            "Apply definitions",
            of.apply_definition,
            "Its own definitions can be made and changed.",
            "Its own definitions are made with the engine's own tools.",
        ),
    ]
}

/// How many there are of all.
pub(super) fn counted(of: &Capabilities) -> Markup {
    let all = all(of);
    let has = all.iter().filter(|one| one.has).count();
    html! { (has) " of " (all.len()) }
}

/// Two lists: what it can, and what it cannot with what that means.
pub(super) fn render(of: &Capabilities) -> Markup {
    let (can, cannot): (Vec<_>, Vec<_>) = all(of).into_iter().partition(|one| one.has);
    html! {
        div.columns {
            div {
                h3 { "It can" }
                ul.capabilities { @for one in &can { (line(one, "✓", "has")) } }
            }
            div {
                h3 { "It cannot" }
                @if cannot.is_empty() { p.nothing { "Nothing is missing." } }
                @else { ul.capabilities { @for one in &cannot { (line(one, "–", "lacks")) } } }
            }
        }
        p.hint {
            "What is not supported answers " code { "CAPABILITY_NOT_SUPPORTED" }
            ", and its buttons are not shown."
        }
    }
}

fn line(one: &Capability, sign: &str, class: &str) -> Markup {
    html! {
        li class=(class) {
            span.sign aria-hidden="true" { (sign) }
            span { b { (one.title) } " " span.muted { (one.meaning) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_of_the_api_has_its_words() {
        let nothing = all(&Capabilities::default());
        assert!(nothing.iter().all(|one| !one.has));
        // As many as the message has fields: each is a varint of two or three bytes when it is set.
        let full = prost_fields();
        assert_eq!(nothing.len(), full);
    }

    fn prost_fields() -> usize {
        let text = format!("{:?}", Capabilities::default());
        text.matches(": false").count()
    }
}
