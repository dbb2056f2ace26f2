//! Statuses and broken rules as errors of the trait.

use std::error::Error as StdError;

use stateway_provider_api::{Error, ErrorKind, Verb};
use stateway_wire::{Misfit, error_of};
use tonic::{Code, Status};

/// The error of a call that did not succeed.
pub(crate) fn of_status(status: &Status, verb: Verb) -> Error {
    // Only a status that was made on this side has a source: the connection, not the provider.
    if let Some(source) = status.source() {
        return broken(source, verb);
    }
    // A server built with the same library gives up by the same deadline, in these words.
    if status.details().is_empty() && status.message() == "Timeout expired" {
        return timed_out(verb);
    }
    if is_too_large(status) {
        let message = "the answer of the provider is larger than 4 MiB";
        return Error::new(ErrorKind::Malformed, verb, message)
            .with_reason("PROVIDER_ANSWER_TOO_LARGE");
    }
    error_of(status, verb)
}

fn broken(source: &(dyn StdError + 'static), verb: Verb) -> Error {
    let innermost = innermost(source);
    if innermost.is::<tonic::TimeoutExpired>() {
        return timed_out(verb);
    }
    let message = format!("the connection to the provider broke: {innermost}");
    Error::new(ErrorKind::Unavailable, verb, message)
}

/// The innermost cause, which names what happened.
fn innermost<'e>(error: &'e (dyn StdError + 'static)) -> &'e (dyn StdError + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

/// Both sides refuse a message that is too large with this code and these words.
fn is_too_large(status: &Status) -> bool {
    status.code() == Code::OutOfRange
        && status.details().is_empty()
        && status.message().contains("message length too large")
}

/// The error of an answer that breaks a rule of the contract.
pub(crate) fn malformed(verb: Verb, misfit: &Misfit) -> Error {
    let message = format!("the answer of the provider breaks the contract: {misfit}");
    Error::new(ErrorKind::Malformed, verb, message)
}

/// The error of a call that the provider did not answer in time.
pub(crate) fn timed_out(verb: Verb) -> Error {
    Error::new(
        ErrorKind::Timeout,
        verb,
        "the provider did not answer in time",
    )
}

/// The error of a provider that cannot be reached.
pub(crate) fn unreachable(verb: Verb, why: &(dyn StdError + 'static)) -> Error {
    let message = format!("the provider cannot be reached: {}", innermost(why));
    Error::new(ErrorKind::Unavailable, verb, message)
        .with_hint("Start the provider program, or correct `address` in the configuration.")
}
