//! How a task fails, and what it cost.

use std::fmt;
use std::time::Duration;

use stateway_proto::v1;

/// The category of a failure. It decides whether the step is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// Temporary: always retried.
    Transient,
    /// The worker failed: retried if the step has a retry policy.
    AgentError,
    /// Took too long: retried only if `retryOn` lists it.
    Timeout,
    /// The data is wrong: corrected if the step allows it, else not retried.
    Validation,
    /// An external system failed: retried if the step has a retry policy.
    External,
    /// A policy forbids it: a person has to decide.
    Governance,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 6] = [
        Self::Transient,
        Self::AgentError,
        Self::Timeout,
        Self::Validation,
        Self::External,
        Self::Governance,
    ];

    /// The category as definitions write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::AgentError => "agent_error",
            Self::Timeout => "timeout",
            Self::Validation => "validation",
            Self::External => "external",
            Self::Governance => "governance",
        }
    }
}

impl From<Category> for v1::ErrorCategory {
    fn from(category: Category) -> Self {
        match category {
            Category::Transient => Self::Transient,
            Category::AgentError => Self::AgentError,
            Category::Timeout => Self::Timeout,
            Category::Validation => Self::Validation,
            Category::External => Self::External,
            Category::Governance => Self::Governance,
        }
    }
}

/// The cost of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens read by a model.
    pub input_tokens: u64,
    /// Tokens written by a model.
    pub output_tokens: u64,
    /// The cost, in millionths of the currency unit.
    pub cost_micros: u64,
}

impl From<Usage> for v1::Usage {
    fn from(usage: Usage) -> Self {
        Self {
            input_token_count: figure(usage.input_tokens),
            output_token_count: figure(usage.output_tokens),
            cost_micros: figure(usage.cost_micros),
        }
    }
}

/// Converts a number for the API.
fn figure(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Why a task failed.
///
/// `?` converts every standard error, with [`Category::AgentError`]. To choose the category:
/// `Err(TaskError::transient("the carrier is busy"))`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError {
    pub(crate) category: Category,
    pub(crate) message: String,
    pub(crate) code: String,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) no_retry: bool,
    pub(crate) effects_unknown: bool,
    pub(crate) usage: Option<Usage>,
}

/// One constructor per category.
macro_rules! constructors {
    ($($name:ident = $category:ident, $doc:literal;)+) => { $(
        #[doc = $doc]
        pub fn $name(message: impl Into<String>) -> Self {
            Self::new(Category::$category, message)
        }
    )+ };
}

impl TaskError {
    /// A failure of this category.
    pub fn new(category: Category, message: impl Into<String>) -> Self {
        Self {
            category,
            message: message.into(),
            code: String::new(),
            retry_after: None,
            no_retry: false,
            effects_unknown: false,
            usage: None,
        }
    }

    constructors! {
        transient = Transient, "A temporary failure.";
        agent_error = AgentError, "A failure of the worker.";
        timed_out = Timeout, "Took too long.";
        validation = Validation, "The data is wrong.";
        external = External, "An external system failed.";
        governance = Governance, "A policy forbids it.";
    }

    /// The worker's own code for it.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// The next attempt starts after this long at the earliest.
    #[must_use]
    pub const fn retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// No other attempt can succeed: the task is not retried, whatever its category and the step's
    /// retry policy.
    #[must_use]
    pub const fn no_retry(mut self) -> Self {
        self.no_retry = true;
        self
    }

    /// The attempt may have taken effect although it failed: a rollback compensates the step.
    #[must_use]
    pub const fn effects_unknown(mut self) -> Self {
        self.effects_unknown = true;
        self
    }

    /// The cost of the failed attempt.
    #[must_use]
    pub const fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Its category.
    #[must_use]
    pub const fn category(&self) -> Category {
        self.category
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.category.as_str(), self.message)
    }
}

/// Not a standard error itself, so that every standard error can be converted.
impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        Self::agent_error(error.to_string())
    }
}
