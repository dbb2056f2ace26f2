//! How a provider refuses or fails: one error type with a closed list of kinds.

mod refusal;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

pub use stateway_model::ErrorKind;

use crate::Verb;

/// The result of every provider call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a provider call failed or was refused. Its parts are read and set as fields: `error.kind`.
///
/// It is one pointer, because every result of a call has room for an error and hardly any has one.
#[derive(Debug, Clone)]
pub struct Error(Box<ErrorParts>);

/// The parts of an [`Error`].
///
/// Texts may be owned, so that an error of another process can be shown as it is. A clone shares its
/// source.
#[derive(Debug, Clone)]
pub struct ErrorParts {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The verb that failed.
    pub verb: Verb,
    /// The message: a lower-case fragment without secrets and stack traces.
    pub message: String,
    /// What the reader should do, with actions as [`stateway_model::hint`] refers to them; may be empty.
    pub hint: String,
    /// The engine's own error name or code, verbatim; may be empty.
    pub native_code: String,
    /// A finer machine-readable reason than the kind's, in UPPER_SNAKE_CASE.
    pub reason: Option<Cow<'static, str>>,
    /// The component of the engine that failed while the rest of the engine may answer, for example
    /// `ingress`. The outage of a component counts against this verb only, not against the provider.
    pub component: Option<Cow<'static, str>>,
    /// The name that the caller probably meant instead of an unknown one.
    pub suggestion: Option<Box<str>>,
    /// Figures and names for programs, by key.
    pub metadata: Box<[(Cow<'static, str>, String)]>,
    /// How long to wait before the next try, if the engine sends a delay.
    pub retry_after: Option<Duration>,
    /// Whether this error is the engine's own answer; `None`: as the kind implies
    /// ([`engine_answered`](Error::engine_answered)).
    pub answered: Option<bool>,
    /// The source of the error.
    pub source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, verb: Verb, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorParts {
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
        }))
    }

    /// Adds what the reader should do.
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
    pub fn with_reason(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Adds the component of the engine that failed.
    #[must_use]
    pub fn with_component(mut self, component: impl Into<Cow<'static, str>>) -> Self {
        self.component = Some(component.into());
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
    pub fn with_metadata<K: Into<Cow<'static, str>>>(
        mut self,
        metadata: impl IntoIterator<Item = (K, String)>,
    ) -> Self {
        let metadata = metadata.into_iter();
        self.metadata = metadata.map(|(key, value)| (key.into(), value)).collect();
        self
    }

    /// Adds how long to wait before trying again.
    #[must_use]
    pub fn with_retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// Marks an error that the adapter found without an answer of the engine: an id that cannot exist,
    /// a foreign cursor, a quota of the adapter's own. The circuit breaker learns nothing from it.
    #[must_use]
    pub fn without_engine(mut self) -> Self {
        self.answered = Some(false);
        self
    }

    /// Marks an error that is the engine's own answer, where the kind alone does not imply that.
    #[must_use]
    pub fn by_engine(mut self) -> Self {
        self.answered = Some(true);
        self
    }

    /// Whether the engine answered, so that the error shows that the engine works.
    #[must_use]
    pub fn engine_answered(&self) -> bool {
        match self.answered {
            Some(answered) => answered,
            None => self.kind.implies_answer(),
        }
    }

    /// Adds the source of the error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The message, by value.
    #[must_use]
    pub fn into_message(self) -> String {
        self.0.message
    }

    /// The machine-readable reason: the finer one if given, else the kind's.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or(self.kind.reason())
    }
}

impl Deref for Error {
    type Target = ErrorParts;

    fn deref(&self) -> &ErrorParts {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut ErrorParts {
        &mut self.0
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
