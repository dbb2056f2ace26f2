//! Statuses and broken rules as errors of the trait.

use std::error::Error as StdError;

use h2::Reason;
use stateway_provider_api::{Error, ErrorKind, Verb};
use stateway_wire::{Misfit, error_of};
use tonic::{Code, Status};

/// The reason of an answer that breaks a rule of the contract.
pub(crate) const BREAKS_CONTRACT: &str = "PROVIDER_ANSWER_MALFORMED";
/// The reason of an answer that is too large.
pub(crate) const TOO_LARGE: &str = "PROVIDER_ANSWER_TOO_LARGE";

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
        let message =
            "the answer of the provider is larger than 4 MiB, or has more than 50,000 entries";
        return Error::new(ErrorKind::Malformed, verb, message).with_reason(TOO_LARGE);
    }
    error_of(status, verb)
}

fn broken(source: &(dyn StdError + 'static), verb: Verb) -> Error {
    if let Some(reason) = reset(source) {
        return reset_by_provider(reason, verb);
    }
    let innermost = innermost(source);
    if innermost.is::<tonic::TimeoutExpired>() {
        return timed_out(verb);
    }
    let message = format!("the connection to the provider broke: {innermost}");
    Error::new(ErrorKind::Unavailable, verb, message)
}

/// Why the stream of one call was reset, if this is what happened: the connection lives, and so does the
/// provider.
fn reset(error: &(dyn StdError + 'static)) -> Option<Reason> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.reason().filter(|_| error.is_reset());
        }
        next = error.source();
    }
    None
}

/// The error of a call whose stream the provider reset instead of answering.
fn reset_by_provider(reason: Reason, verb: Verb) -> Error {
    let kind = match reason {
        Reason::REFUSED_STREAM | Reason::ENHANCE_YOUR_CALM => ErrorKind::Throttled,
        _ => ErrorKind::Internal,
    };
    let message = format!("the provider reset the call instead of answering it: {reason}");
    Error::new(kind, verb, message).by_engine()
}

/// The innermost cause, which names what happened.
fn innermost<'e>(error: &'e (dyn StdError + 'static)) -> &'e (dyn StdError + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

/// Servers and clients refuse a message that is too large in these words: those of tonic and of this side's
/// own codec, and those of the gRPC core library and of Go.
fn is_too_large(status: &Status) -> bool {
    let words = match status.code() {
        Code::OutOfRange => "message length too large",
        Code::ResourceExhausted => "larger than max",
        _ => return false,
    };
    status.details().is_empty() && status.message().contains(words)
}

/// The error of an answer that breaks a rule of the contract.
pub(crate) fn malformed(verb: Verb, misfit: &Misfit) -> Error {
    let message = format!("the answer of the provider breaks the contract: {misfit}");
    Error::new(ErrorKind::Malformed, verb, message).with_reason(BREAKS_CONTRACT)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_large_is_known_in_the_words_of_every_library() {
        for status in [
            Status::out_of_range("Error, decoded message length too large: found 9 bytes"),
            Status::resource_exhausted("Sent message larger than max (9 vs. 4)"),
            Status::resource_exhausted("trying to send message larger than max (9 vs. 4)"),
        ] {
            let error = of_status(&status, Verb::Get);
            assert_eq!(
                (error.kind, error.reason()),
                (ErrorKind::Malformed, TOO_LARGE)
            );
        }
        let throttled = of_status(&Status::resource_exhausted("slow down"), Verb::Get);
        assert_eq!(throttled.kind, ErrorKind::Throttled);
    }
}
