//! The engine's refusals as provider errors.

use stateway_engine::{EngineError, ErrorKind as EngineKind};
use stateway_provider_api::{Error, ErrorKind, Verb};

/// One kind for every kind of the engine's; its word is kept.
pub(crate) fn refused(verb: Verb, error: EngineError) -> Error {
    let kind = match error.kind {
        _ if error.reason == "STEP_INPUT_NOT_SUPPORTED" => ErrorKind::Unsupported,
        EngineKind::Invalid => ErrorKind::InvalidArgument,
        EngineKind::NotFound => ErrorKind::NotFound,
        EngineKind::AlreadyExists => ErrorKind::AlreadyExists,
        EngineKind::FailedPrecondition | EngineKind::Conflict => ErrorKind::FailedPrecondition,
        EngineKind::Forbidden => ErrorKind::PermissionDenied,
        EngineKind::Busy => ErrorKind::Throttled,
        EngineKind::Unavailable => ErrorKind::Unavailable,
        EngineKind::Corrupt => ErrorKind::Malformed,
    };
    let mut refusal = Error::new(kind, verb, error.message.clone())
        .with_hint(error.hint.clone())
        .with_native_code(error.reason);
    // What everyone calls by the kind's own word keeps it.
    if !matches!(
        kind,
        ErrorKind::Unsupported
            | ErrorKind::Throttled
            | ErrorKind::Unavailable
            | ErrorKind::Malformed
    ) {
        refusal = refusal.with_reason(error.reason);
    }
    if refusal.reason() == "ALREADY_FINISHED" {
        // The same hint as every provider has: it names the call, which clients turn into a command.
        refusal.hint = Error::already_finished(verb, "").hint;
    }
    if let Some(pause) = error.retry_after {
        refusal = refusal.with_retry_after(pause);
    }
    refusal.with_source(error)
}

pub(crate) fn too_late(verb: Verb) -> Error {
    Error::new(ErrorKind::Timeout, verb, "no answer in time")
}

pub(crate) fn not_json(verb: Verb, what: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        verb,
        format!("the {what} is not JSON: {why}"),
    )
    .with_hint("The built-in engine takes JSON documents.")
}

pub(crate) fn foreign_cursor(verb: Verb) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        verb,
        "the cursor is not one of this provider's",
    )
}
