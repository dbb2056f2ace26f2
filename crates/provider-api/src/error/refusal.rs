//! The refusals that the contract names: one wording, reason and hint each, for every adapter.

use stateway_model::ExecutionId;

use crate::{Error, ErrorKind, Verb, nearest};

impl Error {
    /// The answer to a verb whose capability is off.
    #[must_use]
    pub fn unsupported(verb: Verb) -> Self {
        let message = format!("this provider does not support `{verb}`");
        Self::new(ErrorKind::Unsupported, verb, message)
            .with_hint("{GetProvider} lists the capabilities of each provider.")
    }

    /// The answer to a request that is wrong in any state.
    #[must_use]
    pub fn invalid(verb: Verb, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, verb, message)
    }

    /// The answer to a request that is right, but not in the present state.
    #[must_use]
    pub fn precondition(verb: Verb, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::FailedPrecondition, verb, message)
    }

    /// The answer to a cursor of another list or of another provider.
    #[must_use]
    pub fn foreign_cursor(verb: Verb) -> Self {
        Self::invalid(verb, "the cursor does not belong to this provider").without_engine()
    }

    /// The answer for an execution that does not exist.
    #[must_use]
    pub fn not_found(verb: Verb, id: &ExecutionId) -> Self {
        Self::new(ErrorKind::NotFound, verb, format!("no execution `{id}`"))
    }

    /// The answer for a step that the execution does not have.
    #[must_use]
    pub fn no_step(verb: Verb, step: &str) -> Self {
        Self::new(ErrorKind::NotFound, verb, format!("no step `{step}`"))
            .with_reason("STEP_NOT_FOUND")
    }

    /// The answer to a start of a definition that the provider does not have, with the known one that
    /// was probably meant.
    #[must_use]
    pub fn no_definition<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        let message = format!("no definition `{name}`");
        let error = Self::new(ErrorKind::NotFound, Verb::Start, message)
            .with_reason("DEFINITION_NOT_FOUND");
        match nearest(name, known) {
            Some(similar) => error.with_suggestion(similar),
            None => error,
        }
    }

    /// The answer to a write that a finished execution does not take.
    #[must_use]
    pub fn already_finished(verb: Verb, message: impl Into<String>) -> Self {
        Self::precondition(verb, message)
            .with_reason("ALREADY_FINISHED")
            .with_hint("Start a new execution, or run this one again from a step with {RetryFrom}.")
    }

    /// The answer to a verb that takes only finished executions.
    #[must_use]
    pub fn not_finished(verb: Verb) -> Self {
        Self::precondition(verb, "the execution has not finished")
            .with_reason("NOT_FINISHED")
            .with_hint("Cancel or kill it first.")
    }

    /// The answer to a request id that was used for another request.
    #[must_use]
    pub fn request_id_reused(verb: Verb) -> Self {
        let message = "the request id was used with another body";
        Self::new(ErrorKind::AlreadyExists, verb, message)
            .with_reason("REQUEST_ID_REUSED")
            .with_hint("Use a new request id for every new request.")
    }

    /// The answer to a start whose execution id another request has taken.
    #[must_use]
    pub fn execution_exists(id: impl std::fmt::Display) -> Self {
        let message = format!("execution `{id}` exists");
        Self::new(ErrorKind::AlreadyExists, Verb::Start, message)
            .with_reason("EXECUTION_ALREADY_EXISTS")
    }

    /// The answer to a signal that no step waits for, where the engine keeps no signal for later.
    #[must_use]
    pub fn not_awaited(message: impl Into<String>) -> Self {
        Self::precondition(Verb::Signal, message).with_reason("SIGNAL_NOT_AWAITED")
    }
}
