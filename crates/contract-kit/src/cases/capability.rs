//! A verb whose capability is off answers `Unsupported`, whatever it is asked of. A verb whose
//! capability is on never does, so that no adapter forgets a method.

use stateway_provider_api::{ErrorKind, Verb};

use super::unknown::ask;
use crate::case::{Stop, ensure};
use crate::stage::refused_because;
use crate::{Case, Outcome, Stage};

/// The verbs that can be off, each with its capability.
const VERBS: &[(Verb, &[&str])] = &[
    (Verb::Start, &["start"]),
    (Verb::List, &["list"]),
    (Verb::Count, &["count"]),
    (Verb::History, &["history"]),
    (Verb::WatchOne, &["watch_one"]),
    (Verb::WatchEnd, &["watch_end"]),
    (Verb::WatchAll, &["watch_all"]),
    (Verb::Signal, &["signal"]),
    (Verb::Cancel, &["cancel"]),
    (Verb::Kill, &["kill"]),
    (Verb::Pause, &["pause"]),
    (Verb::Resume, &["resume"]),
    (Verb::RetryNow, &["retry_now"]),
    (Verb::RetryFrom, &["retry_from"]),
    (Verb::Purge, &["purge"]),
    (Verb::Definitions, &["definitions"]),
    (Verb::ApplyDefinition, &["apply_definition"]),
    (Verb::WatchApprovals, &["watch_approvals"]),
];

pub(super) fn cases() -> Vec<Case> {
    let off = VERBS.iter().map(|(verb, needs)| {
        let name = format!("capability_off::{verb}_answers_unsupported");
        let case = Case::new(name, &[], move |stage| {
            Box::pin(is_unsupported(stage, *verb))
        });
        case.without(needs[0])
    });
    let on = VERBS.iter().map(|(verb, needs)| {
        let name = format!("capability_on::{verb}_is_implemented");
        Case::new(name, needs, move |stage| {
            Box::pin(is_implemented(stage, *verb))
        })
    });
    off.chain(on).collect()
}

async fn is_implemented(stage: Stage, verb: Verb) -> Outcome {
    match ask(&stage, verb).await {
        Err(error) if error.kind == ErrorKind::Unsupported => Err(Stop::Failed(format!(
            "its capability is on, and yet: {error}"
        ))),
        _ => Ok(()),
    }
}

async fn is_unsupported(stage: Stage, verb: Verb) -> Outcome {
    let capabilities = stage.provider.capabilities();
    ensure!(
        !verb.is_offered(&capabilities),
        "the provider still offers it"
    );
    let kind = ErrorKind::Unsupported;
    let reason = "CAPABILITY_NOT_SUPPORTED";
    refused_because(verb.as_str(), ask(&stage, verb).await, kind, reason)
}
