//! How the engine refuses or fails: one error type with the kinds of every layer.

use std::fmt;
use std::time::Duration;

use stateway_driver::refusal_of;
use stateway_machine::Rejection;
pub use stateway_model::ErrorKind;
use thiserror::Error;

use crate::StoreError;

/// The result of asking the engine for something.
pub(crate) type Result<T, E = EngineError> = std::result::Result<T, E>;

/// How often a store that could not be written is tried again.
pub(crate) const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Why the engine did not do what was asked.
#[derive(Debug, Clone, Error)]
#[error("{message}")]
pub struct EngineError {
    /// The kind of the failure.
    pub kind: ErrorKind,
    /// A stable word for programs.
    pub reason: &'static str,
    /// A lower-case fragment for people.
    pub message: String,
    /// What to do about it, with actions as `stateway_model::hint` refers to them; may be empty.
    pub hint: Box<str>,
    /// The component that failed while the rest of the engine may answer: `store` or `keeper`.
    pub component: Option<&'static str>,
    /// How long to wait before trying again, where that helps.
    pub retry_after: Option<Duration>,
    /// Figures and names for programs, by key.
    pub metadata: Vec<(&'static str, String)>,
}

impl EngineError {
    pub(crate) fn new(kind: ErrorKind, reason: &'static str, message: impl fmt::Display) -> Self {
        Self {
            kind,
            reason,
            message: message.to_string(),
            hint: Box::default(),
            component: None,
            retry_after: None,
            metadata: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.metadata.push((key, value.to_string()));
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(crate) const fn of(mut self, component: &'static str) -> Self {
        self.component = Some(component);
        self
    }

    pub(crate) fn no_execution(id: &str) -> Self {
        Self::new(
            ErrorKind::NotFound,
            "EXECUTION_NOT_FOUND",
            format_args!("there is no execution `{id}`"),
        )
        .hint("{ListExecutions} shows every execution.")
    }

    pub(crate) fn no_definition(name: &str) -> Self {
        Self::new(
            ErrorKind::NotFound,
            "DEFINITION_NOT_FOUND",
            format_args!("there is no definition `{name}`"),
        )
        .hint("{ListDefinitions} shows every definition.")
    }

    pub(crate) fn no_revision(name: &str, revision: &str) -> Self {
        Self::new(
            ErrorKind::NotFound,
            "REVISION_NOT_FOUND",
            format_args!("the definition `{name}` has no revision {revision}"),
        )
        .hint(format!("{{GetDefinition {name}}} lists the revisions."))
    }

    /// The same reason as for an unknown definition: a program treats both alike.
    pub(crate) fn deleted_definition(name: &str) -> Self {
        Self::new(
            ErrorKind::NotFound,
            "DEFINITION_NOT_FOUND",
            format_args!("the definition `{name}` was deleted"),
        )
        .hint("Apply it again with {ApplyDefinition}.")
    }

    pub(crate) fn request_reused() -> Self {
        Self::new(
            ErrorKind::AlreadyExists,
            "REQUEST_ID_REUSED",
            "the request id was used for another request",
        )
        .hint("Use a new request id for a new request.")
    }

    pub(crate) fn stopped() -> Self {
        Self::new(
            ErrorKind::Unavailable,
            "ENGINE_STOPPED",
            "the engine has stopped",
        )
        .of("keeper")
    }

    /// The answer to every caller of a turn that a panic ended.
    pub(crate) fn turn_abandoned() -> Self {
        Self::new(
            ErrorKind::Unavailable,
            "TURN_ABANDONED",
            "a defect of the engine ended the processing of this and other requests",
        )
        .hint("Repeat the request with the same request id. The log of the gateway has the cause.")
        .of("keeper")
    }

    /// The answer for an execution whose processing panicked.
    pub(crate) fn set_aside(why: &str) -> Self {
        Self::new(ErrorKind::Internal, "EXECUTION_SET_ASIDE", why).hint(
            "The engine does not process the execution until the process restarts; its log is \
             unchanged. Report the defect.",
        )
    }

    /// The answer to a request that was lost while the engine continues.
    pub(crate) fn request_lost() -> Self {
        Self::new(
            ErrorKind::Internal,
            "REQUEST_ABANDONED",
            "a defect ended the processing of the request",
        )
        .hint("Read the execution before repeating the request. The log of the gateway has the cause.")
    }

    /// The answer to a read that panicked.
    pub(crate) fn read_abandoned() -> Self {
        Self::new(
            ErrorKind::Internal,
            "READ_ABANDONED",
            "a defect ended the read; the engine continues",
        )
        .hint("The log of the gateway has the cause. Report the defect.")
    }

    pub(crate) fn corrupt(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::DataLoss, "LOG_UNREADABLE", message)
            .hint("Nothing was changed. Check the file, or restore a backup.")
    }
}

impl From<Rejection> for EngineError {
    fn from(rejection: Rejection) -> Self {
        let (kind, reason) = refusal_of(&rejection);
        Self::new(kind, reason, &rejection).hint(rejection.hint())
    }
}

impl EngineError {
    /// The error sent to every caller waiting on the failed commit.
    pub(crate) fn from_store(error: &StoreError) -> Self {
        let kind = match error {
            StoreError::Corrupt { .. } => ErrorKind::DataLoss,
            _ => ErrorKind::Unavailable,
        };
        let mut failed = Self::new(kind, error.reason(), error)
            .hint(error.hint())
            .of("store");
        failed.retry_after = (kind == ErrorKind::Unavailable).then_some(TRY_AGAIN);
        failed
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        Self::from_store(&error)
    }
}
