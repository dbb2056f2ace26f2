//! The engine's refusals as provider errors.

use stateway_engine::EngineError;
use stateway_provider_api::{Error, ErrorKind, Verb};

/// An error of the engine with kind, reason, message and figures unchanged.
pub(crate) fn refused(verb: Verb, error: EngineError) -> Error {
    let mut refusal = Error::new(error.kind, verb, error.message.clone())
        .with_reason(error.reason)
        .with_hint(error.hint.clone())
        .with_metadata(error.metadata.clone());
    refusal.retry_after = error.retry_after;
    // A gateway that stands by answers, and may take over at any time: no call waits for a breaker then.
    let stands_by = error.reason == "STORE_STANDBY";
    refusal.component = error.component.filter(|_| !stands_by).map(Into::into);
    // The engine reported it, unless the engine did not answer.
    refusal.answered = Some(stands_by || !error.kind.is_outage());
    refusal.with_source(error)
}

pub(crate) fn too_late(verb: Verb) -> Error {
    Error::new(ErrorKind::Timeout, verb, "no answer in time")
}

pub(crate) fn not_json(verb: Verb, what: &str, why: &str) -> Error {
    Error::invalid(verb, format!("the {what} is not JSON: {why}"))
        .with_hint("The built-in engine accepts only JSON.")
}
