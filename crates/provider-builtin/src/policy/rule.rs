//! One policy rule: when it applies, and what it decides.

use std::sync::Arc;

use stateway_engine::{PolicyQuestion, PolicyVerdict, Ruling};
use stateway_provider_api::filter::Filter;

use super::PolicyCondition;

/// One policy rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) when: Filter<PolicyCondition>,
    pub(super) verdict: PolicyVerdict,
}

impl Rule {
    pub(super) fn applies_to(&self, question: &PolicyQuestion<'_>) -> bool {
        self.when.holds(&|condition| condition.holds(question))
    }

    pub(super) fn ruling(&self) -> Ruling {
        Ruling {
            rule: Arc::clone(&self.name),
            verdict: self.verdict.clone(),
        }
    }
}
