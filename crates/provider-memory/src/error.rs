//! Refusals as provider errors.

use stateway_provider_api::{Error, ErrorKind, Verb};

use crate::script::{Refusal, ScriptError};

pub(crate) fn refused(verb: Verb, refusal: Refusal) -> Error {
    let precondition = |message: &str| Error::precondition(verb, message);
    match refusal {
        Refusal::AlreadyFinished => Error::already_finished(verb, "the execution has finished"),
        Refusal::BeingCompensated => precondition("the execution is being rolled back"),
        Refusal::NeitherHeldNorStuck => precondition("the execution is neither paused nor stuck"),
        Refusal::NothingBacksOff => precondition("no step waits for its next attempt"),
        Refusal::NothingFailed => precondition("no step has failed")
            .with_hint("Name the step from which the execution is to run again."),
        Refusal::NoSuchStep => Error::new(ErrorKind::NotFound, verb, "no such step was reached")
            .with_reason("STEP_NOT_FOUND"),
        Refusal::TooManySignals => Error::new(
            ErrorKind::Throttled,
            verb,
            "too many signals wait for a listener",
        ),
        Refusal::HistoryFull => precondition("the history is full"),
    }
}

pub(crate) fn no_definition<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Error {
    Error::no_definition(name, known).with_hint(
        "Start one of hello, flaky, approval, stuck, doomed, fan-out, long; or script, with a \
         script as its JSON input.",
    )
}

pub(crate) fn bad_script(error: &ScriptError) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        Verb::Start,
        format!("the input is not a script: {error}"),
    )
}

pub(crate) fn full(most: usize) -> Error {
    Error::new(
        ErrorKind::Throttled,
        Verb::Start,
        format!("the limit of {most} executions is reached, and none of them has finished"),
    )
    .with_hint("Cancel executions, or raise `max_executions`.")
}

/// A step does what its script says; there is nothing that an input could change.
pub(crate) fn no_step_input() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        Verb::RetryFrom,
        "this provider takes no other input for a step",
    )
    .with_hint("Retry without an input, or start another execution with it.")
}
