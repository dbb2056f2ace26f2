//! Capabilities in words: what each lets one do, and what is missed without it.

use maud::{Markup, html};
use stateway_proto::v1::Capabilities;

/// One capability.
pub(super) struct Capability {
    title: &'static str,
    has: bool,
    /// The effect of the capability, or of its absence.
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
            "Executions are started elsewhere and only shown here.",
        ),
        one(
            "Start once",
            of.start_idempotent,
            "A start repeated with the same request id starts one execution.",
            "A start that is repeated after a lost response may start a second execution.",
        ),
        one(
            "Start later",
            of.start_delayed,
            "A start can be delayed.",
            "The engine cannot delay a start.",
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
            "The engine applies a part of the filters, so that long lists stay fast.",
            "The gateway applies the filters, page by page.",
        ),
        one(
            "Steps",
            of.steps,
            "The engine reports steps.",
            "The engine does not report steps.",
        ),
        one(
            "Attempts",
            of.retries,
            "The engine reports attempts and the time of the next attempt.",
            "The engine does not report attempts: a count of 0 means \u{201c}unknown\u{201d}.",
        ),
        one(
            "History",
            of.history,
            "The engine's own events can be read.",
            "The engine has no readable history.",
        ),
        one(
            "Newest events first",
            of.history_newest_first,
            "The history can be read from its end.",
            "The gateway reads a history from its beginning to show the newest events.",
        ),
        one(
            "Payloads",
            of.payloads,
            "Input and output can be read.",
            "Input and output cannot be read.",
        ),
        one(
            "Labels",
            of.labels,
            "Executions have labels.",
            "The engine has no labels: a start with labels is refused.",
        ),
        one(
            "Watch one execution",
            of.watch_one,
            "The engine pushes changes of an execution.",
            "The gateway polls the execution, at an adaptive interval.",
        ),
        one(
            "Watch for the end",
            of.watch_end,
            "The engine pushes the end of an execution.",
            "The gateway watches the execution until it ends.",
        ),
        one(
            "Watch all executions",
            of.watch_all,
            "The engine pushes changes of all executions.",
            "The gateway lists the executions, at an adaptive interval.",
        ),
        one(
            "Signal",
            of.signal,
            "Signals can be sent to waiting steps.",
            "The engine accepts no signals.",
        ),
        one(
            "Signal once",
            of.signal_idempotent,
            "A signal repeated with the same request id arrives once.",
            "A signal that is repeated after a lost response may arrive twice.",
        ),
        one(
            "Cancel",
            of.cancel,
            "An execution can be cancelled.",
            "The engine cannot cancel an execution.",
        ),
        one(
            "Choose compensation",
            of.cancel_compensation,
            "A cancel can choose whether completed steps are compensated.",
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
            "An execution can be paused.",
            "The engine cannot pause an execution.",
        ),
        one(
            "Resume",
            of.resume,
            "A paused or stuck execution can be resumed.",
            "The engine cannot resume an execution.",
        ),
        one(
            "Retry now",
            of.retry_now,
            "The next attempt can be started immediately.",
            "The next attempt cannot be started before its scheduled time.",
        ),
        one(
            "Retry now once",
            of.retry_now_idempotent,
            "A retry repeated with the same request id makes one attempt.",
            "A retry that is repeated after a lost response may make another attempt.",
        ),
        one(
            "Retry from a step",
            of.retry_from,
            "An execution can be run again from a step.",
            "An execution cannot be run again from a step; start a new execution instead.",
        ),
        one(
            "Retry from a step once",
            of.retry_from_idempotent,
            "A retry from a step repeated with the same request id runs the steps again once.",
            "A retry from a step that is repeated after a lost response may run the steps twice.",
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
            "Native definitions can be read.",
            "Native definitions cannot be read here.",
        ),
        one(
            "Apply definitions",
            of.apply_definition,
            "Native definitions can be created and changed.",
            "Native definitions can be changed only with the engine's own tools.",
        ),
        one(
            "Portable definitions",
            of.portable_definitions,
            "Portable definitions run here.",
            "Only the engine's own definitions run here.",
        ),
        one(
            "Triggers",
            of.triggers,
            "Events and schedules start executions.",
            "Neither events nor schedules start executions.",
        ),
        one(
            "Approvals",
            of.approvals,
            "Approvals and escalations are in the inbox.",
            "The engine does not ask for approvals.",
        ),
        one(
            "Approvals pushed",
            of.watch_approvals,
            "Changes of the inbox come from the engine.",
            "The gateway polls for changes of the inbox.",
        ),
        one(
            "Workers",
            of.workers,
            "Workers get tasks from the gateway.",
            "The gateway hands out no tasks.",
        ),
        one(
            "Event log",
            of.event_log,
            "Branches, attempts of steps and recordings can be read.",
            "Branches, attempts of steps and recordings cannot be read.",
        ),
        one(
            "Recovery",
            of.recovery,
            "Executions can be verified and recovered.",
            "Executions cannot be verified or recovered.",
        ),
        one(
            "Store",
            of.store,
            "The store can be backed up, and many executions purged together.",
            "The gateway does not manage the engine's store.",
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
            "A call that is not supported is answered with " code { "CAPABILITY_NOT_SUPPORTED" }
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
    use prost::Message as _;

    use super::*;

    #[test]
    fn every_capability_of_the_api_has_its_words() {
        let nothing = all(&Capabilities::default());
        assert!(nothing.iter().all(|one| !one.has));
        let api = prost_types::FileDescriptorSet::decode(stateway_proto::DESCRIPTORS).unwrap();
        let mut messages = api.file.iter().flat_map(|file| &file.message_type);
        let message = messages.find(|message| message.name() == "Capabilities");
        assert_eq!(nothing.len(), message.unwrap().field.len());
    }
}
