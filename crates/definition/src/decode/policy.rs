//! Retry policies.

use stateway_model::ErrorCategory;

use super::fields::Fields;
use super::value;
use crate::definition::RetryPolicy;
use crate::diagnostic::Problems;
use crate::limits::MAX_RETRIES;
use crate::rule::Rule;
use crate::shape::RETRY_POLICY;
use crate::source::Node;

pub(super) fn retry(node: &Node, problems: &mut Problems) -> Option<RetryPolicy> {
    let fields = Fields::read(node, &RETRY_POLICY, problems)?;
    let default = RetryPolicy::default();
    let initial_delay = fields
        .duration("initialDelay", problems)
        .unwrap_or(default.initial_delay);
    let max_delay = fields
        .duration("maxDelay", problems)
        .unwrap_or_else(|| default.max_delay.max(initial_delay));
    if max_delay < initial_delay {
        problems.error(
            Rule::Contradiction,
            fields.place("maxDelay").unwrap_or(node.at),
            "`maxDelay` is shorter than `initialDelay`",
            "Raise `maxDelay`; it is the longest pause between two attempts.",
        );
    }
    Some(RetryPolicy {
        max_retries: fields
            .count("maxRetries", MAX_RETRIES, problems)
            .unwrap_or(default.max_retries),
        backoff: fields
            .word("backoff", &[], problems)
            .unwrap_or(default.backoff),
        initial_delay,
        max_delay,
        jitter: fields
            .get("jitter")
            .and_then(|node| value::fraction(node, "jitter", problems))
            .unwrap_or_default(),
        retry_on: retry_on(&fields, problems),
    })
}

fn retry_on(fields: &Fields<'_>, problems: &mut Problems) -> Option<Vec<ErrorCategory>> {
    fields.get("retryOn")?;
    let mut categories = Vec::new();
    for node in fields.list("retryOn", problems) {
        let category = value::word(node, "retryOn", &[], problems);
        if category == Some(ErrorCategory::Governance) {
            problems.error(
                Rule::RetryOfGovernance,
                node.at,
                "`governance` failures are never retried",
                "Remove it; a person decides about a step that a policy has denied.",
            );
        }
        categories.extend(category);
    }
    categories.sort_unstable();
    categories.dedup();
    Some(categories)
}
