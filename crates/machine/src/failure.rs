//! The failure of an attempt, and whether a retry, a correction or a person follows.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stateway_definition::RetryPolicy;
use stateway_model::{ErrorCategory, Reason, words};

use crate::limits::cut_message;

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The kind of failure.
    pub category: ErrorCategory,
    /// What brought it about.
    pub cause: FailureCause,
    /// One line for a person.
    pub message: Arc<str>,
    /// The worker's own code for it; empty when it has none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub code: Arc<str>,
    /// The worker says that no other attempt can succeed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_retry: bool,
    /// The attempt may have taken effect although it failed: its worker did not answer, or its child
    /// ended with completed steps that were not compensated. A rollback compensates it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub effects_unknown: bool,
    /// How long to wait before another attempt, where the worker says so.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::backoff::millis"
    )]
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure that a worker reported.
    #[must_use]
    pub fn reported(category: ErrorCategory, message: impl Into<Arc<str>>) -> Self {
        Self {
            category,
            cause: FailureCause::Reported,
            message: message.into(),
            code: "".into(),
            no_retry: false,
            effects_unknown: false,
            retry_after: None,
        }
    }

    pub(crate) fn of(
        cause: FailureCause,
        category: ErrorCategory,
        message: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            category,
            cause,
            message: message.into(),
            code: "".into(),
            no_retry: false,
            effects_unknown: false,
            retry_after: None,
        }
    }

    /// The same with its texts cut to what an event holds.
    pub(crate) fn cut(mut self) -> Self {
        self.message = cut_message(&self.message);
        self.code = cut_message(&self.code);
        self
    }

    /// Why an execution ends that ends by this failure.
    pub(crate) const fn reason(&self, retried: bool) -> Reason {
        match (self.cause, self.category) {
            (FailureCause::Rejected, _) => Reason::Rejected,
            (_, ErrorCategory::Timeout) => Reason::TimedOut,
            (_, ErrorCategory::Governance) => Reason::Governance,
            _ if retried => Reason::RetriesExhausted,
            _ => Reason::NotRetryable,
        }
    }
}

words! {
    /// What brought a failure about.
    pub enum FailureCause as "failure cause" {
        /// The worker, or the child, reported it.
        Reported = "reported",
        /// The attempt took too long.
        TimedOut = "timed_out",
        /// The worker was silent for too long. Only in logs of version 1: since then the attempt
        /// goes to another worker.
        WentSilent = "went_silent",
        /// No worker took the attempt in time.
        QueueTimedOut = "queue_timed_out",
        /// Too many workers in a row were lost with the attempt.
        WorkerLost = "worker_lost",
        /// A policy rule denies the attempt.
        PolicyDenied = "policy_denied",
        /// The execution or the step has used up its budget.
        BudgetExceeded = "budget_exceeded",
        /// The output does not match its schema.
        InvalidOutput = "invalid_output",
        /// A reference of the step has no value, or its condition cannot be judged.
        BadInput = "bad_input",
        /// A person rejected.
        Rejected = "rejected",
        /// No person decided in time.
        Expired = "expired",
    }
}

/// What an attempt's failure calls for, before the step's `onFailure` applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Transient: try again after a pause.
    Retry,
    /// Validation: try again with the validator's feedback.
    Correct,
    /// A policy forbids it: a person has to decide.
    Escalate,
    /// Terminal: `onFailure` decides.
    Terminal,
}

/// Classifies a failure. `failures` and `corrections` count the ones so far, this one included.
#[must_use]
pub(crate) fn classify(
    failure: &Failure,
    policy: Option<&RetryPolicy>,
    failures: u32,
    corrections: u32,
    max_corrections: u32,
) -> Class {
    if failure.category == ErrorCategory::Governance {
        return Class::Escalate;
    }
    let correctable = failure.category == ErrorCategory::Validation
        && failure.cause != FailureCause::BadInput
        && !failure.no_retry
        && corrections < max_corrections;
    if correctable {
        return Class::Correct;
    }
    if is_retried(failure, policy) && failures <= allowed_retries(policy) {
        Class::Retry
    } else {
        Class::Terminal
    }
}

/// How many retries a step may have.
pub(crate) fn allowed_retries(policy: Option<&RetryPolicy>) -> u32 {
    policy.map_or(RetryPolicy::default().max_retries, |policy| {
        policy.max_retries
    })
}

/// Whether a failure of this kind is retried at all. A worker can rule it out; an attempt that no
/// worker took, or that was lost with its workers, is retried like a transient failure.
pub(crate) fn is_retried(failure: &Failure, policy: Option<&RetryPolicy>) -> bool {
    if failure.no_retry || failure.cause == FailureCause::BadInput {
        return false;
    }
    let queued = failure.cause == FailureCause::QueueTimedOut;
    let listed = policy.and_then(|policy| policy.retry_on.as_ref());
    is_retried_category(failure.category, policy) || queued && listed.is_none()
}

/// Transient failures are retried; an agent's and the outside's where the step has a retry policy;
/// timeouts, invalid data and forbidden things are not. `retryOn` overrides.
fn is_retried_category(category: ErrorCategory, policy: Option<&RetryPolicy>) -> bool {
    if let Some(listed) = policy.and_then(|policy| policy.retry_on.as_ref()) {
        return listed.contains(&category) && category != ErrorCategory::Governance;
    }
    match category {
        ErrorCategory::Transient => true,
        ErrorCategory::AgentError | ErrorCategory::External => policy.is_some(),
        ErrorCategory::Timeout | ErrorCategory::Validation | ErrorCategory::Governance => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(category: ErrorCategory, policy: Option<&RetryPolicy>) -> Class {
        classify(&Failure::reported(category, "x"), policy, 1, 0, 0)
    }

    #[test]
    fn each_category_has_its_default() {
        use ErrorCategory::{AgentError, External, Governance, Timeout, Transient, Validation};
        let policy = RetryPolicy::default();
        for (category, without, with) in [
            (Transient, Class::Retry, Class::Retry),
            (AgentError, Class::Terminal, Class::Retry),
            (Timeout, Class::Terminal, Class::Terminal),
            (Validation, Class::Terminal, Class::Terminal),
            (External, Class::Terminal, Class::Retry),
            (Governance, Class::Escalate, Class::Escalate),
        ] {
            assert_eq!(class(category, None), without, "{category}");
            assert_eq!(class(category, Some(&policy)), with, "{category}");
        }
    }

    #[test]
    fn a_step_overrides_the_defaults_by_retry_on() {
        let only_timeouts = RetryPolicy {
            retry_on: Some(vec![ErrorCategory::Timeout]),
            ..RetryPolicy::default()
        };
        assert_eq!(
            class(ErrorCategory::Timeout, Some(&only_timeouts)),
            Class::Retry
        );
        assert_eq!(
            class(ErrorCategory::Transient, Some(&only_timeouts)),
            Class::Terminal
        );
    }

    #[test]
    fn an_invalid_output_is_corrected_until_the_bound() {
        let failure = Failure::of(FailureCause::InvalidOutput, ErrorCategory::Validation, "x");
        assert_eq!(classify(&failure, None, 1, 0, 2), Class::Correct);
        assert_eq!(classify(&failure, None, 3, 2, 2), Class::Terminal);
    }

    #[test]
    fn a_reference_without_a_value_is_never_retried() {
        let failure = Failure::of(FailureCause::BadInput, ErrorCategory::Validation, "x");
        let policy = RetryPolicy {
            retry_on: Some(vec![ErrorCategory::Validation]),
            ..RetryPolicy::default()
        };
        assert_eq!(classify(&failure, Some(&policy), 1, 0, 5), Class::Terminal);
    }
}
