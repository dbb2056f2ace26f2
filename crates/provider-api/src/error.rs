//! How a provider refuses or fails: one error type with a closed list of kinds.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

pub use stateway_model::ErrorKind;

use crate::Verb;

/// The result of every provider call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a provider call did not do what was asked.
#[derive(Debug)]
pub struct Error {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// What was being done.
    pub verb: Verb,
    /// What happened: a lower-case fragment, no secrets, no stack traces.
    pub message: String,
    /// A sentence that tells the reader what to do; may be empty.
    pub hint: String,
    /// The engine's own error name or code, verbatim; may be empty.
    pub native_code: String,
    /// A finer machine-readable reason than the kind's, in UPPER_SNAKE_CASE.
    pub reason: Option<&'static str>,
    /// The component of the engine that failed while the rest of the engine may answer, for example
    /// `ingress`. The outage of a component counts against this verb only, not against the provider.
    pub component: Option<&'static str>,
    /// The name that the caller probably meant instead of an unknown one.
    pub suggestion: Option<Box<str>>,
    /// Figures and names for programs, by key.
    pub metadata: Box<[(&'static str, String)]>,
    /// How long to wait before trying again, where the engine says.
    pub retry_after: Option<Duration>,
    /// Whether this error is the engine's own answer; `None`: as the kind implies
    /// ([`engine_answered`](Self::engine_answered)).
    pub answered: Option<bool>,
    /// What lies underneath.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, verb: Verb, message: impl Into<String>) -> Self {
        Self {
            kind,
            verb,
            message: message.into(),
            hint: String::new(),
            native_code: String::new(),
            reason: None,
            component: None,
            suggestion: None,
            metadata: Box::default(),
            retry_after: None,
            answered: None,
            source: None,
        }
    }

    /// The answer to a verb whose capability is off.
    #[must_use]
    pub fn unsupported(verb: Verb) -> Self {
        Self::new(
            ErrorKind::Unsupported,
            verb,
            format!("this provider cannot {verb}"),
        )
        .with_hint("GetProvider lists the capabilities of each provider.")
    }

    /// The answer for an execution that does not exist.
    #[must_use]
    pub fn not_found(verb: Verb, id: &stateway_model::ExecutionId) -> Self {
        Self::new(ErrorKind::NotFound, verb, format!("no execution `{id}`"))
    }

    /// The answer to a write that a finished execution does not take.
    #[must_use]
    pub fn already_finished(verb: Verb, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::FailedPrecondition, verb, message)
            .with_reason("ALREADY_FINISHED")
            .with_hint("Start a new execution, or run this one again from a step with RetryFrom.")
    }

    /// Adds a sentence that tells the reader what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds the engine's own error name or code.
    #[must_use]
    pub fn with_native_code(mut self, code: impl Into<String>) -> Self {
        self.native_code = code.into();
        self
    }

    /// Adds a finer reason than the kind's.
    #[must_use]
    pub const fn with_reason(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// Adds the component of the engine that failed.
    #[must_use]
    pub const fn with_component(mut self, component: &'static str) -> Self {
        self.component = Some(component);
        self
    }

    /// Adds the name that the caller probably meant.
    #[must_use]
    pub fn with_suggestion(mut self, name: impl Into<Box<str>>) -> Self {
        self.suggestion = Some(name.into());
        self
    }

    /// Adds figures and names for programs, by key.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Vec<(&'static str, String)>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// Adds how long to wait before trying again.
    #[must_use]
    pub const fn with_retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// Marks an error that the adapter found without an answer of the engine: an id that cannot exist,
    /// a foreign cursor, a quota of the adapter's own. The circuit breaker learns nothing from it.
    #[must_use]
    pub const fn without_engine(mut self) -> Self {
        self.answered = Some(false);
        self
    }

    /// Marks an error that is the engine's own answer, where the kind alone does not imply that.
    #[must_use]
    pub const fn by_engine(mut self) -> Self {
        self.answered = Some(true);
        self
    }

    /// Whether the engine answered, so that the error shows that the engine works.
    #[must_use]
    pub const fn engine_answered(&self) -> bool {
        match self.answered {
            Some(answered) => answered,
            None => self.kind.implies_answer(),
        }
    }

    /// Adds what lies underneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The machine-readable reason: the finer one if given, else the kind's.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason.unwrap_or(self.kind.reason())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verb, self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}
